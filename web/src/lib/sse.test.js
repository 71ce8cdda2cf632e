import { expect, test } from 'vitest';

import { SseParser } from './sse.js';

const bytes = (text) => new TextEncoder().encode(text);

/** What comes of `all` when it arrives in pieces that end at `cuts`. */
function parsedWithCuts(all, cuts) {
  const parser = new SseParser();
  const items = [];
  let begin = 0;
  for (const end of [...cuts, all.length]) {
    items.push(...parser.push(all.subarray(begin, end)));
    begin = end;
  }
  return items;
}

const STREAM = bytes(
  ': ping\n\n: salvage {"stage":"queued","place":2}\n\ndata: {"a":"天气é😀"}\n\n' +
    'event: x\r\ndata: one\r\ndata: two\r\n\r\ndata:tight\n\ndata\n\ndata: [DONE]\n\n',
);
const ITEMS = [
  { kind: 'comment', text: 'ping' },
  { kind: 'comment', text: 'salvage {"stage":"queued","place":2}' },
  { kind: 'data', data: '{"a":"天气é😀"}' },
  { kind: 'data', data: 'one\ntwo' },
  { kind: 'data', data: 'tight' },
  { kind: 'data', data: '' },
  { kind: 'data', data: '[DONE]' },
];

test('a stream that comes at once', () => {
  expect(parsedWithCuts(STREAM, [])).toEqual(ITEMS);
});

test('a stream that is cut at any byte, within a character too', () => {
  for (let cut = 0; cut <= STREAM.length; cut++) {
    expect(parsedWithCuts(STREAM, [cut]), `cut at ${cut}`).toEqual(ITEMS);
  }
});

test('a stream that comes byte by byte', () => {
  const cuts = Array.from({ length: STREAM.length }, (_, at) => at);
  expect(parsedWithCuts(STREAM, cuts)).toEqual(ITEMS);
});

test('an event without its blank line is not given out', () => {
  expect(parsedWithCuts(bytes('data: half\n'), [])).toEqual([]);
  expect(parsedWithCuts(bytes('data: half'), [])).toEqual([]);
});

test('lines that end with a carriage return alone', () => {
  expect(parsedWithCuts(bytes('data: a\r\rdata: b\r\r:'), [])).toEqual([
    { kind: 'data', data: 'a' },
    { kind: 'data', data: 'b' },
  ]);
});

import { expect, test } from 'vitest';

import { begun, ended, statusParts, withEvent } from './status.js';
import { words } from './words.js';

/** The line as it is read, after events at their times (in seconds). */
function line(events, { now, language = 'en', phase } = {}) {
  let status = begun(0);
  for (const [seconds, event] of events) status = withEvent(status, event, seconds * 1000);
  if (phase) status = ended(status, phase, now * 1000);
  const parts = statusParts(status, (now ?? 0) * 1000);
  return parts.map((part) => words(language, part.key, part.values)).join(phase ? ' · ' : ' → ');
}

const queued = (place) => ({ kind: 'queued', place });
const read = (done, total, cached = 0) => ({ kind: 'progress', done, total, cached });
const token = { kind: 'text', text: 'x' };
const usage = (prompt, cached, answer) => ({ kind: 'usage', prompt, cached, answer });

test('before anything is heard', () => {
  expect(line([])).toBe('sent');
});

test('the whole way: queue, prompt, answer', () => {
  const events = [
    [1, queued(3)],
    [2, queued(2)],
  ];
  expect(line(events)).toBe('queued 2nd');
  events.push([3, read(0, 2048)]);
  expect(line(events)).toBe('queued 2nd → reading prompt 0/2048');
  events.push([13, read(410, 2048)], [22.8, read(812, 2048)]);
  expect(line(events)).toBe('queued 2nd → reading prompt 812/2048 (41 tok/s)');
  events.push([53, read(2048, 2048)], [54, token]);
  expect(line(events)).toBe('queued 2nd → reading prompt 2048/2048 (41 tok/s) → writing');
  for (let at = 1; at <= 10; at++) events.push([54 + at / 3.1, token]);
  expect(line(events, { now: 54 + 10 / 3.1 })).toBe(
    'queued 2nd → reading prompt 2048/2048 (41 tok/s) → 3.1 tok/s',
  );
});

test('what was in the cache does not count as read', () => {
  const events = [
    [0, read(1900, 2000, 1900)],
    [10, read(1950, 2000, 1900)],
  ];
  expect(line(events)).toBe('reading prompt 1950/2000 (5.0 tok/s)');
});

test('a pause makes the answer slower, while it lasts', () => {
  const events = [0, 1, 2].map((at) => [at, token]);
  expect(line(events, { now: 2 })).toBe('1.0 tok/s');
  expect(line(events, { now: 9 })).toBe('0.3 tok/s');
});

test('the end: counts of the server, rates of this page', () => {
  const events = [[0, read(0, 100)], [10, read(100, 100)], [10, token], [11, token], [12, token], [12, usage(100, 0, 5)]];
  expect(line(events, { now: 12, phase: 'done' })).toBe('100 tokens read at 10 tok/s · 5 written at 2.0 tok/s');
});

test('the end of an answer whose prompt was mostly in the cache', () => {
  const events = [[0, read(80, 100, 80)], [4, read(100, 100, 80)], [4, token], [5, token], [5, usage(100, 80, 2)]];
  expect(line(events, { now: 5, phase: 'done' })).toBe(
    '100 tokens read (80 cached) at 5.0 tok/s · 2 written at 1.0 tok/s',
  );
});

test('a handful of tokens has no rate, and the last one is read with the first that is written', () => {
  const events = [[0, read(94, 100, 94)], [1, read(99, 100, 94)], [2, token]];
  expect(line(events.slice(0, 2), { now: 1 })).toBe('reading prompt 99/100');
  expect(line(events, { now: 2 })).toBe('reading prompt 100/100 → writing');
  events.push([3, token], [3, usage(100, 94, 2)]);
  expect(line(events, { now: 3, phase: 'done' })).toBe('100 tokens read (94 cached) · 2 written at 1.0 tok/s');
});

test('a prompt that was read between two news', () => {
  const events = [[1, read(0, 100)], [2, token], [3, token], [3, usage(100, 0, 2)]];
  expect(line(events, { now: 3, phase: 'done' })).toBe('100 tokens read at 50 tok/s · 2 written at 1.0 tok/s');
});

test('an answer that was stopped says how far it came', () => {
  const events = [[1, token], [2, token], [3, token]];
  expect(line(events, { now: 3.2, phase: 'stopped' })).toBe('stopped · 3 written at 1.0 tok/s');
  expect(line([], { now: 1, phase: 'stopped' })).toBe('stopped');
});

test('the same in Chinese', () => {
  const events = [[1, queued(2)], [3, read(0, 2048)], [22.8, read(812, 2048)]];
  expect(line(events, { language: 'zh-CN' })).toBe('排队第 2 位 → 读取提示词 812/2048（41 tok/s）');
});

import { afterEach, expect, test, vi } from 'vitest';

import { eventsOfStream, getJson, listModels, streamAnswer } from './api.js';

const frame = (json) => `data: ${JSON.stringify(json)}\n\n`;
const delta = (fields, reason = null) => frame({ choices: [{ index: 0, delta: fields, finish_reason: reason }] });

async function* chunksOf(text) {
  yield new TextEncoder().encode(text);
}

async function collected(events) {
  const all = [];
  for await (const event of events) all.push(event);
  return all;
}

afterEach(() => vi.unstubAllGlobals());

test('a whole answer: queue, prompt, thoughts, text, end, counts', async () => {
  const text =
    ': ping\n\n' +
    delta({ role: 'assistant', content: '' }) +
    ': salvage {"stage":"queued","place":2}\n\n' +
    ': salvage {"stage":"prefill","done":1,"total":3}\n\n' +
    frame({ choices: [{ delta: {} }], prompt_progress: { total: 3, cache: 1, processed: 2, time_ms: 9 } }) +
    delta({ reasoning_content: 'hm' }) +
    delta({ content: 'blue' }) +
    delta({}, 'length') +
    frame({ choices: [], usage: { prompt_tokens: 3, completion_tokens: 2, prompt_tokens_details: { cached_tokens: 1 } } }) +
    'data: [DONE]\n\n';
  expect(await collected(eventsOfStream(chunksOf(text)))).toEqual([
    { kind: 'queued', place: 2 },
    { kind: 'progress', done: 2, total: 3, cached: 1 },
    { kind: 'reasoning', text: 'hm' },
    { kind: 'text', text: 'blue' },
    { kind: 'finish', reason: 'length' },
    { kind: 'usage', prompt: 3, cached: 1, answer: 2 },
  ]);
});

test('an error within the stream is thrown with its code, after what came before', async () => {
  const text = delta({ content: 'a' }) + frame({ error: { code: 'node_lost', message: 'pi-3 is gone' } });
  const seen = [];
  const read = async () => {
    for await (const event of eventsOfStream(chunksOf(text + 'data: [DONE]\n\n'))) seen.push(event);
  };
  await expect(read()).rejects.toMatchObject({ code: 'node_lost', message: 'pi-3 is gone' });
  expect(seen).toEqual([{ kind: 'text', text: 'a' }]);
});

test('a stream that ends without [DONE] was cut off; one that is no JSON is unreadable', async () => {
  await expect(collected(eventsOfStream(chunksOf(delta({ content: 'a' }))))).rejects.toMatchObject({
    code: 'cut_off',
  });
  await expect(collected(eventsOfStream(chunksOf('data: <html>\n\n')))).rejects.toMatchObject({
    code: 'unreadable',
  });
});

test('foreign comments and broken news are passed over', async () => {
  const text = ': salvage {"stage"\n\n: salvage {"stage":"other"}\n\n: hello\n\ndata: [DONE]\n\n';
  expect(await collected(eventsOfStream(chunksOf(text)))).toEqual([]);
});

test('what is refused before the stream has its code, its status and when to come back', async () => {
  const body = JSON.stringify({ error: { code: 'queue_full', message: 'full', type: 'rate_limit_error' } });
  vi.stubGlobal('fetch', async () => new Response(body, { status: 429, headers: { 'Retry-After': '10' } }));
  await expect(collected(streamAnswer({ messages: [] }))).rejects.toMatchObject({
    code: 'queue_full',
    status: 429,
    retryAfter: 10,
    asksForKey: false,
  });
});

test('a proxy that answers in HTML is an error without a known code', async () => {
  vi.stubGlobal('fetch', async () => new Response('<h1>Bad Gateway</h1>', { status: 502 }));
  await expect(getJson('v1/models')).rejects.toMatchObject({ code: 'other', message: 'HTTP 502' });
});

test('a server that is not there is unreachable; a stop stays a stop', async () => {
  vi.stubGlobal('fetch', async () => {
    throw new TypeError('Failed to fetch');
  });
  await expect(getJson('v1/models')).rejects.toMatchObject({ code: 'unreachable' });
  vi.stubGlobal('fetch', async () => {
    throw new DOMException('stopped', 'AbortError');
  });
  await expect(getJson('v1/models')).rejects.toMatchObject({ name: 'AbortError' });
});

test('the key goes as a bearer token, and only if there is one', async () => {
  const seen = [];
  vi.stubGlobal('fetch', async (path, options) => {
    seen.push([path, options.headers.Authorization]);
    return new Response(JSON.stringify({ data: [{ id: 'm', status: { value: 'loading', progress: 0.5 } }, { id: 'n' }] }));
  });
  const models = await listModels({ key: 'sk-1' });
  await listModels({ key: '' });
  expect(seen).toEqual([
    ['v1/models', 'Bearer sk-1'],
    ['v1/models', undefined],
  ]);
  expect(models).toEqual([
    { id: 'm', state: 'loading', progress: 0.5, context: 0 },
    { id: 'n', state: 'loaded', progress: null, context: 0 },
  ]);
});

test('the request asks for a stream with counts and progress', async () => {
  let sent;
  vi.stubGlobal('fetch', async (path, options) => {
    sent = { path, method: options.method, body: JSON.parse(options.body) };
    return new Response('data: [DONE]\n\n');
  });
  await collected(streamAnswer({ model: 'm', messages: [{ role: 'user', content: '你好' }] }));
  expect(sent).toEqual({
    path: 'v1/chat/completions',
    method: 'POST',
    body: {
      model: 'm',
      messages: [{ role: 'user', content: '你好' }],
      stream: true,
      stream_options: { include_usage: true },
      return_progress: true,
    },
  });
});

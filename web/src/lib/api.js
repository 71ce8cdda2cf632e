// What the page asks of the server that it came from. Addresses are relative to the page, so that it
// also works behind a proxy that puts it into a folder.

import { Fault, faultOf, faultOfException, faultOfResponse } from './fault.js';
import { SseParser } from './sse.js';

function headersWith(key, more = {}) {
  return key ? { ...more, Authorization: `Bearer ${key}` } : more;
}

async function ask(path, options) {
  let response;
  try {
    response = await fetch(path, { ...options, cache: 'no-store', credentials: 'same-origin' });
  } catch (error) {
    throw faultOfException(error);
  }
  if (!response.ok) throw await faultOfResponse(response);
  return response;
}

/** A GET that answers JSON. */
export async function getJson(path, { key = '', signal } = {}) {
  const response = await ask(path, { headers: headersWith(key), signal });
  try {
    return await response.json();
  } catch (error) {
    if (error?.name === 'AbortError') throw error;
    throw new Fault('unreadable', { status: response.status });
  }
}

/** The models that the cluster knows: {id, state, context}. */
export async function listModels(options) {
  const body = await getJson('v1/models', options);
  return (body.data ?? []).map((model) => ({
    id: String(model.id),
    state: model.status?.value ?? 'loaded',
    progress: model.status?.progress ?? null,
    context: model.context_length ?? 0,
  }));
}

/**
 * What one frame of the stream says, as none or several of
 *   {kind: 'queued', place} {kind: 'progress', done, total, cached} {kind: 'text', text}
 *   {kind: 'reasoning', text} {kind: 'finish', reason} {kind: 'usage', prompt, cached, answer}
 * Throws the Fault of an error frame.
 */
export function eventsOf(json) {
  if (json.error) throw faultOf(json);
  const events = [];
  const progress = json.prompt_progress;
  if (progress) {
    events.push({
      kind: 'progress',
      done: progress.processed,
      total: progress.total,
      cached: progress.cache ?? 0,
    });
  }
  const choice = json.choices?.[0];
  const reasoning = choice?.delta?.reasoning_content;
  if (reasoning) events.push({ kind: 'reasoning', text: reasoning });
  if (choice?.delta?.content) events.push({ kind: 'text', text: choice.delta.content });
  if (choice?.finish_reason) events.push({ kind: 'finish', reason: choice.finish_reason });
  if (json.usage) {
    events.push({
      kind: 'usage',
      prompt: json.usage.prompt_tokens,
      cached: json.usage.prompt_tokens_details?.cached_tokens ?? 0,
      answer: json.usage.completion_tokens,
    });
  }
  return events;
}

/** The server's own news are comments: `salvage {"stage":"queued","place":2}`. */
export function eventsOfComment(text) {
  if (!text.startsWith('salvage {')) return [];
  try {
    const news = JSON.parse(text.slice('salvage '.length));
    return news.stage === 'queued' ? [{ kind: 'queued', place: news.place }] : [];
  } catch {
    return [];
  }
}

function parsed(data) {
  try {
    return JSON.parse(data);
  } catch {
    throw new Fault('unreadable', { message: data.slice(0, 200) });
  }
}

/** The events of a stream of bytes; ends after [DONE], and throws if the stream ends before it. */
export async function* eventsOfStream(chunks) {
  const parser = new SseParser();
  for await (const bytes of chunks) {
    for (const item of parser.push(bytes)) {
      if (item.kind === 'comment') {
        yield* eventsOfComment(item.text);
      } else if (item.data === '[DONE]') {
        return;
      } else {
        yield* eventsOf(parsed(item.data));
      }
    }
  }
  throw new Fault('cut_off');
}

async function* chunksOf(response) {
  const reader = response.body.getReader();
  try {
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return;
      yield value;
    }
  } finally {
    reader.cancel().catch(() => {});
  }
}

/** Asks for an answer; yields its events. Aborting `signal` closes the connection: the work stops. */
export async function* streamAnswer({ model, messages, key, signal }) {
  const response = await ask('v1/chat/completions', {
    method: 'POST',
    headers: headersWith(key, { 'Content-Type': 'application/json' }),
    body: JSON.stringify({
      model,
      messages,
      stream: true,
      stream_options: { include_usage: true },
      return_progress: true,
    }),
    signal,
  });
  try {
    yield* eventsOfStream(chunksOf(response));
  } catch (error) {
    throw faultOfException(error);
  }
}

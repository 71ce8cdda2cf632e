// How far an answer is: "queued 2nd → reading prompt 812/2048 (41 tok/s) → 3.1 tok/s". A value that
// each event makes anew, and the parts of the line that it gives; no clock and no words in here, the
// caller passes milliseconds and looks the words up.

/** The rate of the answer is that of the newest tokens, so that a slower machine is seen at once. */
const WINDOW_MS = 5000;
const WINDOW_TOKENS_MAX = 64;
/** A rate of fewer tokens than these says nothing: most of the time went elsewhere. */
const READ_TOKENS_MIN = 8;

/**
 * @typedef {object} Status
 * @property {'sent'|'queued'|'reading'|'writing'|'done'|'stopped'|'failed'} phase
 * @property {number} sentAt
 * @property {number} place in the queue, as last told; 0: it never waited
 * @property {null | {done: number, total: number, cached: number, from: number, beganAt: number, at: number}} reading
 * @property {number[]} tokenTimes of the newest tokens
 * @property {number} tokens that were counted
 * @property {number} firstTokenAt
 * @property {number} endedAt
 * @property {null | {prompt: number, cached: number, answer: number}} usage
 */

/** @returns {Status} */
export function begun(now) {
  return {
    phase: 'sent',
    sentAt: now,
    place: 0,
    reading: null,
    tokenTimes: [],
    tokens: 0,
    firstTokenAt: 0,
    endedAt: 0,
    usage: null,
  };
}

/** @param {Status} status @param {object} event of streamAnswer() @returns {Status} */
export function withEvent(status, event, now) {
  switch (event.kind) {
    case 'queued':
      return { ...status, phase: 'queued', place: event.place };
    case 'progress':
      return { ...status, phase: 'reading', reading: readingWith(status, event, now) };
    case 'text':
    case 'reasoning':
      return withToken(status, now);
    case 'usage':
      return { ...status, usage: { prompt: event.prompt, cached: event.cached, answer: event.answer } };
    default:
      return status;
  }
}

/** @param {'done'|'stopped'|'failed'} phase */
export function ended(status, phase, now) {
  return { ...status, phase, endedAt: now };
}

// What was in the cache took no time: the rate is of what was computed since the first news.
function readingWith(status, event, now) {
  const before = status.reading;
  const beganAt = before ? before.beganAt : now;
  const from = before ? before.from : event.done;
  return { done: event.done, total: event.total, cached: event.cached, from, beganAt, at: now };
}

function withToken(status, now) {
  const times = [...status.tokenTimes, now].filter((time) => time >= now - WINDOW_MS);
  return {
    ...status,
    phase: 'writing',
    tokens: status.tokens + 1,
    firstTokenAt: status.firstTokenAt || now,
    tokenTimes: times.slice(-WINDOW_TOKENS_MAX),
  };
}

function perSecond(count, milliseconds) {
  return count > 0 && milliseconds > 0 ? (count * 1000) / milliseconds : null;
}

/** Tokens a second, null as long as nothing can be said. */
export function readRate(status) {
  const reading = status.reading;
  if (!reading) return null;
  let tokens = reading.done - reading.from;
  let time = reading.at - reading.beganAt;
  // The whole prompt may be read between two news: then the first token tells when.
  if (tokens <= 0 && status.firstTokenAt) {
    tokens = reading.total - reading.cached;
    time = status.firstTokenAt - status.sentAt;
  }
  return tokens >= READ_TOKENS_MIN ? perSecond(tokens, time) : null;
}

export function writeRate(status, now) {
  if (status.endedAt) {
    const tokens = (status.usage?.answer ?? status.tokens) - 1;
    const last = status.tokenTimes.at(-1) ?? status.endedAt;
    return perSecond(tokens, last - status.firstTokenAt);
  }
  const times = status.tokenTimes;
  if (times.length < 2) return null;
  // Silence since the last token counts once it is longer than the usual step.
  const step = (times.at(-1) - times[0]) / (times.length - 1);
  const until = Math.max(times.at(-1), now - step);
  return perSecond(times.length - 1, until - times[0]);
}

/**
 * The line's parts in order, as word keys and what goes into them.
 * @returns {{key: string, values: object}[]}
 */
export function statusParts(status, now) {
  const parts = [];
  if (status.place > 0) parts.push({ key: 'status.queued', values: { place: status.place } });
  if (status.reading && !status.endedAt) parts.push(readingPart(status));
  if (status.phase === 'sent') parts.push({ key: 'status.sent', values: {} });
  if (status.phase === 'writing') {
    const rate = writeRate(status, now);
    if (rate === null) parts.push({ key: 'status.writing', values: {} });
    else parts.push({ key: 'status.rate', values: { rate } });
  }
  if (status.endedAt) return endParts(status, now);
  return parts;
}

function readingPart(status) {
  const { total } = status.reading;
  // The last token of a prompt is read as the answer's first is made.
  const done = status.firstTokenAt ? total : status.reading.done;
  const rate = readRate(status);
  if (rate === null) return { key: 'status.reading', values: { done, total } };
  return { key: 'status.reading_rate', values: { done, total, rate } };
}

function withRate(key, values, rate) {
  return rate === null ? { key, values } : { key: `${key}_rate`, values: { ...values, rate } };
}

function endParts(status, now) {
  const parts = [];
  if (status.phase === 'stopped') parts.push({ key: 'status.stopped', values: {} });
  if (status.usage) {
    const { prompt, cached } = status.usage;
    const key = cached > 0 ? 'status.read_cached' : 'status.read';
    parts.push(withRate(key, { tokens: prompt, cached }, readRate(status)));
  }
  const tokens = status.usage?.answer ?? status.tokens;
  if (tokens > 0) parts.push(withRate('status.written', { tokens }, writeRate(status, now)));
  return parts;
}

// What went wrong, as a code that the word tables know: the server's own (docs/reference/
// api-errors.md), or one of ours for what never reached it.

export class Fault extends Error {
  /** @param {string} code @param {{message?: string, status?: number, retryAfter?: number}} more */
  constructor(code, { message = '', status = 0, retryAfter = 0 } = {}) {
    super(message);
    this.name = 'Fault';
    this.code = code;
    this.status = status;
    this.retryAfter = retryAfter;
  }

  get asksForKey() {
    return this.status === 401;
  }

  /** What may be kept with a conversation. */
  toJSON() {
    return { code: this.code, message: this.message, retryAfter: this.retryAfter };
  }
}

/** Codes of our own, which no server sends. */
export const PAGE_CODES = ['unreachable', 'cut_off', 'unreadable', 'other'];

/** The error object of a body or of an event, in any of the server's dresses. */
export function faultOf(json, { status = 0, retryAfter = 0 } = {}) {
  const error = json?.error;
  const message = typeof error === 'string' ? error : String(error?.message ?? '');
  const code = typeof error?.code === 'string' ? error.code : 'other';
  return new Fault(code, { message, status, retryAfter });
}

/** @param {Response} response one that isn't ok */
export async function faultOfResponse(response) {
  const retryAfter = Number(response.headers.get('retry-after')) || 0;
  const more = { status: response.status, retryAfter };
  const text = await response.text().catch(() => '');
  try {
    return faultOf(JSON.parse(text), more);
  } catch {
    return new Fault('other', { ...more, message: `HTTP ${response.status}` });
  }
}

/** fetch() fails with a TypeError whatever the reason; what was stopped stays as it is. */
export function faultOfException(error) {
  if (error instanceof Fault || error?.name === 'AbortError') return error;
  return new Fault('unreachable', { message: String(error?.message ?? error) });
}

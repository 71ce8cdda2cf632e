// Server-sent events out of bytes that arrive in pieces of any size: a piece may end within a line,
// within "\r\n", or within a character. Comments are kept, since the server tells its queue in them.

/** @typedef {{kind: 'data', data: string} | {kind: 'comment', text: string}} SseItem */

export class SseParser {
  #decoder = new TextDecoder('utf-8');
  #rest = ''; // of a line that hasn't ended
  #data = null; // lines of the event that hasn't ended

  /** @param {Uint8Array} bytes @returns {SseItem[]} */
  push(bytes) {
    return this.#take(this.#decoder.decode(bytes, { stream: true }));
  }

  #take(text) {
    const all = this.#rest + text;
    const items = [];
    let begin = 0;
    for (let at = 0; at < all.length; at++) {
      const char = all[at];
      if (char !== '\n' && char !== '\r') continue;
      // Whether "\n" follows this "\r" shows only with the next piece.
      if (char === '\r' && at + 1 === all.length) break;
      this.#line(all.slice(begin, at), items);
      if (char === '\r' && all[at + 1] === '\n') at++;
      begin = at + 1;
    }
    this.#rest = all.slice(begin);
    return items;
  }

  #line(line, items) {
    if (line === '') {
      if (this.#data !== null) items.push({ kind: 'data', data: this.#data.join('\n') });
      this.#data = null;
    } else if (line[0] === ':') {
      items.push({ kind: 'comment', text: line.slice(1).replace(/^ /, '') });
    } else if (line === 'data' || line.startsWith('data:')) {
      (this.#data ??= []).push(line.slice(5).replace(/^ /, ''));
    }
  }
}

// A conversation as plain values: what is shown, what is sent, what is kept.

const TITLE_LENGTH = 48;

/** @typedef {{role: 'user'|'assistant', text: string, reasoning?: string, error?: object,
 *             stopped?: boolean, limited?: boolean, model?: string, status?: object}} Message */

/** Works on pages without TLS too, where crypto.randomUUID isn't there. */
export function newId() {
  const bytes = crypto.getRandomValues(new Uint8Array(8));
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, '0')).join('');
}

export function newChat(now) {
  return { id: newId(), title: '', updated: now, messages: [] };
}

export function titleOf(text) {
  const line = text.trim().split('\n')[0].replace(/\s+/g, ' ');
  const letters = Array.from(line);
  return letters.length > TITLE_LENGTH ? `${letters.slice(0, TITLE_LENGTH - 1).join('')}…` : line;
}

/**
 * What the model is told of the conversation: many templates want turns that alternate, so a question
 * that got no word of an answer is left out, unless it is the newest.
 * @param {Message[]} messages that end with the question
 */
export function messagesToSend(messages) {
  const sent = [];
  for (let at = 0; at < messages.length; at++) {
    const message = messages[at];
    if (message.role !== 'user') continue;
    const answer = messages[at + 1];
    const isNewest = at === messages.length - 1;
    if (!isNewest && (answer?.role !== 'assistant' || !answer.text)) continue;
    sent.push({ role: 'user', content: message.text });
    if (!isNewest) sent.push({ role: 'assistant', content: answer.text });
  }
  return sent;
}

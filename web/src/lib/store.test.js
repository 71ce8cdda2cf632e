import { expect, test } from 'vitest';

import { messagesToSend, newChat, titleOf } from './conversation.js';
import { deleteChat, readChats, readSetting, saveChat, writeSetting } from './store.js';

/** Storage of so many characters, as browsers behave. */
function storageOf(room = Infinity) {
  const values = new Map();
  return {
    getItem: (key) => values.get(key) ?? null,
    removeItem: (key) => values.delete(key),
    setItem: (key, value) => {
      if (value.length > room) throw new DOMException('full', 'QuotaExceededError');
      values.set(key, value);
    },
  };
}

const chat = (id, updated, length = 10) => ({
  ...newChat(updated),
  id,
  title: id,
  messages: [{ role: 'user', text: 'x'.repeat(length) }],
});
const ids = (storage) => readChats(storage).map((one) => one.id);

test('chats come back, newest first, and the same one only once', () => {
  const storage = storageOf();
  expect(saveChat(storage, chat('a', 1))).toBe('kept');
  saveChat(storage, chat('b', 2));
  saveChat(storage, { ...chat('a', 3), title: 'again' });
  expect(ids(storage)).toEqual(['a', 'b']);
  expect(readChats(storage)[0].title).toBe('again');
});

test('two pages keep each other’s chats', () => {
  const storage = storageOf();
  const one = chat('one', 1);
  saveChat(storage, chat('two', 2));
  saveChat(storage, one);
  expect(ids(storage).sort()).toEqual(['one', 'two']);
});

test('when there is no room, the oldest go, and it is said', () => {
  const storage = storageOf(1000);
  for (let at = 1; at <= 5; at++) saveChat(storage, chat(`c${at}`, at, 100));
  expect(saveChat(storage, chat('new', 9, 300))).toBe('dropped');
  expect(ids(storage)).toContain('new');
  expect(ids(storage)).not.toContain('c1');
});

test('a chat that has no room at all is not kept, nor does it cost the others', () => {
  const storage = storageOf(500);
  saveChat(storage, chat('small', 1));
  expect(saveChat(storage, chat('huge', 2, 5000))).toBe('failed');
  expect(ids(storage)).toEqual(['small']);
});

test('no storage, foreign values and broken ones', () => {
  expect(readChats(null)).toEqual([]);
  expect(saveChat(null, chat('a', 1))).toBe('failed');
  const storage = storageOf();
  for (const broken of ['{', '1', 'null', '{"a":1}']) {
    storage.setItem('salvage.chats', broken);
    expect(readChats(storage)).toEqual([]);
  }
  storage.setItem('salvage.chats', JSON.stringify([1, null, { id: 'a', messages: [1, { role: 'user', text: 'x' }, { role: 'system', text: 'y' }] }]));
  expect(readChats(storage)).toEqual([{ id: 'a', title: '', updated: 0, messages: [{ role: 'user', text: 'x' }] }]);
});

test('a chat is deleted, a setting is kept and taken back', () => {
  const storage = storageOf();
  saveChat(storage, chat('a', 1));
  deleteChat(storage, 'a');
  expect(ids(storage)).toEqual([]);
  writeSetting(storage, 'theme', 'dark');
  expect(readSetting(storage, 'theme')).toBe('dark');
  writeSetting(storage, 'theme', '');
  expect(readSetting(storage, 'theme')).toBe('');
});

test('turns alternate: a question without a word of an answer is left out unless it is the newest', () => {
  const messages = [
    { role: 'user', text: 'one' },
    { role: 'assistant', text: 'ONE', reasoning: 'secret' },
    { role: 'user', text: 'two' },
    { role: 'assistant', text: '', error: { code: 'node_lost' } },
    { role: 'user', text: 'three' },
  ];
  expect(messagesToSend(messages)).toEqual([
    { role: 'user', content: 'one' },
    { role: 'assistant', content: 'ONE' },
    { role: 'user', content: 'three' },
  ]);
});

test('a title is one line, cut between characters', () => {
  expect(titleOf('  hello\n world')).toBe('hello');
  expect(titleOf('😀'.repeat(60))).toBe(`${'😀'.repeat(47)}…`);
});

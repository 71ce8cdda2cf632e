// Conversations in the browser's storage. Every save reads what lies there first, so that two open pages
// don't overwrite each other's chats. When there is no room, the oldest chats go; when the storage can't
// be used at all, the page works without, and says so.

const KEY = 'salvage.chats';
const CHATS_MAX = 50;

/** @param {Storage | null} storage */
export function readChats(storage) {
  try {
    const found = JSON.parse(storage?.getItem(KEY) ?? '[]');
    return Array.isArray(found) ? found.filter(isChat).map(repaired) : [];
  } catch {
    return [];
  }
}

function isChat(chat) {
  return typeof chat?.id === 'string' && Array.isArray(chat.messages);
}

function repaired(chat) {
  const messages = chat.messages.filter(
    (one) => (one?.role === 'user' || one?.role === 'assistant') && typeof one.text === 'string',
  );
  return { ...chat, title: String(chat.title ?? ''), updated: Number(chat.updated) || 0, messages };
}

function newestFirst(chats) {
  return [...chats].sort((a, b) => b.updated - a.updated);
}

function isQuotaError(error) {
  return error?.name === 'QuotaExceededError' || error?.name === 'NS_ERROR_DOM_QUOTA_REACHED';
}

/** Writes as many of the newest as fit. @returns {'kept' | 'dropped' | 'failed'} */
function writeChats(storage, chats) {
  let kept = newestFirst(chats).slice(0, CHATS_MAX);
  for (let dropped = false; ; dropped = true) {
    try {
      storage.setItem(KEY, JSON.stringify(kept));
      return dropped ? 'dropped' : 'kept';
    } catch (error) {
      if (!isQuotaError(error) || kept.length <= 1) return 'failed';
      kept = kept.slice(0, Math.floor(kept.length * 0.9));
    }
  }
}

/** @returns {'kept' | 'dropped' | 'failed'} */
export function saveChat(storage, chat) {
  if (!storage) return 'failed';
  return writeChats(storage, [chat, ...readChats(storage).filter((one) => one.id !== chat.id)]);
}

export function deleteChat(storage, id) {
  if (!storage) return;
  writeChats(storage, readChats(storage).filter((one) => one.id !== id));
}

/** localStorage or sessionStorage; null where the browser forbids it. */
export function storageOf(name) {
  try {
    const storage = globalThis[name];
    storage.getItem(KEY);
    return storage;
  } catch {
    return null;
  }
}

export function readSetting(storage, name) {
  try {
    return storage?.getItem(`salvage.${name}`) ?? '';
  } catch {
    return '';
  }
}

export function writeSetting(storage, name, value) {
  try {
    if (value) storage?.setItem(`salvage.${name}`, value);
    else storage?.removeItem(`salvage.${name}`);
  } catch {
    // The choice then lasts for as long as the page is open.
  }
}

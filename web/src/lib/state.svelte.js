// What the page knows and does, in one object that every part gets as context: settings, the key,
// models, conversations, and the one answer that may be under way.

import { getJson, listModels, streamAnswer } from './api.js';
import { statesOf, watch } from './cluster.js';
import { messagesToSend, newChat, titleOf } from './conversation.js';
import { begun, ended, withEvent } from './status.js';
import { deleteChat, readChats, readSetting, saveChat, storageOf, writeSetting } from './store.js';
import { chooseLanguage, words } from './words.js';

const SAVE_EVERY_MS = 1000;
const MODELS_EVERY_MS = 10000;
// Fast answers bring more pieces than a screen shows; each costs a look at the whole text.
const SHOW_EVERY_MS = 50;

export class PageState {
  #local = storageOf('localStorage');
  #session = storageOf('sessionStorage');
  #stop = null; // AbortController of the answer under way
  #savedAt = 0;
  #heard = { text: '', reasoning: '' }; // of the answer under way, not shown yet
  #showTimer = null;
  #newest = null; // the status, as known
  #declined = false; // the question for a key was closed without one

  language = $state('en');
  theme = $state(''); // empty: as the system says
  key = $state('');
  keyAsked = $state(''); // the code of the error that asked for it; empty: not asked
  models = $state.raw([]);
  modelsFault = $state.raw(null); // null: they are known
  modelsKnown = $state(false);
  chosenModel = $state('');
  chats = $state.raw([]);
  chat = $state(newChat(Date.now()));
  status = $state.raw(null); // of the answer under way, as shown
  cluster = $state.raw(null); // the body of v1/cluster; null: not known, or not told by this server
  clusterIsOld = $state(false);
  storageTrouble = $state(''); // 'dropped' | 'failed'
  now = $state(Date.now());

  constructor() {
    this.language = chooseLanguage(readSetting(this.#local, 'language'), navigator.languages);
    this.theme = readSetting(this.#local, 'theme');
    this.key = readSetting(this.#session, 'key') || readSetting(this.#local, 'key');
    this.chosenModel = readSetting(this.#local, 'model');
    this.chats = readChats(this.#local);
    const last = readSetting(this.#session, 'chat') || this.chats[0]?.id;
    this.#open(this.chats.find((chat) => chat.id === last));
  }

  say = (key, values) => words(this.language, key, values);

  // ---- settings ----

  setLanguage(language) {
    this.language = language;
    writeSetting(this.#local, 'language', language);
  }

  setTheme(theme) {
    this.theme = theme;
    writeSetting(this.#local, 'theme', theme);
  }

  setModel(id) {
    this.chosenModel = id;
    writeSetting(this.#local, 'model', id);
  }

  setKey(key, isKept) {
    this.key = key;
    this.keyAsked = '';
    this.#declined = false;
    writeSetting(this.#session, 'key', key);
    writeSetting(this.#local, 'key', isKept ? key : '');
    this.refreshModels();
  }

  get keyIsKept() {
    return readSetting(this.#local, 'key') !== '';
  }

  declineKey() {
    if (!this.keyAsked) return; // it was closed with one
    this.keyAsked = '';
    this.#declined = true;
  }

  /** Whether asking again makes no sense before there is another key. */
  get isLocked() {
    return this.keyAsked !== '' || Boolean(this.modelsFault?.asksForKey);
  }

  // ---- models ----

  get loadedModels() {
    return this.models.filter((model) => model.state === 'loaded');
  }

  /** The model that answers: the chosen one as long as it is loaded, else the first that is. */
  get model() {
    const loaded = this.loadedModels;
    return loaded.find((model) => model.id === this.chosenModel) ?? loaded[0] ?? null;
  }

  async refreshModels() {
    try {
      this.models = await listModels({ key: this.key });
      this.modelsKnown = true;
      this.modelsFault = null;
    } catch (fault) {
      this.modelsFault = fault;
      if (fault.asksForKey && !this.#declined) this.keyAsked = fault.code;
    }
  }

  /** Looks for models while the page is seen; returns what ends it. */
  watchModels() {
    this.refreshModels();
    const look = () => document.visibilityState === 'visible' && !this.isLocked && this.refreshModels();
    const timer = setInterval(look, MODELS_EVERY_MS);
    document.addEventListener('visibilitychange', look);
    return () => {
      clearInterval(timer);
      document.removeEventListener('visibilitychange', look);
    };
  }

  // ---- the cluster ----

  /** Follows it while the page is seen; returns what ends it. */
  watchCluster() {
    return watch(async () => {
      if (this.isLocked) return true;
      try {
        const before = this.cluster;
        this.cluster = await getJson('v1/cluster', { key: this.key });
        this.clusterIsOld = false;
        if (before && statesOf(before) !== statesOf(this.cluster)) this.refreshModels();
        return true;
      } catch {
        this.clusterIsOld = true; // what is wrong is told where models are asked for
        return false;
      }
    });
  }

  // ---- conversations ----

  #open(chat) {
    this.chat = chat ? structuredClone(chat) : newChat(Date.now());
    writeSetting(this.#session, 'chat', this.chat.id);
  }

  startChat() {
    if (this.isBusy) this.stop();
    if (this.chat.messages.length > 0) this.#open(null);
  }

  openChat(id) {
    if (id === this.chat.id) return;
    if (this.isBusy) this.stop();
    this.chats = readChats(this.#local);
    this.#open(this.chats.find((chat) => chat.id === id));
  }

  deleteChat(id) {
    if (id === this.chat.id && this.isBusy) this.stop();
    deleteChat(this.#local, id);
    this.chats = readChats(this.#local);
    if (id === this.chat.id) this.#open(this.chats[0]);
  }

  /** Another page of this browser has changed the conversations. */
  noteStorage(event) {
    if (event.key === 'salvage.chats') this.chats = readChats(this.#local);
  }

  save() {
    this.#savedAt = Date.now();
    if (this.chat.messages.length === 0) return;
    const outcome = saveChat(this.#local, $state.snapshot(this.chat));
    this.storageTrouble = outcome === 'kept' ? '' : outcome;
    this.chats = readChats(this.#local);
  }

  // ---- answers ----

  get isBusy() {
    return this.status !== null;
  }

  ask(text) {
    const question = text.trim();
    if (this.isBusy || !question || !this.model) return false;
    this.chat.title ||= titleOf(question);
    this.chat.messages.push({ role: 'user', text: question });
    this.#answer();
    return true;
  }

  /** Another answer to the newest question. */
  askAgain() {
    if (this.isBusy || !this.model || this.chat.messages.at(-1)?.role !== 'assistant') return;
    this.chat.messages.pop();
    this.#answer();
  }

  stop() {
    this.#stop?.abort();
  }

  async #answer() {
    const chat = this.chat;
    const messages = messagesToSend($state.snapshot(chat.messages));
    chat.messages.push({ role: 'assistant', text: '', reasoning: '', model: this.model.id });
    const answer = chat.messages.at(-1);
    this.#stop = new AbortController();
    this.#take(begun(Date.now()));
    this.#touch(chat);
    let phase = 'done';
    try {
      const wish = { model: answer.model, messages, key: this.key, signal: this.#stop.signal };
      for await (const event of streamAnswer(wish)) this.#add(answer, event, chat);
    } catch (error) {
      phase = error.name === 'AbortError' ? 'stopped' : 'failed';
      if (phase === 'stopped') answer.stopped = true;
      else this.#fail(answer, error);
    }
    this.#show(answer, chat);
    answer.status = ended(this.#newest, phase, Date.now());
    this.status = null;
    this.#stop = null;
    this.#touch(chat);
  }

  #add(answer, event, chat) {
    if (event.kind === 'text' || event.kind === 'reasoning') {
      this.#heard[event.kind] += event.text;
      this.#newest = withEvent(this.#newest, event, Date.now());
      this.#showTimer ??= setTimeout(() => this.#show(answer, chat), SHOW_EVERY_MS);
      return;
    }
    if (event.kind === 'finish' && event.reason === 'length') answer.limited = true;
    this.#take(withEvent(this.#newest, event, Date.now()));
  }

  #show(answer, chat) {
    clearTimeout(this.#showTimer);
    this.#showTimer = null;
    answer.text += this.#heard.text;
    answer.reasoning += this.#heard.reasoning;
    this.#heard = { text: '', reasoning: '' };
    this.#take(this.#newest);
    if (Date.now() - this.#savedAt > SAVE_EVERY_MS) this.#touch(chat);
  }

  #take(status) {
    this.#newest = status;
    this.status = status;
    this.now = Date.now();
  }

  #fail(answer, error) {
    answer.error = typeof error.toJSON === 'function' ? error.toJSON() : { code: 'other', message: String(error) };
    if (error.asksForKey) this.keyAsked = error.code;
  }

  // Saved as the chat that it belongs to, also when another is shown by now.
  #touch(chat) {
    chat.updated = Date.now();
    if (chat === this.chat) {
      this.save();
      return;
    }
    this.#savedAt = Date.now();
    if (!readChats(this.#local).some((one) => one.id === chat.id)) return; // deleted meanwhile
    saveChat(this.#local, $state.snapshot(chat));
    this.chats = readChats(this.#local);
  }
}

// What people read, in their language: flat keys, {name} for what is put in. English is the source and
// the fallback. Numbers keep their digits in both languages, "tok/s" stays as it is.

import english from '../words/en.json';
import chinese from '../words/zh-CN.json';

export const TABLES = { en: english, 'zh-CN': chinese };
export const LANGUAGES = Object.keys(TABLES);

/** The stored choice, else the browser's languages in their order, else English. */
export function chooseLanguage(stored, wanted = []) {
  if (LANGUAGES.includes(stored)) return stored;
  for (const tag of wanted) {
    const lower = String(tag).toLowerCase();
    if (lower === 'zh' || lower.startsWith('zh-')) return 'zh-CN';
    if (lower === 'en' || lower.startsWith('en-')) return 'en';
  }
  return 'en';
}

const SUFFIXES = { one: 'st', two: 'nd', few: 'rd', other: 'th' };

function ordinal(number) {
  const tens = number % 100;
  const ones = number % 10;
  if (tens >= 11 && tens <= 13) return `${number}${SUFFIXES.other}`;
  const kind = { 1: 'one', 2: 'two', 3: 'few' }[ones] ?? 'other';
  return `${number}${SUFFIXES[kind]}`;
}

/** "41", "3.1": as many digits as can be believed. */
export function rateText(rate) {
  return rate >= 9.95 ? String(Math.round(rate)) : rate.toFixed(1);
}

export function bytesText(bytes) {
  const gib = bytes / 2 ** 30;
  if (gib >= 0.95) return `${gib.toFixed(gib >= 99.5 ? 0 : 1)} GiB`;
  return `${Math.round(bytes / 2 ** 20)} MiB`;
}

function shown(name, value, language) {
  if (name === 'rate') return rateText(value);
  if (name === 'place') return language === 'en' ? ordinal(value) : String(value);
  if (name.endsWith('bytes')) return bytesText(value);
  return String(value);
}

/** The text under `key`; an unknown key is returned itself. */
export function words(language, key, values = {}) {
  const text = TABLES[language]?.[key] ?? english[key] ?? key;
  return text.replace(/\{(\w+)\}/g, (whole, name) =>
    name in values ? shown(name, values[name], language) : whole,
  );
}

export function hasWords(key) {
  return key in english;
}

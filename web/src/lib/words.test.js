import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';

import { expect, test } from 'vitest';

import { PAGE_CODES } from './fault.js';
import { bytesText, chooseLanguage, rateText, TABLES, words } from './words.js';

const { en, 'zh-CN': zh } = TABLES;

function sourcesUnder(folder) {
  return readdirSync(folder, { recursive: true })
    .filter((name) => /\.(svelte|js)$/.test(name) && !name.endsWith('.test.js'))
    .map((name) => readFileSync(join(folder, name), 'utf8'))
    .join('\n');
}

test('both languages have the same keys, in the same order, none empty', () => {
  expect(Object.keys(zh)).toEqual(Object.keys(en));
  for (const key of Object.keys(en)) {
    expect(en[key].trim(), key).not.toBe('');
    expect(zh[key].trim(), key).not.toBe('');
  }
});

test('both languages put the same values in', () => {
  const names = (text) => [...new Set(text.match(/\{\w+\}/g) ?? [])].sort();
  for (const key of Object.keys(en)) expect(names(zh[key]), key).toEqual(names(en[key]));
});

test('every error of the server and of the page has a name and an advice', () => {
  const list = join(process.env.SALVAGE_REPO ?? '..', 'docs/reference/api-errors.md');
  expect(existsSync(list), list).toBe(true);
  const codes = [...readFileSync(list, 'utf8').matchAll(/^\| \d{3} \| `(\w+)` \|/gm)].map((match) => match[1]);
  expect(codes.length).toBeGreaterThan(20);
  for (const code of [...codes, ...PAGE_CODES]) {
    expect(en, code).toHaveProperty([`error.${code}`]);
    expect(en, code).toHaveProperty([`error.${code}.do`]);
  }
});

test('every text that is asked for exists, and every text is asked for', () => {
  const sources = sourcesUnder('src');
  const asked = [...sources.matchAll(/(?:say\(\s*|key: |key = .*\? |: )'([a-z][\w.]+)'/g)].map((match) => match[1]);
  const dotted = asked.filter((key) => key.includes('.'));
  expect(dotted.filter((key) => !(key in en))).toEqual([]);
  const isMade = (key) => /^(error|examples|storage|cluster\.state)\.|^status\.\w+_rate$/.test(key);
  const unused = Object.keys(en).filter((key) => !isMade(key) && !sources.includes(`'${key}'`));
  expect(unused).toEqual([]);
});

test('the stored choice goes before the browser, the browser before English', () => {
  expect(chooseLanguage('zh-CN', ['en'])).toBe('zh-CN');
  expect(chooseLanguage('', ['fr', 'zh-TW', 'en'])).toBe('zh-CN');
  expect(chooseLanguage('', ['de-CH', 'en-GB'])).toBe('en');
  expect(chooseLanguage('xx', [])).toBe('en');
});

test('numbers that people read', () => {
  expect([0.26, 3.14, 9.96, 41.4, 812.6].map(rateText)).toEqual(['0.3', '3.1', '10', '41', '813']);
  expect([0, 150 * 2 ** 20, 2 ** 30, 15.6 * 2 ** 30, 256 * 2 ** 30].map(bytesText)).toEqual([
    '0 MiB',
    '150 MiB',
    '1.0 GiB',
    '15.6 GiB',
    '256 GiB',
  ]);
  const places = [1, 2, 3, 4, 11, 12, 13, 21, 22, 101, 111].map((place) => words('en', 'status.queued', { place }));
  expect(places.map((text) => text.replace('queued ', ''))).toEqual(
    '1st 2nd 3rd 4th 11th 12th 13th 21st 22nd 101st 111th'.split(' '),
  );
});

test('an unknown key is shown as it is, an unknown value stays', () => {
  expect(words('zh-CN', 'no.such')).toBe('no.such');
  expect(words('en', 'status.queued', {})).toBe('queued {place}');
});

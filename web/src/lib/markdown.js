// A model's text as a tree of plain values, which components turn into elements. There is no HTML on the
// way: what looks like a tag in the text stays text, so nothing has to be sanitised afterwards.

import { Lexer } from 'marked';

const SAFE_SCHEMES = ['http:', 'https:', 'mailto:'];
const NESTING_MAX = 24;
const ENTITIES = { amp: '&', lt: '<', gt: '>', quot: '"', apos: "'", nbsp: '\u00a0' };

/** The address, or null for one that must not be clicked: scripts, data, files, relative ones. */
export function safeHref(href) {
  try {
    const url = new URL(href);
    return SAFE_SCHEMES.includes(url.protocol) ? url.href : null;
  } catch {
    return null;
  }
}

function characterOf(code) {
  return code > 0 && code <= 0x10ffff && (code < 0xd800 || code > 0xdfff)
    ? String.fromCodePoint(code)
    : '\ufffd';
}

function decoded(text) {
  return text.replace(/&(#\d{1,7}|#[xX][\da-fA-F]{1,6}|\w{2,6});/g, (whole, name) => {
    if (name[0] !== '#') return ENTITIES[name] ?? whole;
    const isHex = name[1] === 'x' || name[1] === 'X';
    return characterOf(parseInt(name.slice(isHex ? 2 : 1), isHex ? 16 : 10));
  });
}

const text = (value) => ({ kind: 'text', text: value });

function inlines(tokens, depth) {
  if (depth > NESTING_MAX) return (tokens ?? []).map((token) => text(token.raw));
  return (tokens ?? []).map((token) => inline(token, depth + 1));
}

function inline(token, depth) {
  switch (token.type) {
    case 'strong':
    case 'em':
    case 'del':
      return { kind: token.type, parts: inlines(token.tokens, depth) };
    case 'codespan':
      return { kind: 'code', text: token.text };
    case 'br':
      return { kind: 'break' };
    case 'link': {
      const href = safeHref(token.href);
      const parts = inlines(token.tokens, depth);
      return href ? { kind: 'link', href, parts } : { kind: 'span', parts };
    }
    case 'image': {
      // Nothing is loaded from elsewhere: the picture's name and a link, if it is one.
      const href = safeHref(token.href);
      const parts = [text(token.text || token.href)];
      return href ? { kind: 'link', href, parts } : { kind: 'span', parts };
    }
    case 'escape':
      return text(token.text);
    case 'text':
      return token.tokens ? { kind: 'span', parts: inlines(token.tokens, depth) } : text(decoded(token.text));
    default: // html among them
      return text(token.raw);
  }
}

function listItem(item, depth) {
  return { checked: item.task ? Boolean(item.checked) : null, blocks: blocks(item.tokens, depth) };
}

function block(token, depth) {
  switch (token.type) {
    case 'space':
    case 'def':
    case 'checkbox':
      return null;
    case 'heading':
      return { kind: 'heading', level: token.depth, parts: inlines(token.tokens, depth) };
    case 'paragraph':
      return { kind: 'paragraph', parts: inlines(token.tokens, depth) };
    case 'text':
      return { kind: 'line', parts: token.tokens ? inlines(token.tokens, depth) : [text(decoded(token.text))] };
    case 'code':
      return { kind: 'code', language: (token.lang ?? '').split(/\s/)[0], text: token.text };
    case 'blockquote':
      return { kind: 'quote', blocks: blocks(token.tokens, depth) };
    case 'list':
      return {
        kind: 'list',
        ordered: token.ordered,
        start: token.ordered ? Number(token.start) || 1 : 1,
        items: token.items.map((item) => listItem(item, depth)),
      };
    case 'table':
      return {
        kind: 'table',
        align: token.align,
        head: token.header.map((cell) => inlines(cell.tokens, depth)),
        rows: token.rows.map((row) => row.map((cell) => inlines(cell.tokens, depth))),
      };
    case 'hr':
      return { kind: 'rule' };
    default: // html among them
      return { kind: 'paragraph', parts: [text(token.raw.trimEnd())] };
  }
}

function blocks(tokens, depth) {
  if (depth > NESTING_MAX) return [{ kind: 'paragraph', parts: [text((tokens ?? []).map((t) => t.raw).join(''))] }];
  return (tokens ?? []).map((token) => block(token, depth + 1)).filter(Boolean);
}

/** @param {string} source @returns the blocks of a text */
export function markdown(source) {
  try {
    return blocks(new Lexer({ gfm: true, breaks: true }).lex(source), 0);
  } catch {
    return [{ kind: 'paragraph', parts: [text(source)] }]; // never lose an answer to its form
  }
}

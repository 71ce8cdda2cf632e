import { expect, test } from 'vitest';

import { markdown, safeHref } from './markdown.js';

/** All values of the tree under `key`. */
function all(tree, key) {
  if (Array.isArray(tree)) return tree.flatMap((one) => all(one, key));
  if (tree === null || typeof tree !== 'object') return [];
  const here = key in tree ? [tree[key]] : [];
  return [...here, ...Object.values(tree).flatMap((value) => all(value, key))];
}

const textOf = (tree) => all(tree, 'text').join('');
const KINDS = ['paragraph', 'line', 'heading', 'code', 'quote', 'list', 'table', 'rule', 'text', 'strong', 'em',
  'del', 'break', 'link', 'span'];

const ATTACKS = [
  '<script>alert(1)</script>',
  '<img src=x onerror=alert(1)>',
  'a <b onmouseover="alert(1)">b</b>',
  '<svg/onload=alert(1)>',
  '<iframe src="javascript:alert(1)"></iframe>',
  '[click](javascript:alert(1))',
  '[click](JaVaScRiPt:alert(1))',
  '[click](java\nscript:alert(1))',
  '[click](&#106;avascript:alert(1))',
  '[click](data:text/html;base64,PHNjcmlwdD4=)',
  '[click](vbscript:x)',
  '[click](/v1/models)',
  '![x](https://elsewhere.example/pixel.png)',
  '![x](javascript:alert(1))',
  '<javascript:alert(1)>',
  '[ref][1]\n\n[1]: javascript:alert(1)',
  '| a |\n|---|\n| <img src=x onerror=alert(1)> |',
  '> <script>alert(1)</script>',
  '- <style>*{display:none}</style>',
  '```<script>\nalert(1)\n```',
];

test.each(ATTACKS)('gives nothing but text and safe links: %s', (attack) => {
  const tree = markdown(attack);
  for (const kind of all(tree, 'kind')) expect(KINDS).toContain(kind);
  for (const href of all(tree, 'href')) expect(href).toMatch(/^(https?|mailto):/);
});

test('what looks like a tag is kept as text, letter by letter', () => {
  expect(textOf(markdown('<script>alert(1)</script>'))).toBe('<script>alert(1)</script>');
  expect(textOf(markdown('a <img src=x onerror=alert(1)> b'))).toBe('a <img src=x onerror=alert(1)> b');
  expect(textOf(markdown('`<b>` &lt;b&gt; &amp; &#39;&#x1F600; &#xD800; &nosuch;'))).toBe(
    '<b> <b> & \'😀 \ufffd &nosuch;',
  );
});

test('pictures are links, never loaded', () => {
  expect(markdown('![a cat](https://x.example/c.png)')[0].parts).toEqual([
    { kind: 'link', href: 'https://x.example/c.png', parts: [{ kind: 'text', text: 'a cat' }] },
  ]);
});

test('addresses that may be clicked', () => {
  expect(safeHref('https://x.example/a?b')).toBe('https://x.example/a?b');
  expect(safeHref('mailto:a@x.example')).toBe('mailto:a@x.example');
  for (const bad of ['javascript:1', ' javascript:1', 'file:///etc/passwd', 'blob:x', '//x.example', 'x', '']) {
    expect(safeHref(bad), bad).toBe(null);
  }
});

test('the usual forms', () => {
  const tree = markdown(
    '# T\n\nA **b** *c* ~~d~~ `e`\nf\n\n3. x\n4. y\n   - z\n\n- [x] done\n- [ ] open\n\n> q\n\n---\n\n' +
      '| a | b |\n|:-:|--:|\n| 1 | 2 |\n\n```js title\nlet x = 1 < 2;\n```\n',
  );
  expect(tree.map((block) => block.kind)).toEqual([
    'heading', 'paragraph', 'list', 'list', 'quote', 'rule', 'table', 'code',
  ]);
  expect(tree[1].parts.map((part) => part.kind)).toEqual([
    'text', 'strong', 'text', 'em', 'text', 'del', 'text', 'code', 'break', 'text',
  ]);
  expect([tree[2].ordered, tree[2].start, tree[2].items.length]).toEqual([true, 3, 2]);
  expect(tree[3].items.map((item) => item.checked)).toEqual([true, false]);
  expect(tree[6].align).toEqual(['center', 'right']);
  expect([tree[7].language, tree[7].text]).toEqual(['js', 'let x = 1 < 2;']);
});

test('a code block that is still being written is one already', () => {
  expect(markdown('text\n\n```python\nprint(1)')[1]).toEqual({ kind: 'code', language: 'python', text: 'print(1)' });
});

test('nesting without end ends as text', () => {
  const deep = `${'> '.repeat(5000)}x`;
  expect(textOf(markdown(deep))).toContain('x');
  expect(textOf(markdown(`${'*a **b '.repeat(500)}x`))).toContain('x');
});

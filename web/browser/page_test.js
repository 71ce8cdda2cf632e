// Goal: the page does what it promises, in a real browser, against a real cluster of three machines
// with a real model. Method: Debian's chromium, driven; every request that the browser makes and every
// complaint of its console is looked at.
//
// SALVAGE_BINARY, SALVAGE_MODEL: the program and the model. SALVAGE_SHOTS: a folder for screenshots.

import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { join } from 'node:path';
import { after, before, test as anyTest } from 'node:test';

import { chromium } from 'playwright-core';

import { Cluster, until } from './cluster.js';

const CHROMIUM = process.env.CHROMIUM ?? '/usr/bin/chromium';
const FLAGS = ['--no-sandbox', '--disable-gpu', '--disable-quic', '--no-first-run', '--disable-sync',
  '--disable-background-networking', '--disable-component-update'];
const ANSWER_MS = 60_000;
const STORY = 'Tell me a very long story about a lighthouse.';
const CONTEXT = 192; // a small model may ramble until it is full
const AXE = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8');
const ALL_FORMS =
  '# Title\n\n**bold** `code` [link](https://x.example)\n\n| a |\n|---|\n| b |\n\n```js\nx\n```\n\n- [x] done\n- [ ] open\n';
const ATTACK =
  'Hi <img src=x onerror="document.title=\'owned\'"> <script>document.title="owned"</script> ' +
  '[click](javascript:document.title="owned") ![p](http://elsewhere.example/p.png)\n\n' +
  '```html\n<b onclick="x">code</b>\n```\n';

// Each ends by itself, so that the machines are ended too; its pages don't work on beside the next one's.
const contexts = [];
const test = (name, run) =>
  anyTest(name, { timeout: 90_000 }, async () => {
    try {
      await run();
    } finally {
      await Promise.all(contexts.splice(0).map((context) => context.close()));
    }
  });

let cluster;
let first; // the coordinator
let browser; // each test has a context of its own
const asked = []; // every address that a browser asked for
const complaints = [];

before(async () => {
  browser = await chromium.launch({ executablePath: CHROMIUM, args: FLAGS });
  cluster = new Cluster();
  first = await cluster.up('old-desktop');
  await cluster.join(first, 'thinkpad', 'attic-pc');
  await first.command('load', process.env.SALVAGE_MODEL, '--split', '10,10,10', '--ctx', CONTEXT, '--parallel', 1,
    '--threads', 1, '--quiet');
});

after(async () => {
  await browser?.close();
  await cluster?.end();
});

/** A page of a browser that has nothing in it yet. */
async function browse({ url = first.url, ...options } = {}) {
  const context = await browser.newContext({ locale: 'en-US', viewport: { width: 1200, height: 800 }, ...options });
  contexts.push(context);
  context.on('request', (request) => asked.push(request.url()));
  context.on('console', (message) => {
    if (message.type() === 'error') complaints.push(`${message.text()} ${message.location().url}`);
  });
  context.on('weberror', (error) => complaints.push(String(error.error())));
  const page = await context.newPage();
  page.setDefaultTimeout(15_000);
  await page.goto(url);
  return page;
}

async function shot(page, name) {
  if (process.env.SALVAGE_SHOTS) await page.screenshot({ path: join(process.env.SALVAGE_SHOTS, `${name}.png`) });
}

const question = (page) => page.getByRole('textbox');
const answers = (page) => page.locator('article.answer');
const status = (page) => answers(page).last().getByTestId('status');

async function ask(page, text) {
  await question(page).fill(text);
  await question(page).press('Enter');
}

async function answered(page, phase = 'done') {
  await status(page).and(page.locator(`[data-phase=${phase}]`)).waitFor({ timeout: ANSWER_MS });
  return answers(page).last().locator('.text').innerText();
}

/** What the server knows of its requests, newest first. */
const requests = async () => (await (await fetch(new URL('v1/requests', first.url))).json()).data;

/** The page's answer comes from here, as if the server had sent it. */
async function answerWith(page, body, { status: code = 200, type = 'text/event-stream' } = {}) {
  await page.route('**/v1/chat/completions', (route) =>
    route.fulfill({ status: code, contentType: type, body }),
  );
}

const frames = (...frames) =>
  frames.map((one) => `data: ${typeof one === 'string' ? one : JSON.stringify(one)}\n\n`).join('');
const delta = (content) => ({ choices: [{ index: 0, delta: { content }, finish_reason: null }] });

test('what is served at "/" depends on who asks, and is sent once', async () => {
  const get = (path, headers, method = 'GET') => fetch(new URL(path, first.url), { headers, method });
  const html = { Accept: 'text/html,*/*;q=0.8' };
  assert.match(await (await get('/', { Accept: '*/*' })).text(), /GET \/v1\/models/);
  assert.equal((await (await get('/', { Accept: 'application/json' })).json()).api, '/v1');
  const whole = await get('/', html);
  const page = await whole.text();
  const tag = whole.headers.get('etag');
  assert.equal((await get('/', { ...html, 'If-None-Match': tag })).status, 304);
  const head = await get('/', { ...html, 'Accept-Encoding': 'identity' }, 'HEAD');
  assert.equal(Number(head.headers.get('content-length')), Buffer.byteLength(page));
  assert.equal(await head.text(), '');
  const script = /src="\.\/(assets\/[^"]+\.js)"/.exec(page)[1];
  const packed = await get(script, { 'Accept-Encoding': 'gzip' });
  assert.equal(packed.headers.get('content-encoding'), 'gzip');
  const plain = await get(script, { 'Accept-Encoding': 'identity' });
  assert.equal(plain.headers.get('content-encoding'), null);
  assert.equal(await packed.text(), await plain.text());
  assert.match(plain.headers.get('cache-control'), /immutable/);
  assert.equal((await get('/assets/no.js', html)).status, 404);
});

test('a question in English: the answer comes piece by piece, and stays over a reload', async () => {
  const page = await browse();
  await page.getByRole('heading', { level: 1 }).getByText(/smollm2/i).waitFor();
  await shot(page, 'desktop-light-empty');
  await ask(page, 'Write three sentences about the moon.');
  const lengths = new Set();
  const phases = new Set();
  await until('the answer is whole', async () => {
    const phase = await status(page).getAttribute('data-phase').catch(() => null);
    phases.add(phase);
    lengths.add((await answers(page).last().locator('.text').innerText()).length);
    return phase === 'done';
  }, { ms: ANSWER_MS, every: 30 });
  assert.ok(lengths.size > 5, `only ${lengths.size} states of the answer were seen`);
  assert.ok(phases.has('writing'), [...phases].join());
  assert.match(await status(page).innerText(), /\d+ tokens read.* · \d+ written at [\d.]+ tok\/s/);
  const text = await answered(page);
  await shot(page, 'desktop-light-answer');
  await page.reload();
  assert.equal(await answered(page), text);
  await page.getByRole('button', { name: 'New chat' }).click();
  assert.equal(await answers(page).count(), 0);
  await page.getByRole('button', { name: 'Write three sentences' }).first().click();
  assert.equal(await answered(page), text);
  await page.getByRole('button', { name: /^Delete the chat/ }).click();
  await page.getByRole('button', { name: /^Really delete the chat/ }).click();
  assert.equal(await answers(page).count(), 0);
  await page.reload();
  await page.getByText('Kept in this browser only.').waitFor();
});

test('a question in Chinese, on a browser that speaks it', async () => {
  const page = await browse({ locale: 'zh-CN' });
  assert.equal(await page.locator('html').getAttribute('lang'), 'zh-CN');
  await page.getByRole('button', { name: '新对话' }).waitFor();
  await ask(page, '你好，请用一句话介绍一下你自己。');
  assert.ok((await answered(page)).length > 0);
  assert.match(await status(page).innerText(), /读取 \d+ tokens.*生成 \d+/);
  await shot(page, 'desktop-light-zh');
  await page.getByRole('button', { name: 'English' }).click();
  await page.getByRole('button', { name: 'New chat' }).waitFor();
  await page.reload();
  await page.getByRole('button', { name: 'New chat' }).waitFor();
});

test('what a model writes is text: no tag, no script, no picture, no address that runs', async () => {
  const page = await browse();
  await answerWith(page, frames(delta(ATTACK.slice(0, 30)), delta(ATTACK.slice(30)), '[DONE]'));
  await ask(page, '<b>bold?</b><script>document.title="owned"</script>');
  const text = await answered(page);
  assert.ok(text.includes('<img src=x onerror='), text);
  assert.ok(text.includes('<b onclick="x">code</b>'), text);
  assert.ok((await page.locator('.question').innerText()).includes('<b>bold?</b>'));
  assert.equal(await page.locator('ol script, ol img, ol b, a[href^=javascript]').count(), 0);
  assert.notEqual(await page.title(), 'owned');
  await page.getByRole('button', { name: 'Copy code' }).click();
  await page.getByText('Copied').first().waitFor({ state: 'attached' });
});

test('errors are told by their code in the reader’s language, with what to do', async () => {
  const page = await browse({ locale: 'zh-CN' });
  const error = { error: { code: 'node_lost', message: 'attic-pc is gone', type: 'server_error' } };
  await answerWith(page, frames(delta('half'), error, '[DONE]'));
  await ask(page, '早');
  await page.getByRole('alert').getByText('集群中有一台机器掉线').waitFor();
  await page.getByRole('alert').getByText('attic-pc is gone').waitFor();
  await shot(page, 'desktop-light-error-zh');
  assert.equal(await answered(page, 'failed'), 'half');
  await page.unroute('**/v1/chat/completions');
  await answerWith(page, JSON.stringify({ error: { code: 'queue_full', message: '9 wait' } }), {
    status: 429,
    type: 'application/json',
  });
  await page.getByRole('button', { name: '重新回答' }).click();
  await page.getByRole('alert').getByText('等待的回答已满').waitFor();
  await page.unroute('**/v1/chat/completions');
  await page.route('**/v1/chat/completions', (route) => route.abort());
  await page.getByRole('button', { name: '重新回答' }).click();
  await page.getByRole('alert').getByText('无法连接服务器').waitFor();
});

test('a choice of several models; what is being loaded is said; so is a server that is gone', async () => {
  const page = await browse();
  const list = (...models) => (route) => route.fulfill({
    json: { data: models.map(([id, value]) => ({ id, status: { value } })) },
  });
  await page.route('**/v1/models', list(['small', 'loaded'], ['large', 'loaded'], ['huge', 'loading']));
  await page.reload();
  await page.getByLabel('Model').selectOption('large');
  const request = page.waitForRequest('**/v1/chat/completions');
  await answerWith(page, frames(delta('yes'), '[DONE]'));
  await ask(page, 'Large?');
  assert.equal((await request).postDataJSON().model, 'large');
  await page.reload();
  assert.equal(await page.getByLabel('Model').inputValue(), 'large');
  await page.unroute('**/v1/models');
  await page.route('**/v1/models', list(['huge', 'loading']));
  await page.reload();
  await page.getByRole('heading', { name: 'huge is being loaded' }).waitFor();
  await page.unroute('**/v1/models');
  await page.route('**/v1/models', (route) => route.abort());
  await page.reload();
  await page.getByRole('heading', { name: "The server can't be reached" }).waitFor();
  await page.unroute('**/v1/models');
  await page.getByRole('button', { name: 'Try again' }).click();
  await page.getByRole('heading', { level: 1 }).getByText(/smollm2/i).waitFor();
});

test('another chat is opened while an answer comes: it is stopped, and kept where it belongs', async () => {
  const page = await browse();
  await ask(page, STORY);
  await status(page).and(page.locator('[data-phase=writing]')).waitFor({ timeout: ANSWER_MS });
  await page.getByRole('button', { name: 'New chat' }).click();
  assert.equal(await answers(page).count(), 0);
  const second = await page.context().newPage(); // another tab of the same browser
  await second.goto(first.url);
  await answerWith(second, frames(delta('from the second tab'), '[DONE]'));
  await second.getByRole('button', { name: 'New chat' }).click();
  await ask(second, 'Second tab?');
  await answered(second);
  await page.getByRole('button', { name: 'Second tab?', exact: true }).click();
  assert.equal(await answered(page), 'from the second tab');
  await page.getByRole('button', { name: STORY, exact: true }).click();
  assert.ok((await answered(page, 'stopped')).length > 0);
});

test('thoughts are folded away and can be opened', async () => {
  const page = await browse();
  const thought = { choices: [{ index: 0, delta: { reasoning_content: 'let me see' } }] };
  await answerWith(page, frames(thought, delta('**blue**'), '[DONE]'));
  await ask(page, 'Which colour?');
  assert.equal(await answered(page), 'blue');
  assert.equal(await page.getByText('let me see').isVisible(), false);
  await page.getByText('Thoughts').click();
  assert.equal(await page.getByText('let me see').isVisible(), true);
});

test('light and dark: as the system says, until somebody chooses', async () => {
  const page = await browse({ colorScheme: 'dark' });
  const ground = () => page.evaluate(() => getComputedStyle(document.body).backgroundColor);
  const dark = await ground();
  await ask(page, 'Name two colours.');
  await answered(page);
  await shot(page, 'desktop-dark');
  await page.getByRole('button', { name: 'Switch to light' }).click();
  assert.notEqual(await ground(), dark);
  await page.reload();
  assert.notEqual(await ground(), dark);
  await page.getByRole('button', { name: 'Switch to dark' }).click();
  assert.equal(await ground(), dark);
});

test('a phone of 320 pixels: everything is reachable, nothing is wider than the screen', async () => {
  const page = await browse({ viewport: { width: 320, height: 568 }, hasTouch: true, isMobile: true, reducedMotion: 'reduce' });
  const width = () => page.evaluate(() => document.documentElement.scrollWidth);
  await answerWith(page, frames(delta(`| a | b |\n|---|---|\n| ${'x'.repeat(200)} | 2 |\n\n\`\`\`\n${'y'.repeat(300)}\n\`\`\`\n\n${'z'.repeat(300)}`), '[DONE]'));
  await question(page).fill('w'.repeat(200));
  await page.getByRole('button', { name: 'Send' }).tap();
  await answered(page);
  assert.ok((await width()) <= 320, `${await width()} px`);
  await shot(page, 'phone-light-answer');
  await page.getByRole('button', { name: 'Open chats' }).tap();
  await page.getByRole('button', { name: 'New chat' }).waitFor();
  assert.ok((await width()) <= 320);
  await shot(page, 'phone-light-drawer');
  await page.getByRole('button', { name: 'New chat' }).tap();
  await page.getByRole('button', { name: '中文' }).tap();
  await shot(page, 'phone-light-empty-zh');
  assert.ok((await width()) <= 320);
});

test('a key is asked for, refused, taken, and kept no longer than wished', async () => {
  const locked = await cluster.up('locked', '--api-key', 'sk-right');
  const page = await browse({ url: locked.url });
  const dialog = page.getByRole('dialog');
  await dialog.getByText('answers only with a key').waitFor();
  await shot(page, 'desktop-light-key');
  await dialog.getByRole('button', { name: 'Cancel' }).click();
  await page.getByRole('button', { name: 'Enter the key' }).click();
  await dialog.getByLabel('Key', { exact: true }).fill('sk-wrong');
  await dialog.getByRole('button', { name: 'Use it' }).click();
  await dialog.getByText('did not accept').waitFor();
  await dialog.getByLabel('Key', { exact: true }).fill('sk-right');
  await dialog.getByRole('button', { name: 'Use it' }).click();
  await page.getByRole('heading', { name: 'No model is loaded' }).waitFor();
  await page.getByText('salvage load').waitFor();
  await shot(page, 'desktop-light-no-model');
  assert.equal(await page.evaluate(() => localStorage.getItem('salvage.key')), null);
  assert.equal(await page.evaluate(() => sessionStorage.getItem('salvage.key')), 'sk-right');
  await page.reload();
  await page.getByRole('heading', { name: 'No model is loaded' }).waitFor();
});

test('nothing that axe knows keeps anybody out: contrast, names, order, in both themes', async () => {
  for (const colorScheme of ['light', 'dark']) {
    // The checker itself is a script that the page's policy would refuse.
    const page = await browse({ colorScheme, bypassCSP: true });
    const check = async (state) => {
      await page.evaluate(AXE);
      const { violations } = await page.evaluate(() => globalThis.axe.run({ resultTypes: ['violations'] }));
      const found = violations.map((one) => `${one.id}: ${one.nodes.map((node) => node.html).join(' ')}`);
      assert.deepEqual(found, [], `${state}, ${colorScheme}`);
    };
    await page.getByTestId('cluster').waitFor();
    await check('empty');
    const thought = { choices: [{ index: 0, delta: { reasoning_content: 'hm' } }] };
    await answerWith(page, frames(thought, delta(ALL_FORMS), { error: { code: 'node_lost', message: 'gone' } }));
    await ask(page, 'Show everything.');
    await page.getByRole('alert').waitFor();
    await check('answer');
    await page.route('**/v1/models', (route) =>
      route.fulfill({ status: 401, json: { error: { code: 'missing_api_key', message: 'no key' } } }),
    );
    await page.reload();
    await page.getByRole('dialog').waitFor();
    await check('dialog');
  }
});

test('the keyboard is enough: send, stop, fold, choose', async () => {
  const page = await browse();
  await question(page).fill('one');
  await question(page).press('Shift+Enter');
  await page.keyboard.type('two');
  assert.equal(await question(page).inputValue(), 'one\ntwo');
  await page.keyboard.press('Tab');
  assert.equal(await page.evaluate(() => document.activeElement.type), 'submit');
});

test('stop stops: the page at once, and the machines', async () => {
  const page = await browse();
  await ask(page, STORY);
  await status(page).and(page.locator('[data-phase=writing]')).waitFor({ timeout: ANSWER_MS });
  const [live] = (await requests()).filter((one) => one.state === 'decode');
  assert.ok(live, 'the server knows of no answer under way');
  await page.getByRole('button', { name: 'Stop' }).click();
  const text = await answered(page, 'stopped');
  assert.ok(text.length > 0);
  const over = await until('the machines have stopped', async () =>
    (await requests()).find((one) => one.id === live.id && one.state === 'cancelled'), { ms: 3000, every: 20 });
  await new Promise((resolve) => setTimeout(resolve, 300));
  const later = (await requests()).find((one) => one.id === live.id);
  assert.equal(later.answer_tokens, over.answer_tokens);
  await page.getByRole('button', { name: 'New chat' }).click();
  await ask(page, STORY);
  await status(page).and(page.locator('[data-phase=writing]')).waitFor({ timeout: ANSWER_MS });
  await page.keyboard.press('Escape');
  await answered(page, 'stopped');
});

test('who waits sees the place in the queue, and goes on when it is his turn', async () => {
  const [one, two] = [await browse(), await browse()];
  await ask(one, STORY);
  await status(one).and(one.locator('[data-phase=writing]')).waitFor({ timeout: ANSWER_MS });
  await ask(two, 'Name a colour.');
  await status(two).getByText('queued 1st').waitFor();
  await one.getByRole('button', { name: 'Stop' }).click();
  await status(two).getByText(/queued 1st → reading prompt \d+\/\d+.* → /).waitFor();
  assert.ok((await answered(two)).length > 0);
});

test('the cluster at a glance: machines, their layers, memory and work', async () => {
  const page = await browse();
  const panel = page.getByTestId('cluster');
  await panel.getByText('3 machines').waitFor();
  const lines = await panel.locator('li').allInnerTexts();
  const parts = [/^old-desktop\s+layers 0–9/, /^(thinkpad|attic-pc)\s+layers 10–19/, /^(thinkpad|attic-pc)\s+layers 20–29/];
  assert.equal(lines.length, parts.length);
  for (const [at, part] of parts.entries()) assert.match(lines[at], part);
  for (const text of lines) assert.match(text, /[\d.]+ [GM]iB of [\d.]+ [GM]iB\s+\d+ % busy/);
  await cluster.leave('attic-pc');
  await panel.getByText('off', { exact: true }).waitFor();
  await page.getByRole('heading', { name: "can't answer right now" }).waitFor();
  await shot(page, 'desktop-light-machine-off');
});

test('nothing was asked of anybody else, and the browser had nothing to complain about', () => {
  const origins = new Set(asked.map((url) => new URL(url)).filter((url) => url.protocol !== 'data:').map((url) => url.hostname));
  assert.deepEqual([...origins], ['127.0.0.1']);
  const expected = /Failed to load resource: (the server responded with a status of (401|429)|net::ERR_FAILED)/;
  assert.deepEqual([...new Set(complaints)].filter((text) => !expected.test(text)), []);
});

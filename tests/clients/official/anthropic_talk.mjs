// @anthropic-ai/sdk: messages, counting, models, errors, departures.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import Anthropic from '@anthropic-ai/sdk';
import { becomesIdle, collect, CONTEXT, HELLO, isWorking, KEY, MODEL, STORY, TOO_LONG, URL } from './served.mjs';

const client = (options = {}) =>
  new Anthropic({ baseURL: URL, apiKey: KEY, maxRetries: 0, timeout: 60000, ...options });
const ask = (options = {}) => ({ model: MODEL, messages: HELLO, max_tokens: 40, temperature: 0, ...options });

test('a whole answer, and a stream that says the same', async () => {
  const whole = await client().messages.create(ask());
  assert.ok(whole.content[0].text);
  const events = await collect(await client().messages.create(ask({ stream: true })));
  const text = events.filter((event) => event.type === 'content_block_delta')
    .map((event) => event.delta.text).join('');
  assert.equal(text, whole.content[0].text);
  assert.equal(events.at(-2).delta.stop_reason, whole.stop_reason);
  const final = await client().messages.stream(ask()).finalMessage();
  assert.equal(final.content[0].text, text);
  assert.equal(final.usage.output_tokens, whole.usage.output_tokens);
});

test('a stop text, blocks of a system, the beta path', async () => {
  const whole = (await client().messages.create(ask())).content[0].text;
  const word = whole.split(' ')[3];
  const stopped = await client().messages.create(ask({ stop_sequences: [word] }));
  assert.deepEqual([stopped.stop_reason, stopped.stop_sequence], ['stop_sequence', word]);
  const beta = await client().beta.messages.create(ask({
    betas: ['a-beta-2025-01-01'],
    system: [{ type: 'text', text: 'Be brief.', cache_control: { type: 'ephemeral' } }],
  }));
  assert.ok(beta.content[0].text);
});

test('tokens are counted, models listed', async () => {
  const counted = await client().messages.countTokens({ model: MODEL, messages: HELLO });
  const { usage } = await client().messages.create(ask());
  assert.equal(counted.input_tokens, usage.input_tokens + usage.cache_read_input_tokens);
  assert.deepEqual((await collect(client().models.list())).map((model) => model.id), [MODEL]);
});

test('errors are of the classes that people catch', async () => {
  await assert.rejects(client({ apiKey: 'sk-of-nobody' }).messages.create(ask()), Anthropic.AuthenticationError);
  await assert.rejects(client().messages.create(ask({ model: 'claude-none' })), Anthropic.NotFoundError);
  const long = [{ role: 'user', content: TOO_LONG }];
  await assert.rejects(client().messages.create(ask({ messages: long, stream: true })),
    (error) => error instanceof Anthropic.BadRequestError &&
      error.message.includes(`> ${CONTEXT} maximum`));
});

test('a stream that is left ends the work', async () => {
  const stream = client().messages.stream(ask({ messages: STORY, max_tokens: 900, ignore_eos: true }));
  let count = 0;
  for await (const _ of stream) {
    if (++count === 5) {
      assert.ok(await isWorking());
      break;
    }
  }
  await becomesIdle();
});

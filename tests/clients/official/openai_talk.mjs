// openai, for Node: chat completions, completions, responses, models, errors, departures.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import OpenAI from 'openai';
import { zodResponseFormat, zodTextFormat } from 'openai/helpers/zod';
import { z } from 'zod';
import {
  becomesIdle, collect, CONTEXT, HELLO, isWorking, KEY, MODEL, QUESTION, STORY, TOO_LONG, URL,
} from './served.mjs';

const client = (options = {}) =>
  new OpenAI({ baseURL: `${URL}/v1`, apiKey: KEY, maxRetries: 0, timeout: 60000, ...options });
const chat = (options = {}, request = {}) => client().chat.completions.create(
  { model: MODEL, messages: HELLO, temperature: 0, max_tokens: 40, ...options }, request);
const FRANCE = 'Tell me of France and its capital, as JSON.';
const Capital = z.object({ country: z.string(), capital: z.string() });

test('a whole answer, and a stream that says the same', async () => {
  const whole = await chat();
  assert.ok(whole.choices[0].message.content);
  const chunks = await collect(await chat({ stream: true, stream_options: { include_usage: true } }));
  const text = chunks.map((chunk) => chunk.choices[0]?.delta.content ?? '').join('');
  assert.equal(text, whole.choices[0].message.content);
  assert.deepEqual(chunks.at(-1).choices, []);
  assert.equal(chunks.at(-1).usage.completion_tokens, whole.usage.completion_tokens);
});

test('the streaming helper puts it together', async () => {
  const stream = client().chat.completions.stream(
    { model: MODEL, messages: HELLO, temperature: 0, max_tokens: 40 });
  const final = await stream.finalChatCompletion();
  assert.equal(final.choices[0].message.content, (await chat()).choices[0].message.content);
});

test('two choices, a seed, a stop text, logprobs', async () => {
  const options = { n: 2, temperature: 1.5, seed: 7 };
  const texts = async () => (await chat(options)).choices.map((choice) => choice.message.content);
  const first = await texts();
  assert.deepEqual(await texts(), first);
  assert.notEqual(first[0], first[1]);
  const whole = (await chat()).choices[0].message.content;
  const word = whole.split(' ')[3];
  const stopped = await chat({ stop: [word] });
  assert.equal(stopped.choices[0].message.content, whole.slice(0, whole.indexOf(word)));
  const tokens = (await chat({ logprobs: true, top_logprobs: 2, max_tokens: 6 })).choices[0].logprobs.content;
  assert.equal(tokens.length, 6);
  assert.ok(tokens.every((token) => token.top_logprobs.length === 2));
});

test('JSON that follows a schema', async () => {
  const answer = await client().chat.completions.parse({
    model: MODEL, messages: [{ role: 'user', content: FRANCE }], temperature: 0, max_tokens: 120,
    response_format: zodResponseFormat(Capital, 'capital'),
  });
  assert.equal(typeof answer.choices[0].message.parsed.capital, 'string');
  const response = await client().responses.parse({
    model: MODEL, input: FRANCE, temperature: 0, max_output_tokens: 120,
    text: { format: zodTextFormat(Capital, 'capital') },
  });
  assert.equal(typeof response.output_parsed.capital, 'string');
});

test('completions', async () => {
  const ask = { model: MODEL, prompt: 'The capital of France is', temperature: 0, max_tokens: 8 };
  const whole = await client().completions.create(ask);
  assert.ok(whole.choices[0].text);
  const chunks = await collect(await client().completions.create({ ...ask, stream: true }));
  assert.equal(chunks.map((chunk) => chunk.choices[0]?.text ?? '').join(''), whole.choices[0].text);
});

test('responses, whole and streamed', async () => {
  const ask = { model: MODEL, input: QUESTION, temperature: 0, max_output_tokens: 60 };
  const whole = await client().responses.create(ask);
  assert.ok(whole.output_text);
  const events = await collect(await client().responses.create({ ...ask, stream: true }));
  assert.equal(events[0].type, 'response.created');
  assert.equal(events.at(-1).type, 'response.completed');
  assert.deepEqual(events.map((event) => event.sequence_number), events.map((_, index) => index));
  const final = await client().responses.stream(ask).finalResponse();
  assert.equal(final.output_text, whole.output_text);
});

test('models', async () => {
  assert.deepEqual((await collect(await client().models.list())).map((model) => model.id), [MODEL]);
});

test('errors are of the classes that people catch', async () => {
  await assert.rejects(client({ apiKey: 'sk-of-nobody' }).models.list(),
    (error) => error instanceof OpenAI.AuthenticationError && error.code === 'invalid_api_key');
  await assert.rejects(chat({ model: 'gpt-none' }),
    (error) => error instanceof OpenAI.NotFoundError && error.code === 'model_not_found');
  for (const stream of [false, true]) {
    await assert.rejects(chat({ messages: [{ role: 'user', content: TOO_LONG }], stream }),
      (error) => error instanceof OpenAI.BadRequestError && error.code === 'context_length_exceeded' &&
        error.message.includes(CONTEXT));
  }
  await assert.rejects(client({ maxRetries: 2 }).embeddings.create({ model: MODEL, input: 'x' }),
    (error) => error.status === 501 && error.code === 'not_supported');
});

test('a stream that is left ends the work', async () => {
  const stream = await chat({ messages: STORY, max_tokens: 900, stream: true, ignore_eos: true });
  let count = 0;
  for await (const _ of stream) {
    if (++count === 4) {
      assert.ok(await isWorking());
      break;
    }
  }
  await becomesIdle();
});

test('an answer that is waited for no longer ends the work', async () => {
  const leave = new AbortController();
  setTimeout(() => leave.abort(), 500);
  await assert.rejects(chat({ messages: STORY, max_tokens: 900, ignore_eos: true }, { signal: leave.signal }),
    OpenAI.APIUserAbortError);
  await becomesIdle();
});

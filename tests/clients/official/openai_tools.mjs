// openai, for Node: tools in chat completions, also by the helper that runs them itself.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import OpenAI from 'openai';
import { zodFunction } from 'openai/helpers/zod';
import { z } from 'zod';
import { collect, KEY, MODEL, URL } from './served.mjs';

const client = new OpenAI({ baseURL: `${URL}/v1`, apiKey: KEY, maxRetries: 0, timeout: 120000 });
const ASK = [{ role: 'user', content: 'What is the weather in Paris right now? Use the tool.' }];
const City = z.object({ city: z.string() });
const tools = [{
  type: 'function',
  function: {
    name: 'get_weather', description: 'The weather in a city at this moment.',
    parameters: { type: 'object', properties: { city: { type: 'string' } }, required: ['city'] },
  },
}];
const options = { model: MODEL, messages: ASK, temperature: 0, max_tokens: 96, tools };

test('a call, whole and streamed', async () => {
  const whole = await client.chat.completions.create({ ...options, tool_choice: 'required' });
  const [call] = whole.choices[0].message.tool_calls;
  assert.equal(whole.choices[0].finish_reason, 'tool_calls');
  assert.ok(City.parse(JSON.parse(call.function.arguments)).city);
  const stream = client.chat.completions.stream({ ...options, tool_choice: 'required' });
  const final = await stream.finalChatCompletion();
  assert.equal(final.choices[0].message.tool_calls[0].function.arguments, call.function.arguments);
});

test('the helper that calls by itself', async () => {
  const seen = [];
  const runner = client.chat.completions.runTools({
    model: MODEL, messages: ASK, temperature: 0, max_tokens: 96,
    tools: [{
      type: 'function',
      function: {
        name: 'get_weather', description: 'The weather in a city at this moment.',
        parameters: tools[0].function.parameters, parse: JSON.parse,
        function: ({ city }) => {
          seen.push(city);
          return 'sunny, 21 degrees';
        },
      },
    }],
  }, { maxChatCompletions: 2 });
  await runner.done();
  assert.match(seen[0], /Paris/);
  assert.ok(runner.messages.some((message) => message.role === 'tool' && message.content.includes('21')));
});

test('a function of zod is parsed', async () => {
  const answer = await client.chat.completions.parse({
    ...options, tools: [zodFunction({ name: 'get_weather', parameters: City })], tool_choice: 'required',
  });
  assert.equal(typeof answer.choices[0].message.tool_calls[0].function.parsed_arguments.city, 'string');
});

test('a call as a response', async () => {
  const events = await collect(await client.responses.create({
    model: MODEL, input: ASK, temperature: 0, max_output_tokens: 96, stream: true, tool_choice: 'required',
    tools: [{ type: 'function', strict: false, ...tools[0].function }],
  }));
  const done = events.find((event) => event.type === 'response.function_call_arguments.done');
  assert.ok(City.parse(JSON.parse(done.arguments)).city);
});

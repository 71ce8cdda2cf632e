// @anthropic-ai/sdk: tools in messages.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import Anthropic from '@anthropic-ai/sdk';
import { KEY, MODEL, URL } from './served.mjs';

const client = new Anthropic({ baseURL: URL, apiKey: KEY, maxRetries: 0, timeout: 120000 });
const ASK = [{ role: 'user', content: 'What is the weather in Paris right now? Use the tool.' }];
const options = {
  model: MODEL, messages: ASK, max_tokens: 96, temperature: 0,
  tools: [{
    name: 'get_weather', description: 'The weather in a city at this moment.',
    input_schema: { type: 'object', properties: { city: { type: 'string' } }, required: ['city'] },
  }],
  tool_choice: { type: 'any' },
};

test('a call, its stream, and its result', async () => {
  const whole = await client.messages.create(options);
  const use = whole.content.find((block) => block.type === 'tool_use');
  assert.equal(whole.stop_reason, 'tool_use');
  assert.equal(typeof use.input.city, 'string');
  const final = await client.messages.stream(options).finalMessage();
  assert.deepEqual(final.content.find((block) => block.type === 'tool_use').input, use.input);
  const answer = await client.messages.create({
    ...options, tool_choice: { type: 'none' },
    messages: [...ASK, { role: 'assistant', content: whole.content },
      { role: 'user', content: [{ type: 'tool_result', tool_use_id: use.id, content: 'sunny, 21 degrees' },
        { type: 'text', text: 'Thank you. Say in one short sentence what the weather is.' }] }],
  });
  assert.match(answer.content[0].text, /sun|21/i);
});

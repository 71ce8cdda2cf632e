// What the tests of the clients for Node share: where the cluster is and what it does.
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { setTimeout as sleep } from 'node:timers/promises';
import { isDeepStrictEqual, promisify } from 'node:util';

const { env } = process;
export const URL = env.SALVAGE_CLIENTS_URL;
export const KEY = env.SALVAGE_CLIENTS_KEY;
export const MODEL = env.SALVAGE_CLIENTS_MODEL;
export const CONTEXT = env.SALVAGE_CLIENTS_CONTEXT;
export const QUESTION = 'Say hello.';
export const HELLO = [{ role: 'user', content: QUESTION }];
export const STORY = [{ role: 'user', content: 'Tell me a very long story about a lighthouse.' }];
export const TOO_LONG = 'many words '.repeat(Number(CONTEXT));
// As in served.py.
const IDLE_MS = 3000;
const QUIET_MS = 1200;
const PAUSE_MS = 20;

async function ps() {
  const { stdout } = await promisify(execFile)(
    env.SALVAGE_BINARY, ['ps', '--json', '--data', env.SALVAGE_CLIENTS_DATA], { timeout: 30000 });
  return JSON.parse(stdout).deployments.find((row) => row.state === 'ready');
}

const linkBytes = async () => (await ps()).links.map((link) => link.bytes_sent);

// Nothing runs any more, and nothing travels between the stages.
export async function becomesIdle() {
  const begin = Date.now();
  while ((await ps()).requests_running > 0) {
    assert.ok(Date.now() - begin < IDLE_MS, 'no request runs any more');
    await sleep(PAUSE_MS);
  }
  const end = Date.now() + IDLE_MS;
  for (let quiet = false; !quiet;) {
    assert.ok(Date.now() < end, 'the stages still work');
    const before = await linkBytes();
    await sleep(QUIET_MS);
    quiet = isDeepStrictEqual(await linkBytes(), before);
  }
}

export async function isWorking() {
  return (await ps()).requests_running > 0;
}

export async function collect(stream) {
  const all = [];
  for await (const one of stream) all.push(one);
  return all;
}

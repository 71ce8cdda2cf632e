// Real `salvage` processes for the browser test: machines of a cluster, all on this one, on loopback
// ports that are free. Each process that is started is ended by its own id.

import { spawn } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

const BINARY = process.env.SALVAGE_BINARY;
const START_MS = 30_000;
const STOP_MS = 5_000;
const STAGE_PORTS = 6;

function isFree(port) {
  return new Promise((resolve) => {
    const server = createServer();
    server.once('error', () => resolve(false));
    server.listen(port, '127.0.0.1', () => server.close(() => resolve(true)));
  });
}

/** The first of `count` ports in a row that nobody uses. */
async function freePorts(count) {
  for (let tries = 0; tries < 200; tries++) {
    const first = 20_000 + Math.floor(Math.random() * 12_000);
    let free = 0;
    while (free < count && (await isFree(first + free))) free++;
    if (free === count) return first;
  }
  throw new Error('no free ports were found');
}

export async function until(what, test, { ms = START_MS, every = 100 } = {}) {
  const end = Date.now() + ms;
  for (;;) {
    const value = await test();
    if (value) return value;
    if (Date.now() > end) throw new Error(`not within ${ms} ms: ${what}`);
    await new Promise((resolve) => setTimeout(resolve, every));
  }
}

class Machine {
  output = '';

  constructor(name, folder) {
    this.name = name;
    this.data = join(folder, name);
  }

  async start(verb, ...more) {
    const port = await freePorts(2 + STAGE_PORTS);
    const ports = ['--port', port, '--stage-ports', `${port + 1}-${port + STAGE_PORTS}`];
    if (verb === 'up') more.push('--download-port', 0, '--listen', `127.0.0.1:${port + 1 + STAGE_PORTS}`);
    const words = [verb, ...more, '--data', this.data, '--name', this.name, ...ports].map(String);
    this.process = spawn(BINARY, words, { stdio: ['ignore', 'pipe', 'pipe'] });
    for (const stream of [this.process.stdout, this.process.stderr]) {
      stream.on('data', (bytes) => (this.output += bytes));
    }
    process.once('exit', () => this.process.kill('SIGKILL')); // whatever became of the test
    this.ended = new Promise((resolve) => this.process.once('exit', resolve));
  }

  /** What the process prints, as soon as it prints it. */
  async printed(pattern) {
    const found = await until(`${this.name} prints ${pattern}`, () => {
      if (this.process.exitCode !== null) throw new Error(`${this.name} has ended:\n${this.output}`);
      return pattern.exec(this.output);
    });
    return found[1];
  }

  /** Another command of the same machine. @returns {Promise<string>} what it printed */
  command(...words) {
    return new Promise((resolve, reject) => {
      const child = spawn(BINARY, [...words, '--data', this.data].map(String));
      let out = '';
      child.stdout.on('data', (bytes) => (out += bytes));
      child.stderr.on('data', (bytes) => (out += bytes));
      child.once('exit', (code) => (code === 0 ? resolve(out) : reject(new Error(`${words.join(' ')}: ${out}`))));
    });
  }

  async stop() {
    if (!this.process || this.process.exitCode !== null) return;
    this.process.kill('SIGINT');
    const timer = setTimeout(() => this.process.kill('SIGKILL'), STOP_MS);
    await this.ended;
    clearTimeout(timer);
  }
}

export class Cluster {
  #folder = mkdtempSync(join(tmpdir(), 'salvage-page-'));
  #machines = [];

  #add(name) {
    const machine = new Machine(name, this.#folder);
    this.#machines.push(machine);
    return machine;
  }

  /** The coordinator, with its API on a free port; `more` are options of `salvage up`. */
  async up(name, ...more) {
    const machine = this.#add(name);
    await machine.start('up', ...more);
    machine.url = (await machine.printed(/(http:\/\/127\.0\.0\.1:\d+)/)) + '/';
    machine.code = await machine.printed(/(slv1\.[\w-]+)/);
    return machine;
  }

  async join(first, ...names) {
    const text = await first.command('invite', '--uses', names.length, '--json');
    const { code } = JSON.parse(text);
    for (const name of names) await this.#add(name).start('join', code);
    await until('all machines are there', async () => {
      const { nodes } = JSON.parse(await first.command('nodes', '--json'));
      return nodes.filter((node) => node.state === 'connected' || node.state === 'online').length > names.length;
    });
  }

  /** The machine is switched off. */
  leave(name) {
    return this.#machines.find((machine) => machine.name === name).stop();
  }

  async end() {
    await Promise.all(this.#machines.map((machine) => machine.stop()));
    rmSync(this.#folder, { recursive: true, force: true });
  }
}

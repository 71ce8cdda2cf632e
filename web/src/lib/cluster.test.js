import { expect, test } from 'vitest';

import { clusterView, statesOf, waitMs, waitsFor, watch } from './cluster.js';

const BODY = {
  object: 'cluster',
  name: 'attic',
  machines: [
    { name: 'spare', state: 'offline', layers: [] },
    { name: 'pi', state: 'lost', coordinator: false, layers: [] },
    {
      name: 'desk',
      state: 'online',
      coordinator: true,
      cores: 4,
      memory_total_bytes: 800,
      memory_used_bytes: 200,
      busy: 0.5,
      layers: [{ model: 'm', stage: 0, layers: [0, 6] }],
    },
    { name: 'gone', state: 'removed', layers: [] },
  ],
  models: [
    { name: 'other', bytes: 1, state: 'unloaded' },
    {
      name: 'm',
      layers: 8,
      state: 'ready',
      requests_running: 3,
      requests_queued: 2,
      stages: [
        { index: 0, machine: 'desk', layers: [0, 6], state: 'loaded', busy: 0.5 },
        { index: 1, machine: 'pi', layers: [6, 8], state: 'loaded' },
      ],
    },
  ],
};

test('what is shown of a cluster, its machines in the order of their layers', () => {
  const view = clusterView(BODY, 'm');
  expect(view.machines.map((one) => [one.name, one.state, one.usedShare, one.busy])).toEqual([
    ['desk', 'online', 0.25, 0.5],
    ['pi', 'lost', null, null],
    ['spare', 'offline', null, null],
  ]);
  expect(view.machines[0].parts).toEqual([{ model: 'm', begin: 0, end: 6 }]);
  expect([view.model.running, view.model.queued]).toEqual([3, 2]);
  expect(view.model.stages.map((stage) => [stage.machine, stage.share, stage.busy])).toEqual([
    ['desk', 0.75, 0.5],
    ['pi', 0.25, null],
  ]);
});

test('a cluster without machines, models or sense', () => {
  expect(clusterView({}, 'm')).toEqual({ name: '', machines: [], model: null });
  expect(clusterView({ models: [{ name: 'x', stages: [{}] }] }, '').model.stages[0].share).toBe(0);
});

test('whether a model waits for machines, and whether that has changed', () => {
  const waiting = { models: [{ name: 'm', state: 'waiting', reason: 'pi is lost' }, { name: 'n', state: 'ready' }] };
  expect(waitsFor(waiting, 'm')).toBe('pi is lost');
  expect([waitsFor(waiting, 'n'), waitsFor(waiting, 'x'), waitsFor(null, 'm')]).toEqual(['', '', '']);
  expect(statesOf(waiting)).toBe('m=waiting,n=ready');
  expect(statesOf(BODY)).toBe('other=unloaded,m=ready');
  expect(statesOf(null)).toBe('');
});

test('failures make the looks rarer, up to a minute', () => {
  expect([0, 1, 2, 9].map(waitMs)).toEqual([2000, 4000, 8000, 60_000]);
});

test('nobody looks while the page is not seen, and it goes on when it is', async () => {
  let onChange;
  const page = {
    visibilityState: 'visible',
    addEventListener: (name, call) => (onChange = call),
    removeEventListener: () => (onChange = null),
  };
  const waits = [];
  let looks = 0;
  let next;
  const results = [true, false, false, true];
  const end = watch(async () => results[looks++], {
    page,
    after: (call, ms) => {
      next = call;
      return waits.push(ms);
    },
    cancel: () => {},
  });
  const settled = () => new Promise((resolve) => setImmediate(resolve));
  await settled();
  for (let turn = 0; turn < 3; turn++) {
    next();
    await settled();
  }
  expect(waits).toEqual([2000, 4000, 8000, 2000]);
  page.visibilityState = 'hidden';
  next();
  await settled();
  expect(looks).toBe(4);
  page.visibilityState = 'visible';
  results.push(true);
  onChange();
  await settled();
  expect(looks).toBe(5);
  end();
  next();
  await settled();
  expect([looks, onChange]).toEqual([5, null]);
});

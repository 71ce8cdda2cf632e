// The cluster at a glance: from what GET v1/cluster says to what is shown of it. Figures that the server
// doesn't know it leaves out; they stay null here.

const EVERY_MS = 2000;
const WAIT_MS_MAX = 60_000;

/** How long until the next look, after so many failures in a row. */
export function waitMs(failures) {
  return Math.min(EVERY_MS * 2 ** failures, WAIT_MS_MAX);
}

const numberOrNull = (value) => (typeof value === 'number' && Number.isFinite(value) ? value : null);
const rangeOf = (value) => ({ begin: Number(value?.[0]) || 0, end: Number(value?.[1]) || 0 });

function machineOf(json) {
  const total = numberOrNull(json.memory_total_bytes);
  const used = numberOrNull(json.memory_used_bytes);
  return {
    name: String(json.name),
    state: String(json.state),
    isCoordinator: Boolean(json.coordinator),
    cores: numberOrNull(json.cores),
    totalBytes: total,
    usedBytes: used,
    usedShare: total && used !== null ? Math.min(used / total, 1) : null,
    busy: numberOrNull(json.busy),
    parts: (json.layers ?? []).map((part) => ({ model: String(part.model), ...rangeOf(part.layers) })),
  };
}

function stageOf(json, layerCount) {
  const { begin, end } = rangeOf(json.layers);
  return {
    machine: String(json.machine),
    begin,
    end,
    share: (end - begin) / layerCount,
    state: String(json.state),
    busy: numberOrNull(json.busy),
  };
}

function modelOf(json) {
  const stages = json.stages ?? [];
  const layerCount = Math.max(numberOrNull(json.layers) ?? 0, ...stages.map((stage) => rangeOf(stage.layers).end), 1);
  return {
    name: String(json.name),
    state: String(json.state),
    layerCount,
    running: numberOrNull(json.requests_running) ?? 0,
    queued: numberOrNull(json.requests_queued) ?? 0,
    stages: stages.map((stage) => stageOf(stage, layerCount)),
  };
}

/** Which models are in which state, to be compared with what it was. */
export function statesOf(json) {
  return (json?.models ?? []).map((model) => `${model.name}=${model.state}`).join();
}

/** Why a model doesn't answer, as the server says it; empty: it does, or nobody knows. */
export function waitsFor(json, modelName) {
  const model = (json?.models ?? []).find((one) => one.name === modelName);
  return model?.state === 'waiting' ? String(model.reason ?? '') : '';
}

/** @param {object} json the body of v1/cluster @param {string} modelName the model that is shown */
export function clusterView(json, modelName) {
  const models = (json.models ?? []).map(modelOf).filter((model) => model.stages.length > 0);
  const model = models.find((one) => one.name === modelName) ?? models[0] ?? null;
  const machines = (json.machines ?? []).map(machineOf);
  // In the order in which a token passes them; who has no part of it comes last.
  const placeOf = (machine) => {
    const place = model?.stages.findIndex((stage) => stage.machine === machine.name) ?? -1;
    return place < 0 ? Infinity : place;
  };
  const byPlace = (a, b) => (placeOf(a) === placeOf(b) ? 0 : placeOf(a) - placeOf(b));
  return {
    name: String(json.name ?? ''),
    machines: machines.filter((one) => one.state !== 'left' && one.state !== 'removed').sort(byPlace),
    model,
  };
}

/** Calls `look` every two seconds while the page is seen, less often after failures; returns its end. */
export function watch(look, { page = document, after = setTimeout, cancel = clearTimeout } = {}) {
  let timer = null;
  let failures = 0;
  let isEnded = false;
  let isLooking = false;

  async function turn() {
    timer = null;
    if (isEnded || isLooking || page.visibilityState !== 'visible') return;
    isLooking = true;
    try {
      failures = (await look()) ? 0 : failures + 1;
    } finally {
      isLooking = false;
    }
    if (!isEnded && timer === null) timer = after(turn, waitMs(failures));
  }

  function seen() {
    if (page.visibilityState !== 'visible' || isLooking) return;
    if (timer !== null) cancel(timer);
    turn();
  }

  page.addEventListener('visibilitychange', seen);
  turn();
  return () => {
    isEnded = true;
    if (timer !== null) cancel(timer);
    page.removeEventListener('visibilitychange', seen);
  };
}

#!/usr/bin/env python3
"""salvage against llama.cpp's own programs, on one machine, in one run.

    make bench-peers                     the standard: a random 1.7B Qwen3-shaped Q4_K_M model
    bench/peers.py --layers 16 ...       another shape
    bench/peers.py --quick               a small model, to try this script

Contestants take turns (each round in another order) and of all rounds everybody's best counts.
Last on stdout: one line `name value wanted` a ratio, bigger is better. Progress goes to stderr.
"""
import argparse
import dataclasses
import datetime
import hashlib
import json
import os
import pathlib
import platform
import subprocess
import sys
import time

import peer_processes
import peer_ratios
import peer_runs
from peer_processes import PeerError

REPO = pathlib.Path(__file__).resolve().parent.parent
DEFAULT_UBATCH = 512
# RPC's ubatches are all tried in so many rounds; then only those near the best go on.
SCREENING_ROUNDS = 2
SCREENING_NEAR = 0.9
# Changes when random_model writes other bytes for the same flags.
MODEL_VERSION = 1
QUICK = {"layers": 8, "embd": 512, "heads": 8, "kv_heads": 4, "head_dim": 64, "ff": 1536,
         "lengths": [128, 512], "generate": 32, "rounds": 2}


def say(text):
    print(text, file=sys.stderr, flush=True)


def numbers(text):
    return [int(word) for word in text.split(",")]


def options():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="small model, few rounds")
    parser.add_argument("--rounds", type=int, default=5, help="samples of each contestant (5)")
    parser.add_argument("-p", dest="lengths", type=numbers, default=[512, 2048],
                        help="prompt lengths (512,2048)")
    parser.add_argument("-n", dest="generate", type=int, default=64, help="tokens of a decode (64)")
    parser.add_argument("--streams", type=int, default=4, help="streams at once (4)")
    parser.add_argument("--cores", type=numbers, help="one core a stage (the first two)")
    parser.add_argument("--ubatches", type=numbers, default=[64, 128, 256, 512],
                        help="what RPC may choose from (64,128,256,512)")
    parser.add_argument("--all-ubatches", action="store_true",
                        help="try every ubatch in every round")
    parser.add_argument("--timeout", type=float, default=1800.0, help="seconds a command may take")
    parser.add_argument("--high-priority", action="store_true",
                        help="before all other processes: for a busy machine; needs root")
    parser.add_argument("--json", action="store_true", help="one JSON object on stdout instead")
    parser.add_argument("--strict", action="store_true", help="exit code 1 if a ratio is missed")
    add_model_options(parser.add_argument_group("model"))
    add_program_options(parser.add_argument_group("programs"))
    return parser.parse_args()


def add_model_options(group):
    group.add_argument("--model", type=pathlib.Path, help="a GGUF instead of a random model")
    group.add_argument("--arch", default="qwen3")
    group.add_argument("--type", default="q4_k_m")
    for name, default in (("layers", 28), ("embd", 2048), ("heads", 16), ("kv-heads", 8),
                          ("head-dim", 128), ("ff", 6144), ("seed", 1)):
        group.add_argument(f"--{name}", type=int, default=default)
    group.add_argument("--untied", action="store_true", help="an output matrix of its own")
    group.add_argument("--vocab-from", type=pathlib.Path, help="GGUF whose tokenizer to use")


def add_program_options(group):
    release = REPO / "build/release/bin"
    group.add_argument("--salvage", type=pathlib.Path, default=release / "salvage")
    group.add_argument("--random-model", type=pathlib.Path, default=release / "random_model")
    group.add_argument("--peers", type=pathlib.Path,
                       help="folder of llama-bench and ggml-rpc-server (built if not given)")


def cache_folder():
    root = os.environ.get("SALVAGE_CACHE")
    if not root:
        root = pathlib.Path(os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache",
                            "salvage")
    folder = pathlib.Path(root) / "bench"
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def llama_tool(*words):
    """Last line that tools/llama.sh prints; it shows its own progress on stderr."""
    done = subprocess.run([REPO / "tools/llama.sh", *words], stdout=subprocess.PIPE, text=True,
                          check=False)
    lines = done.stdout.strip().splitlines()
    if done.returncode != 0 or not lines:
        raise PeerError(f"tools/llama.sh {' '.join(words)} failed")
    return pathlib.Path(lines[-1])


def random_model(chosen):
    """The random model of these flags, from the cache or made now (seconds)."""
    vocabulary = chosen.vocab_from or llama_tool("fetch") / "models/ggml-vocab-qwen2.gguf"
    flags = []
    for name in ("arch", "layers", "embd", "heads", "kv_heads", "head_dim", "ff", "type", "seed"):
        flags += [f"--{name.replace('_', '-')}", str(getattr(chosen, name))]
    flags += ["--untied"] if chosen.untied else []
    key = hashlib.sha256(json.dumps([MODEL_VERSION, flags, str(vocabulary)]).encode()).hexdigest()
    name = f"random-{chosen.arch}-{chosen.layers}x{chosen.embd}-{chosen.type}-{key[:12]}.gguf"
    path = cache_folder() / name
    if not path.exists():
        say(f"making {path}")
        peer_processes.run([chosen.random_model, *flags, "--vocab-from", vocabulary, "-o", path],
                           os.sched_getaffinity(0), chosen.timeout)
    return path


def prepare(chosen):
    """(programs, work), everything built and made."""
    if chosen.quick:
        for name, value in QUICK.items():
            setattr(chosen, name, value)
    usable = sorted(os.sched_getaffinity(0))
    cores = chosen.cores or usable[:2]
    if len(set(cores)) < 2 or not set(cores) <= set(usable):
        raise PeerError(f"needs two different cores (--cores); usable here are {usable}")
    for program in (chosen.salvage, *([] if chosen.model else [chosen.random_model])):
        if not program.exists():
            raise PeerError(f"{program} does not exist: run `make bench-peers`, which builds it")
    peers = chosen.peers or llama_tool("peers")
    programs = peer_runs.Programs(chosen.salvage, peers / "llama-bench", peers / "ggml-rpc-server")
    model = chosen.model or random_model(chosen)
    work = peer_runs.Work(model, chosen.lengths, chosen.generate, [1, chosen.streams], cores,
                          chosen.timeout)
    return programs, work


class Race:
    """Runs the contestants by turns and keeps what they reached."""

    def __init__(self, programs, work, chosen):
        self.programs, self.work, self.chosen = programs, work, chosen
        self.samples = peer_ratios.Samples()
        self.salvage_reports = []
        self.rpc_memory = []
        self.depth = 0  # context at which salvage begins to decode; everybody does the same
        self.layers = peer_runs.layer_count(programs, work)
        self.rpc_layers = peer_runs.check_rpc_split(programs, work, self.layers)
        say(f"{self.layers} layers; each RPC server holds {self.rpc_layers}")

    def salvage(self, _):
        found, report = peer_runs.salvage(self.programs, self.work)
        self.salvage_reports.append(report)
        self.depth = report["decode"][0].get("depth", 0)
        return found

    def single(self, turn, cores, task):
        # One thread takes another core in each round: cores of a shared machine are not equal.
        chosen = [self.work.cores[(turn + i) % len(self.work.cores)] for i in range(cores)]
        return peer_runs.one_process(self.programs, self.work, chosen, self.task_options(task))

    def rpc(self, task):
        found, memory, _ = peer_runs.over_rpc(self.programs, self.work, self.layers,
                                              self.task_options(task))
        self.rpc_memory = [max(pair) for pair in zip(memory, self.rpc_memory or memory)]
        return found

    def task_options(self, task):
        if task == "decode":
            return peer_runs.decode_options(self.work.generate, self.depth)
        return peer_runs.prefill_options(self.work.lengths, task)

    def contestants(self):
        """[(name, function of the round's number)]"""
        count = len(self.work.cores)
        entries = [("salvage", self.salvage)]
        for name, threads in (("one_thread", 1), (f"threads_{count}", count)):
            for task in (DEFAULT_UBATCH, "decode"):
                entries.append((name, lambda turn, threads=threads, task=task:
                                self.single(turn, threads, task)))
        for ubatch in self.ubatches():
            entries.append((f"rpc_ub{ubatch}", lambda _, ubatch=ubatch: self.rpc(ubatch)))
        entries.append(("rpc", lambda _: self.rpc("decode")))
        return entries

    def ubatches(self):
        """All in the first rounds; then those that came near the best at any length."""
        every = self.chosen.ubatches
        tried = len(self.salvage_reports)
        if tried < SCREENING_ROUNDS or self.chosen.all_ubatches:
            return every
        measures = [f"prefill_{length}" for length in self.work.lengths]
        return [ubatch for ubatch in every if any(
            self.samples.best(f"rpc_ub{ubatch}", measure)
            >= SCREENING_NEAR * self.samples.best_of("rpc_ub", measure)[0] for measure in measures)]

    def run_round(self, turn):
        entries = self.contestants()
        # salvage opens the first round, for it says at which depth it decodes; then they turn.
        first = turn % len(entries)
        for name, measure in entries[first:] + entries[:first]:
            started = time.monotonic()
            found = measure(turn)
            for what, value in found:
                self.samples.add(name, what, value)
            shown = ", ".join(f"{what} {value:.1f}" for what, value in found)
            say(f"round {turn + 1}: {name}: {shown} tok/s ({time.monotonic() - started:.0f} s)")


@dataclasses.dataclass
class Setup:
    """What peer_ratios.ratios wants to know beside the samples."""
    lengths: list
    stage_count: int
    chunk_counts: dict
    stages: list
    streams: int


def setup_of(race):
    last = race.salvage_reports[-1]
    chunks = {test["tokens"]: test["chunks"] for test in last["prefill"]}
    # A worker's worst round counts.
    stages = [dict(stage, peak_rss_bytes=max(report["stages"][index]["peak_rss_bytes"]
                                             for report in race.salvage_reports))
              for index, stage in enumerate(last["stages"])]
    return Setup(race.work.lengths, len(stages), chunks, stages, race.chosen.streams)


def machine():
    model = next((line.split(":", 1)[1].strip()
                  for line in pathlib.Path("/proc/cpuinfo").read_text().splitlines()
                  if line.startswith("model name")), platform.machine())
    commit = subprocess.run(["git", "-C", REPO, "rev-parse", "--short", "HEAD"],
                            stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
                            check=False).stdout.strip()
    return {"cpu": model, "cores": os.cpu_count(), "kernel": platform.release(),
            "date": datetime.date.today().isoformat(), "commit": commit or "unknown"}


def print_table(race, setup, about):
    print(", ".join(f"{key} {value}" for key, value in about.items()))
    print(f"model {race.work.model.name}, cores {race.work.cores}, "
          f"chunks {setup.chunk_counts}, decode at depth {race.depth}")
    for (name, measure), values in sorted(race.samples.values.items()):
        samples = " ".join(f"{value:.2f}" for value in values)
        print(f"  {name:12} {measure:14} best {max(values):8.2f} tok/s   all: {samples}")
    for stage in setup.stages:
        print(f"  stage {stage['index']} layers {stage['layers']}: "
              f"weights {stage['weights_bytes'] >> 20} MiB, KV {stage['kv_bytes'] >> 20} MiB, "
              f"peak {stage['peak_rss_bytes'] >> 20} MiB, busy {stage.get('busy', 0):.2f}")
    print("  RPC servers' peaks: " + ", ".join(f"{peak >> 20} MiB" for peak in race.rpc_memory))


def print_json(race, setup, about, ratios):
    samples = [{"contestant": name, "measure": measure, "tokens_per_second": values}
               for (name, measure), values in sorted(race.samples.values.items())]
    print(json.dumps({"machine": about, "model": race.work.model.name, "samples": samples,
                      "stages": setup.stages, "rpc_peak_rss_bytes": race.rpc_memory,
                      "ratios": [dataclasses.asdict(ratio) for ratio in ratios]}, indent=1))


def main():
    chosen = options()
    if chosen.rounds < 1:
        raise PeerError("--rounds must be at least 1")
    programs, work = prepare(chosen)
    if chosen.high_priority:
        peer_processes.use_high_priority()
    race = Race(programs, work, chosen)
    for turn in range(chosen.rounds):
        race.run_round(turn)
    setup = setup_of(race)
    ratios = peer_ratios.ratios(race.samples, setup)
    if chosen.json:
        print_json(race, setup, machine(), ratios)
    else:
        print_table(race, setup, machine())
        for ratio in ratios:
            print(ratio.line())
    missed = any(ratio.value < ratio.wanted for ratio in ratios)
    return 1 if chosen.strict and missed else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except PeerError as problem:
        say(f"bench-peers: {problem}")
        sys.exit(1)
    except KeyboardInterrupt:
        say("bench-peers: stopped")
        sys.exit(130)

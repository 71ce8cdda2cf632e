#!/usr/bin/env python3
"""What answering over HTTP costs, and how many streams over HTTP compare with one.

    make bench-http                       the tests' small model on two stages, then llama-server over RPC
    bench/http_layer.py --model some.gguf  another one; of words, for llama-server refuses what isn't UTF-8
    bench/http_layer.py --no-peer         without llama-server, which takes 20 minutes to build once

One cluster of two processes (`salvage up`, `salvage join`; TLS between them) is measured in three ways
that take turns, and of all rounds everybody's best counts:

  run      `salvage run` on it: the pipeline's own times
  whole    over HTTP, the answer at the end: the pipeline's own times, from "timings"
  stream   over HTTP, token by token: the client's clock

Last on stdout: one line `name value at most|at least wanted` a result. Progress goes to stderr.
"""
import argparse
import concurrent.futures
import contextlib
import json
import os
import pathlib
import socket
import sys
import time

REPO = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(REPO / "tests/load"))
# pylint: disable=wrong-import-position
import peer_processes  # noqa: E402
import peers  # noqa: E402
from peer_processes import PeerError  # noqa: E402

STAGES = 2
CONTEXT = 1024
STREAMS = 4
TTFT_MS_WANTED = 3.0
TOKEN_MS_WANTED = 0.3
STREAMS_WANTED = 2.5
PEER_WANTED = 1.0
PATIENCE_S = 300
PROMPT = "Once upon a time there was an old machine in the attic, number {}, and it"


def say(text):
    print(text, file=sys.stderr, flush=True)


def options():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5, help="samples of each (5)")
    parser.add_argument("-n", dest="generate", type=int, default=128, help="tokens of an answer (128)")
    parser.add_argument("--no-peer", action="store_true", help="leave llama-server out")
    parser.add_argument("--timeout", type=float, default=600.0, help="seconds a command may take")
    parser.add_argument("--json", action="store_true", help="one JSON object on stdout instead")
    parser.add_argument("--strict", action="store_true", help="exit code 1 if something is missed")
    parser.add_argument("--model", type=pathlib.Path, help="a GGUF instead of the tests' small model")
    peers.add_program_options(parser.add_argument_group("programs"))
    return parser.parse_args()


class Stream:
    """One streamed answer: when it was asked for, and when each token came."""

    def __init__(self, address, path, body):
        data = json.dumps(body).encode()
        self.times, self.rest, self.last = [], b"", None
        with socket.create_connection(address, PATIENCE_S) as connection:
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self.begun = time.perf_counter()
            connection.sendall(f"POST {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: "
                               f"{len(data)}\r\n\r\n".encode() + data)
            while part := connection.recv(65536):
                self._take(part, time.perf_counter())
        if self.last is None or "timings" not in self.last:
            raise PeerError(f"the answer has no end: {self.rest[-300:]!r} {self.last}")

    def _take(self, part, now):
        self.rest += part
        while b"\n\n" in self.rest:
            frame, _, self.rest = self.rest.partition(b"\n\n")
            at = frame.find(b"data: {")
            if at < 0:
                continue
            event = json.loads(frame[at + 6:])
            self.last = event
            if event.get("tokens") or not event.get("stop"):
                self.times.append(now)

    @property
    def ttft_ms(self):
        return (self.times[0] - self.begun) * 1000

    @property
    def token_ms(self):
        return (self.times[-1] - self.times[0]) * 1000 / (self.last["timings"]["predicted_n"] - 1)

    @property
    def inside_ms(self):
        """Until the first token, as the server counts it."""
        return self.last["timings"]["prompt_ms"]


def body(number, generate, stream):
    return {"prompt": PROMPT.format(number), "n_predict": generate, "temperature": 0, "stream": stream,
            "ignore_eos": True, "return_tokens": True, "cache_prompt": False}


def ask_whole(address, number, generate):
    data = json.dumps(body(number, generate, False)).encode()
    with socket.create_connection(address, PATIENCE_S) as connection:
        connection.sendall(f"POST /completion HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: "
                           f"{len(data)}\r\n\r\n".encode() + data)
        text = b""
        while part := connection.recv(65536):
            text += part
    return json.loads(text.partition(b"\r\n\r\n")[2])["timings"]


def together(address, number, generate, streams):
    """Tokens a second of so many streams, from the first token of the last to the first end."""
    with concurrent.futures.ThreadPoolExecutor(streams) as pool:
        tasks = [pool.submit(Stream, address, "/completion", body(f"{number}-{i}", generate, True))
                 for i in range(streams)]
        found = [task.result() for task in tasks]
    begin = max(one.times[0] for one in found)
    end = min(one.times[-1] for one in found)
    tokens = sum(1 for one in found for at in one.times if begin < at <= end)
    if tokens < streams * generate // 2:
        raise PeerError(f"{streams} streams hardly ran beside each other: {tokens} tokens")
    return tokens / (end - begin)


class Best:
    """The best of each measure, and all samples."""

    def __init__(self):
        self.samples = {}

    def add(self, name, value):
        self.samples.setdefault(name, []).append(value)

    def least(self, name):
        return min(self.samples[name])

    def most(self, name):
        return max(self.samples[name])


def measure_ours(served, model, best, turn, generate):
    address, number = served.address, f"{turn}"
    done = json.loads(served.command("run", model, PROMPT.format(f"{number}r"), "-n", generate, "--temp",
                                     0, "--json"))
    best.add("run ttft_ms", done["ttft_ms"])
    best.add("run token_ms", 1000 / done["decode_tokens_per_second"])
    timings = ask_whole(address, f"{number}w", generate)
    best.add("whole ttft_ms", timings["prompt_ms"])
    best.add("whole token_ms", timings["predicted_ms"] / (timings["predicted_n"] - 1))
    stream = Stream(address, "/completion", body(f"{number}s", generate, True))
    best.add("stream ttft_ms", stream.ttft_ms)
    best.add("stream token_ms", stream.token_ms)
    best.add("http ttft_ms", stream.ttft_ms - stream.inside_ms)
    best.add("streams 1", together(address, f"{number}a", generate, 1))
    best.add(f"streams {STREAMS}", together(address, f"{number}b", generate, STREAMS))


def engine_ratio(programs, model, best, generate, cores):
    command = [programs.salvage, "bench", model, "--stages", STAGES, "--threads", 1, "--cores",
               ",".join(map(str, cores)), "-p", 64, "-n", generate, "--parallel", f"1,{STREAMS}", "--json"]
    output, _ = peer_processes.run(command, set(cores), PATIENCE_S)
    for test in json.loads(output)["decode"]:
        best.add(f"engine {test['parallel']}", test["tokens_per_second"])


@contextlib.contextmanager
def llama_server(peer_folder, model, cores):
    """llama-server over one ggml-rpc-server a core, with as many slots: yields its address."""
    with peer_processes.rpc_servers(peer_folder / "ggml-rpc-server", cores) as (_, endpoints):
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        command = [peer_folder / "llama-server", "-m", model, "--host", "127.0.0.1", "--port", port,
                   "--rpc", ",".join(endpoints), "-ngl", 999, "-t", 1, "-np", STREAMS,
                   "-c", CONTEXT * STREAMS, "-fa", "on", "-ctk", "q8_0", "-ctv", "q8_0", "-ub", 128,
                   "--no-webui", "--no-warmup"]
        with open(os.devnull, "wb") as nowhere:
            process = peer_processes.start(command, set(cores), stdout=nowhere, stderr=nowhere)
            try:
                wait_healthy(process, ("127.0.0.1", port))
                yield "127.0.0.1", port
            finally:
                peer_processes.end(process)


def wait_healthy(process, address):
    until = time.monotonic() + PATIENCE_S
    while time.monotonic() < until:
        if process.poll() is not None:
            raise PeerError("llama-server ended at once; run its command by hand to see why")
        with contextlib.suppress(OSError), socket.create_connection(address, 1.0) as connection:
            connection.settimeout(5)
            connection.sendall(b"GET /health HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
            if connection.recv(64).startswith(b"HTTP/1.1 200"):
                return
        time.sleep(0.2)
    raise PeerError("llama-server does not become ready")


def results(best):
    """[(name, value, "at most" or "at least", wanted)]"""
    direct = min(best.least("run token_ms"), best.least("whole token_ms"))
    rows = [("http_ttft_ms", best.least("http ttft_ms"), "at most", TTFT_MS_WANTED),
            ("http_token_ms", max(best.least("stream token_ms") - direct, 0.0), "at most",
             TOKEN_MS_WANTED),
            (f"http_{STREAMS}_streams_vs_1", best.most(f"streams {STREAMS}") / best.most("streams 1"),
             "at least", STREAMS_WANTED),
            (f"engine_{STREAMS}_streams_vs_1", best.most(f"engine {STREAMS}") / best.most("engine 1"),
             "at least", STREAMS_WANTED)]
    if f"llama {STREAMS}" in best.samples:
        rows.append((f"http_{STREAMS}_streams_vs_llama_server",
                     best.most(f"streams {STREAMS}") / best.most(f"llama {STREAMS}"), "at least",
                     PEER_WANTED))
    return rows


def small_model():
    output, _ = peer_processes.run([REPO / "tools/model.sh", "smollm2"], os.sched_getaffinity(0), PATIENCE_S)
    return pathlib.Path(output.strip().splitlines()[-1])


def race(chosen, model, cores):
    from served import Served  # pylint: disable=import-outside-toplevel
    best, peer_folder = Best(), None
    if not chosen.no_peer:
        peer_folder = chosen.peers or peers.llama_tool("peers")
    for turn in range(chosen.rounds):
        with Served({model.stem: model}, sequences=STREAMS, context=CONTEXT, stages=STAGES) as served:
            for part in range(3):
                measure_ours(served, model, best, f"{turn}.{part}", chosen.generate)
        engine_ratio(chosen, model, best, chosen.generate, cores)
        if peer_folder:
            with llama_server(peer_folder, model, cores) as address:
                for streams in (1, STREAMS):
                    best.add(f"llama {streams}", together(address, turn, chosen.generate, streams))
        say(f"round {turn + 1}: " + ", ".join(f"{name} {values[-1]:.2f}"
                                              for name, values in best.samples.items()))
    return best


def main():
    chosen = options()
    cores = sorted(os.sched_getaffinity(0))[:2]
    if len(cores) < 2:
        raise PeerError("needs two cores")
    if not chosen.salvage.exists():
        raise PeerError(f"{chosen.salvage} does not exist: run `make bench-http`, which builds it")
    os.sched_setaffinity(0, cores)  # everybody's children inherit it
    os.environ["SALVAGE_BINARY"] = str(chosen.salvage)
    model = chosen.model or small_model()
    best = race(chosen, model, cores)
    rows = results(best)
    about = peers.machine()
    if chosen.json:
        print(json.dumps({"machine": about, "model": model.name, "samples": best.samples,
                          "results": rows}, indent=1))
    else:
        print(", ".join(f"{key} {value}" for key, value in about.items()) + f", model {model.name}")
        for name, values in best.samples.items():
            print(f"  {name:18} " + " ".join(f"{value:.2f}" for value in values))
        for name, value, bound, wanted in rows:
            print(f"{name} {value:.3f} {bound} {wanted:g}")
    missed = any(value > wanted if bound == "at most" else value < wanted
                 for _, value, bound, wanted in rows)
    return 1 if chosen.strict and missed else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except PeerError as problem:
        say(f"bench-http: {problem}")
        sys.exit(1)
    except KeyboardInterrupt:
        say("bench-http: stopped")
        sys.exit(130)

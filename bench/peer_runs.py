"""One measurement of each contestant: the command it is, and how its output is read.

Everybody computes the same model with flash attention on, a q8_0 KV cache and one thread a core.
"""
import dataclasses
import json
import pathlib
import re

import peer_processes
from peer_processes import PeerError

# The first prompt of a process pays for page faults and empty buffers; this one is thrown away.
WARM_UP_TOKENS = 24


@dataclasses.dataclass
class Programs:
    salvage: pathlib.Path
    llama_bench: pathlib.Path
    rpc_server: pathlib.Path


@dataclasses.dataclass
class Work:
    """What everybody has to do."""
    model: pathlib.Path
    lengths: list  # prompt lengths
    generate: int  # tokens of a decode
    parallel: list  # streams at once, salvage only
    cores: list  # one a stage
    timeout_s: float


def llama_bench_command(programs, work, threads, options):
    return [programs.llama_bench, "-m", work.model, "-t", threads, "-fa", 1, "-ctk", "q8_0",
            "-ctv", "q8_0", "-r", 1, "--no-warmup", "-o", "json", *options]


def prefill_options(lengths, ubatch):
    prompts = ",".join(str(length) for length in [WARM_UP_TOKENS, *lengths])
    return ["-p", prompts, "-n", 0, "-b", max(2048, ubatch), "-ub", ubatch]


def decode_options(generate, depth):
    return ["-p", WARM_UP_TOKENS, "-n", generate, "-d", depth]


def read_llama_bench(output, lengths):
    """[(measure, tokens per second)] of llama-bench -o json; its warm-up prompt is left out."""
    try:
        tests = json.loads(output)
    except json.JSONDecodeError as error:
        raise PeerError(f"llama-bench wrote no JSON: {error}") from error
    found = []
    for test in tests:
        if test["n_gen"] > 0:
            found.append(("decode_1", test["avg_ts"]))
        elif test["n_prompt"] in lengths:
            found.append((f"prefill_{test['n_prompt']}", test["avg_ts"]))
    return found


def one_process(programs, work, cores, options):
    """llama.cpp alone, one thread a core of `cores`."""
    command = llama_bench_command(programs, work, len(cores), options)
    output, _ = peer_processes.run(command, set(cores), work.timeout_s)
    return read_llama_bench(output, work.lengths)


def tensor_split(layer_count, server_count):
    """Equal layers for each server; the output head counts as one more layer of the last."""
    shares = [layer_count * (i + 1) // server_count - layer_count * i // server_count
              for i in range(server_count)]
    shares[-1] += 1
    return "/".join(str(share) for share in shares)


def over_rpc(programs, work, layer_count, options):
    """llama.cpp over one ggml-rpc-server a core: (measures, peak memory of each server)."""
    with peer_processes.rpc_servers(programs.rpc_server, work.cores) as (servers, endpoints):
        # The client only relays: it may run on any of the cores, as salvage's parent process may.
        split = tensor_split(layer_count, len(servers))
        command = llama_bench_command(programs, work, 1, [
            "--rpc", ",".join(endpoints), "-ngl", 999, "-ts", split, *options])
        output, errors = peer_processes.run(command, set(work.cores), work.timeout_s)
        memory = [peer_processes.peak_rss_bytes(server) for server in servers]
    return read_llama_bench(output, work.lengths), memory, errors


def layer_count(programs, work):
    """The model's layers as upstream counts them; also shows that upstream loads the file."""
    command = llama_bench_command(programs, work, 1, ["-p", 1, "-n", 0, "-v"])
    _, errors = peer_processes.run(command, {work.cores[0]}, work.timeout_s)
    found = re.search(r"n_layer\s*= (\d+)", errors)
    if not found:
        raise PeerError("llama-bench -v does not say how many layers the model has")
    return int(found.group(1))


def check_rpc_split(programs, work, layers):
    """Fails unless each server really gets its share: upstream rounds splits in floating point."""
    _, _, log = over_rpc(programs, work, layers, ["-p", 1, "-n", 0, "-v"])
    return check_assignment(log, layers, len(work.cores))


def check_assignment(log, layers, server_count):
    """[layers on server 0, ...] from libllama's log."""
    counts = [0] * server_count
    for layer, server in re.findall(r"layer\s+(\d+) assigned to device RPC(\d+)", log):
        if int(layer) < layers and int(server) < server_count:
            counts[int(server)] += 1
    if sum(counts) != layers or max(counts) - min(counts) > 1:
        raise PeerError(f"the RPC servers hold {counts} of {layers} layers; that compares nothing")
    return counts


def salvage_command(programs, work):
    return [programs.salvage, "bench", work.model, "--stages", len(work.cores), "--threads", 1,
            "--cores", ",".join(str(core) for core in work.cores),
            "-p", ",".join(str(length) for length in work.lengths), "-n", work.generate,
            "--parallel", ",".join(str(streams) for streams in work.parallel),
            "--cache-type-k", "q8_0", "--cache-type-v", "q8_0", "--json"]


def salvage(programs, work):
    """(measures, what `salvage bench --json` wrote)."""
    output, _ = peer_processes.run(salvage_command(programs, work), set(work.cores),
                                   work.timeout_s)
    return read_salvage(output)


def read_salvage(output):
    try:
        report = json.loads(output)
        found = [(f"prefill_{test['tokens']}", test["tokens_per_second"])
                 for test in report["prefill"]]
        found += [(f"decode_{test['parallel']}", test["tokens_per_second"])
                  for test in report["decode"]]
        for stage in report["stages"]:
            for key in ("index", "layers", "weights_bytes", "kv_bytes", "peak_rss_bytes"):
                stage[key]  # pylint: disable=pointless-statement
    except (json.JSONDecodeError, KeyError, TypeError) as error:
        raise PeerError(f"`salvage bench --json` wrote something else than expected: {error!r}"
                        ) from error
    return found, report

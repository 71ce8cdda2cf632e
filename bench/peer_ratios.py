"""From samples to ratios. Pure: no process, no clock.

A sample is a speed in tokens per second (or a memory ratio); of all rounds the best one counts,
for everybody alike, because on a shared machine only slowness is noise.
"""
import dataclasses

PREFILL_OF_LIMIT_WANTED = 0.93
PREFILL_VS_RPC_WANTED = 1.5
DECODE_VS_ONE_THREAD_WANTED = 0.95
DECODE_VS_RPC_WANTED = 1.0
DECODE_STREAMS_WANTED = 2.5
MEMORY_WANTED = 1.0
# Compute buffers, code, allocator and libllama's own tables; what a worker may hold beside its
# weights and its KV cache.
MEMORY_ALLOWANCE_BYTES = 200 * 1024 * 1024


@dataclasses.dataclass(frozen=True)
class Ratio:
    name: str
    value: float
    wanted: float

    def line(self):
        return f"{self.name} {self.value:.3f} {self.wanted:g}"


class Samples:
    """(contestant, measure), such as ("rpc_ub64", "prefill_512"), -> every sample."""

    def __init__(self):
        self.values = {}

    def add(self, contestant, measure, value):
        self.values.setdefault((contestant, measure), []).append(value)

    def best(self, contestant, measure):
        return max(self.values[(contestant, measure)])

    def best_of(self, prefix, measure):
        """The best of all contestants whose name begins so: (value, contestant)."""
        return max((max(values), contestant) for (contestant, name), values in self.values.items()
                   if name == measure and contestant.startswith(prefix))


def prefill_limit(stage_count, chunk_count, one_stage_speed):
    """What chunk_count chunks over stage_count equal stages could reach at most, in tokens/s."""
    return stage_count * chunk_count / (chunk_count + stage_count - 1) * one_stage_speed


def memory_ratio(stage):
    """How much of what a stage may hold it held, as one number that's >= 1 when it's enough."""
    allowed = stage["weights_bytes"] + stage["kv_bytes"] + MEMORY_ALLOWANCE_BYTES
    return allowed / stage["peak_rss_bytes"]


def ratios(samples, setup):
    """setup: lengths, stage_count, chunk_counts {length: m}, stages (salvage's), streams."""
    result = []
    for length in setup.lengths:
        measure = f"prefill_{length}"
        ours = samples.best("salvage", measure)
        one_thread = samples.best("one_thread", measure)
        limit = prefill_limit(setup.stage_count, setup.chunk_counts[length], one_thread)
        rpc, _ = samples.best_of("rpc_ub", measure)
        result.append(Ratio(f"{measure}_of_limit", ours / limit, PREFILL_OF_LIMIT_WANTED))
        result.append(Ratio(f"{measure}_vs_rpc_best", ours / rpc, PREFILL_VS_RPC_WANTED))
    one_stream = samples.best("salvage", "decode_1")
    result.append(Ratio("decode_vs_one_thread", one_stream / samples.best("one_thread", "decode_1"),
                        DECODE_VS_ONE_THREAD_WANTED))
    result.append(Ratio("decode_vs_rpc", one_stream / samples.best("rpc", "decode_1"),
                        DECODE_VS_RPC_WANTED))
    many = samples.best("salvage", f"decode_{setup.streams}")
    result.append(Ratio(f"decode_{setup.streams}_streams_vs_1", many / one_stream,
                        DECODE_STREAMS_WANTED))
    for stage in setup.stages:
        result.append(Ratio(f"memory_stage_{stage['index']}", memory_ratio(stage), MEMORY_WANTED))
    return result

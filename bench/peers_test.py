"""Goal: the ratios are right and no child outlives its time.

Method: recorded outputs and made-up samples with results worked out by hand; real child processes
of `sleep` for the time limit and the clean end.
"""
import json
import os
import time
import types
import unittest

import peer_processes
import peer_ratios
import peer_runs
from peer_processes import PeerError

MIB = 1024 * 1024


def setup(**changes):
    stage = {"index": 0, "layers": [0, 14], "weights_bytes": 500 * MIB, "kv_bytes": 100 * MIB,
             "peak_rss_bytes": 640 * MIB}
    values = {"lengths": [512], "stage_count": 2, "chunk_counts": {512: 8}, "stages": [stage],
              "streams": 4}
    return types.SimpleNamespace(**{**values, **changes})


def samples():
    kept = peer_ratios.Samples()
    for contestant, measure, values in (
            ("salvage", "prefill_512", [50.0, 64.0]), ("one_thread", "prefill_512", [36.0, 30.0]),
            ("rpc_ub64", "prefill_512", [40.0]), ("rpc_ub512", "prefill_512", [20.0]),
            ("salvage", "decode_1", [9.0, 10.0]), ("one_thread", "decode_1", [8.0]),
            ("rpc", "decode_1", [5.0]), ("salvage", "decode_4", [30.0])):
        for value in values:
            kept.add(contestant, measure, value)
    return kept


class RatiosTest(unittest.TestCase):
    def test_each_ratio_is_what_a_person_works_out(self):
        # Limit: 2 x 8 / 9 x 36 = 64.
        found = {ratio.name: ratio.value for ratio in peer_ratios.ratios(samples(), setup())}
        self.assertEqual(list(found), [
            "prefill_512_of_limit", "prefill_512_vs_rpc_best", "decode_vs_one_thread",
            "decode_vs_rpc", "decode_4_streams_vs_1", "memory_stage_0"])
        for name, value in (("prefill_512_of_limit", 1.0), ("prefill_512_vs_rpc_best", 1.6),
                            ("decode_vs_one_thread", 1.25), ("decode_vs_rpc", 2.0),
                            ("decode_4_streams_vs_1", 3.0), ("memory_stage_0", 1.25)):
            self.assertAlmostEqual(found[name], value, places=6, msg=name)

    def test_a_ratio_is_one_line_of_name_value_wanted(self):
        self.assertEqual(peer_ratios.Ratio("decode_vs_rpc", 1.23456, 1.0).line(),
                         "decode_vs_rpc 1.235 1")

    def test_one_chunk_over_two_stages_is_no_faster_than_one_stage(self):
        self.assertEqual(peer_ratios.prefill_limit(2, 1, 40.0), 40.0)


class OutputTest(unittest.TestCase):
    def test_the_warm_up_prompt_of_llama_bench_does_not_count(self):
        output = json.dumps([{"n_prompt": peer_runs.WARM_UP_TOKENS, "n_gen": 0, "avg_ts": 9.0},
                             {"n_prompt": 512, "n_gen": 0, "avg_ts": 33.0},
                             {"n_prompt": 0, "n_gen": 64, "avg_ts": 18.0}])
        self.assertEqual(peer_runs.read_llama_bench(output, [512]),
                         [("prefill_512", 33.0), ("decode_1", 18.0)])

    def test_output_that_is_no_json_is_an_error_in_a_sentence(self):
        with self.assertRaises(PeerError):
            peer_runs.read_llama_bench("GGML_ASSERT", [512])
        with self.assertRaises(PeerError):
            peer_runs.read_salvage('{"prefill": []}')

    def test_an_rpc_server_that_holds_more_layers_than_the_other_is_refused(self):
        fair = "".join(f"layer {i:3} assigned to device RPC{i // 2}\n" for i in range(4))
        self.assertEqual(peer_runs.check_assignment(fair, 4, 2), [2, 2])
        unfair = "".join(f"layer {i:3} assigned to device RPC{i // 3}\n" for i in range(4))
        with self.assertRaises(PeerError):
            peer_runs.check_assignment(unfair, 4, 2)

    def test_the_split_counts_the_output_head_as_a_layer_of_the_last_server(self):
        self.assertEqual(peer_runs.tensor_split(28, 2), "14/15")
        self.assertEqual(peer_runs.tensor_split(10, 3), "3/3/5")


class ProcessTest(unittest.TestCase):
    def setUp(self):
        self.cores = os.sched_getaffinity(0)

    def test_a_command_that_takes_too_long_is_ended_and_said_so(self):
        started = time.monotonic()
        with self.assertRaisesRegex(PeerError, "did not finish within 0 s"):
            peer_processes.run(["sleep", "30"], self.cores, 0.1)
        self.assertLess(time.monotonic() - started, 10.0)

    def test_a_failing_command_shows_the_end_of_what_it_said(self):
        with self.assertRaisesRegex(PeerError, "exit code 3:\nno disk"):
            peer_processes.run(["sh", "-c", "echo no disk >&2; exit 3"], self.cores, 10.0)

    def test_a_program_that_does_not_exist_is_named(self):
        with self.assertRaisesRegex(PeerError, "cannot start /nowhere/bench"):
            peer_processes.run(["/nowhere/bench"], self.cores, 10.0)

    def test_a_child_runs_on_the_cores_that_it_is_given(self):
        core = min(self.cores)
        output, _ = peer_processes.run(
            ["sh", "-c", "grep Cpus_allowed_list /proc/self/status"], {core}, 10.0)
        self.assertEqual(output.split()[1], str(core))


if __name__ == "__main__":
    unittest.main()

"""The built program from outside: what it prints where, exit codes, and what bad input gets.

Method: run it, look at stdout, stderr and the exit code. What needs answers uses SmolLM2 with short
ones; what only reads files uses a model of some kilobytes. Processes that die are in process_test.py.
"""
import csv
import io
import json
import os
import pathlib
import subprocess
import unittest

from salvage_cli import (BINARY, ENVIRONMENT, RUNTIME, U32, WAIT_S, WORK, Test, end_module, model,
                         salvage, start_module, tiny_gguf)


def setUpModule():
    start_module()


def tearDownModule():
    end_module()


class Run(Test):
    def run_json(self, *arguments, **options):
        done = self.run_text(*arguments, "--json", "--temp", "0", **options)
        return json.loads(done.out)

    def run_text(self, *arguments, **options):
        # One thread a stage: more of them wait for each other on a machine that does other work.
        done = salvage("run", model(), *arguments, "--ctx", "512", "--threads", "1", **options)
        self.assertEqual(done.code, 0, done.err)
        return done

    def test_json_has_the_promised_fields_and_stderr_is_empty(self):
        done = self.run_text("The capital of France is", "-n", "8", "--temp", "0", "--json",
                             "--stages", "3")
        self.assertEqual(done.err, "")
        answer = json.loads(done.out)
        self.assertIn("Paris", answer["text"])
        self.assertEqual(len(answer["token_ids"]), 8)
        self.assertEqual(answer["finish_reason"], "length")
        self.assertEqual(answer["prompt_tokens"], 5)
        self.assertEqual(answer["answer_tokens"], 8)
        for rate in ("ttft_ms", "prefill_tokens_per_second", "decode_tokens_per_second"):
            self.assertGreater(answer[rate], 0, rate)
        self.assertEqual((answer["exact"], answer["exact_conditions"]), (True, []))
        stages = answer["stages"]
        self.assertEqual([stage["index"] for stage in stages], [0, 1, 2])
        self.assertEqual([stages[0]["layers"][0], stages[-1]["layers"][1]], [0, 30])
        for before, after in zip(stages, stages[1:]):
            self.assertEqual(before["layers"][1], after["layers"][0])
        for stage in stages:
            self.assertGreater(stage["weights_bytes"], 1 << 20)
            self.assertGreater(stage["kv_bytes"], 0)
            self.assertGreater(stage["rss_bytes"], stage["weights_bytes"] // 2)
            self.assertGreater(stage["busy_us"], 0)

    def test_standard_output_is_the_answer_and_nothing_else(self):
        text = self.run_json("The capital of France is", "-n", "8")["text"]
        done = self.run_text("The capital of France is", "-n", "8", "--temp", "0", "--stages", "2")
        self.assertEqual(done.out, text + "\n")
        self.assertIn("exact: yes", done.err)
        self.assertIn("8 answer tokens", done.err)
        rows = [line.split() for line in done.err.splitlines() if line.lstrip()[:2] in ("0 ", "1 ")]
        self.assertEqual(len(rows), 2, "a row of the table for each stage")
        self.assertNotIn("0 B", done.err)

    def test_quiet_says_nothing_beside_the_answer(self):
        self.assertEqual(self.run_text("The", "-n", "2", "-q").err, "")

    def test_prompt_from_argument_file_and_standard_input_are_the_same(self):
        prompt = "Water boils at\n"
        path = WORK / "prompt.txt"
        path.write_text(prompt)
        by_argument = self.run_json(prompt, "-n", "6")
        by_file = self.run_json("--file", path, "-n", "6")
        by_input = self.run_json("-n", "6", stdin=prompt.encode())
        self.assertEqual(by_argument["token_ids"], by_file["token_ids"])
        self.assertEqual(by_argument["token_ids"], by_input["token_ids"])

    def test_same_seed_same_answer_over_any_number_of_stages(self):
        answers = []
        for arguments in (["--stages", "1"], ["--split", "7,23"], ["--split", "1,1,1"]):
            done = self.run_text("Once", "-n", "24", "--seed", "7", "--json", *arguments)
            answers.append(json.loads(done.out)["token_ids"])
        self.assertEqual(answers[0], answers[1])
        self.assertEqual(answers[0], answers[2])

    def test_chat_uses_the_model_s_template(self):
        plain = self.run_json("Say hello.", "-n", "12")
        chat = self.run_json("Say hello.", "-n", "12", "--chat")
        self.assertGreater(chat["prompt_tokens"], plain["prompt_tokens"] + 5)
        self.assertNotIn("<|im_", chat["text"])

    def test_smaller_hidden_states_are_called_inexact(self):
        for hidden in ("f16", "q8"):
            answer = self.run_json("The", "-n", "2", "--hidden", hidden, "--stages", "2")
            self.assertFalse(answer["exact"])
            self.assertIn(hidden, answer["exact_conditions"][0])
        whole = self.run_json("The", "-n", "2", "--hidden", "q8", "--stages", "1")
        self.assertTrue(whole["exact"], "one stage sends no hidden states")

    def test_a_k_quantised_model_answers_in_chinese_and_exactly(self):
        done = salvage("run", model("SALVAGE_MODEL_QWEN"), "请用中文介绍一下你自己。", "--chat", "-n", "16",
                       "--temp", "0", "--json", "--ctx", "256", "--stages", "2", "--threads", "1")
        self.assertEqual(done.code, 0, done.err)
        answer = json.loads(done.out)
        self.assertRegex(answer["text"], "[\u4e00-\u9fff]{3}")
        self.assertEqual((answer["exact"], answer["exact_conditions"]), (True, []))

    def test_output_never_holds_half_a_character(self):
        for prompt in ("🙂🙃🙂🙃🙂🙃🙂🙃", "请用中文介绍一下你自己。我是", "नमस्ते दुनिया नमस्ते"):
            for count in (1, 2, 5):
                # Its output is decoded strictly, so half a character fails there.
                self.run_text(prompt, "-n", count, "--temp", "0", "-q")

    def test_a_reader_that_leaves_ends_the_answer(self):
        command = [BINARY, "run", model(), "Once upon a time", "-n", "3000", "-q", "--stages", "2",
                   "--ctx", "4096", "--threads", "1"]
        with subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, env=ENVIRONMENT) as process:
            try:
                self.assertEqual(len(process.stdout.read(5)), 5)
                process.stdout.close()
                self.assertIn(process.wait(WAIT_S), (0, 1))
            finally:
                process.kill()

    def test_output_that_cannot_be_written_is_an_error(self):
        tiny = tiny_gguf(WORK / "full.gguf")
        for arguments in (["inspect", tiny], ["inspect", tiny, "--json"],
                          ["run", model(), "The", "-n", "4", "-q", "--ctx", "256", "--threads", "1"],
                          ["run", model(), "The", "-n", "4", "--json", "--ctx", "256",
                           "--threads", "1"]):
            with self.subTest(arguments=arguments), open("/dev/full", "wb") as full:
                done = subprocess.run([BINARY, *arguments], stdin=subprocess.DEVNULL, stdout=full,
                                      stderr=subprocess.PIPE, env=ENVIRONMENT, timeout=WAIT_S,
                                      check=False)
                err = done.stderr.decode()
                self.assertEqual(done.returncode, 1, err)
                self.assertEqual(len(err.splitlines()), 1, err)
                self.assertIn("standard output cannot be written to", err)

    def test_cutting_is_done_once(self):
        self.run_json("The", "-n", "1", "--split", "11,19")
        shards = sorted(pathlib.Path(ENVIRONMENT["SALVAGE_CACHE"]).rglob("layers-11-30.gguf"))
        self.assertEqual(len(shards), 1)
        before = shards[0].stat().st_mtime_ns
        self.run_json("The", "-n", "1", "--split", "11,19")
        self.assertEqual(before, shards[0].stat().st_mtime_ns)

    def test_nothing_is_left_behind(self):
        self.run_json("The", "-n", "1", "--stages", "2")
        self.assertEqual(list(RUNTIME.iterdir()), [])


class WrongPrompts(Test):
    def refuse(self, *arguments, parts, **options):
        self.assert_fails(salvage("run", model(), *arguments, **options), *parts)

    def test_no_prompt(self):
        self.refuse(parts=["--file"])
        self.refuse("", parts=["--file"])

    def test_invalid_utf8(self):
        self.refuse(b"abc\xff".decode("utf-8", "surrogateescape"), parts=["UTF-8", "byte 3", "0xff"])
        self.refuse(parts=["UTF-8", "byte 1"], stdin=b"a\xe4\xbd")

    def test_a_prompt_file_that_is_not_there(self):
        self.refuse("--file", WORK / "nothing", parts=[str(WORK / "nothing")])

    def test_a_prompt_given_twice(self):
        path = WORK / "twice.txt"
        path.write_text("x")
        self.refuse("x", "--file", path, parts=["twice"])

    def test_a_prompt_longer_than_the_context_names_both_numbers(self):
        done = salvage("run", model(), "one two three four five six seven eight nine ten", "--ctx", "8",
                       "-q", "--threads", "1")
        self.assert_fails(done, "10 tokens", "holds 8", "--ctx")

    def test_a_context_that_memory_cannot_hold_says_what_fits(self):
        done = salvage("run", model(), "x", "--ctx", "16000000")
        self.assert_fails(done, "16000000 tokens", "fits")
        fits = int(done.err.split("--ctx ")[1].split(" ")[0])
        self.assertGreater(fits, 4096)


class WrongUsage(Test):
    def test_unknown_words_and_values_are_refused_with_a_hint(self):
        tiny = tiny_gguf(WORK / "usage.gguf")
        for arguments in ([], ["nonsense"], ["run", tiny, "x", "--nonsense"], ["run"], ["--lang", "de"],
                          ["run", tiny, "x", "--hidden", "f8"], ["run", tiny, "x", "-n", "0"],
                          ["run", tiny, "x", "--stages", "0"], ["run", tiny, "x", "--split", "a,b"],
                          ["run", tiny, "x", "--cache-type-k", "q2"], ["run", tiny, "x", "--ctx", "-5"],
                          ["shard", tiny, "--layers", "0:1"], ["stage"],
                          ["bench", tiny, "--json", "--csv"], ["up", "--log-level", "loud"],
                          ["shard", tiny, "--layers", "0:1", "--embeddings", "-o", "x"]):
            done = salvage(*arguments)
            self.assertEqual(done.code, 2, arguments)
            self.assertEqual(done.out, "", arguments)
            self.assertIn("--help", done.err, arguments)

    def test_a_log_level_of_the_environment_is_checked_like_one_that_is_typed(self):
        for command in ("up", "join"):
            done = salvage(command, env={"SALVAGE_LOG": "loud"})
            self.assertEqual((done.code, done.out), (2, ""), done.err)
            self.assertIn("SALVAGE_LOG", done.err)
        self.assertIn("SALVAGE_LOG", salvage("join", "--help").out)

    def test_stages_and_split_must_agree(self):
        done = salvage("run", model(), "x", "--stages", "3", "--split", "10,20")
        self.assert_fails(done, "--stages 3", "--split", "2 numbers")

    def test_a_split_that_is_not_legal_is_answered_with_the_nearest(self):
        done = salvage("run", model(), "x", "--stages", "31")
        self.assert_fails(done, "30 layers", "--split 1,1,1")
        self.assert_fails(salvage("run", model(), "x", "--split", "10,0,20"), "share of 0")
        gemma = tiny_gguf(WORK / "gemma2.gguf", architecture="gemma2", layers=6)
        done = salvage("run", gemma, "x", "--split", "3,3")
        self.assert_fails(done, "gemma2", "--split ")
        advice = done.err.split("--split ")[1].split()[0].rstrip(";,)")
        self.assertIn(advice, ("2,4", "4,2"))

    def test_an_architecture_that_is_not_proven_is_refused_by_name(self):
        strange = tiny_gguf(WORK / "strange.gguf", architecture="talkie")
        done = salvage("run", strange, "x", "--stages", "2")
        self.assert_fails(done, "talkie")

    def test_workers_listen_on_this_machine_only(self):
        for endpoint in ("tcp:8.8.8.8:1", "tcp:0.0.0.0:0", "tcp:[::]:1", "udp:127.0.0.1:1", "x"):
            done = salvage("stage", "--listen", endpoint, stdin=b"secret\n")
            self.assertEqual(done.code, 1, endpoint)
            self.assertIn(endpoint, done.err)
        self.assert_fails(salvage("stage", "--listen", f"unix:{WORK}/s.sock"), "secret line")


class Languages(Test):
    def test_help_and_messages_follow_lang(self):
        english = salvage("run", "--help")
        self.assertEqual(english.code, 0)
        self.assertIn("Answer a prompt", english.out)
        for arguments, env in ((["--lang", "zh"], {}), (["--lang=zh"], {}), ([], {"LANG": "zh_CN.UTF-8"}),
                               ([], {"LC_ALL": "zh_CN.UTF-8", "LANG": "en_US.UTF-8"}),
                               ([], {"SALVAGE_LANG": "zh", "LC_ALL": "en_US.UTF-8"})):
            chinese = salvage("run", "--help", *arguments, env=env)
            self.assertEqual(chinese.code, 0, chinese.err)
            self.assertIn("提示词", chinese.out)
        overruled = salvage("--lang", "en", "run", "--help", env={"LANG": "zh_CN.UTF-8"})
        self.assertEqual(overruled.out, english.out)

    def test_statistics_in_chinese(self):
        done = salvage("--lang", "zh", "run", model(), "The", "-n", "2", "--ctx", "256", "--threads",
                       "1")
        self.assertEqual(done.code, 0, done.err)
        self.assertIn("层", done.err)
        self.assertNotIn("{}", done.err)

    def test_json_is_the_same_in_every_language(self):
        tiny = tiny_gguf(WORK / "language.gguf")
        self.assertEqual(salvage("inspect", tiny, "--json").out,
                         salvage("--lang", "zh", "inspect", tiny, "--json").out)


class Inspect(Test):
    def test_json_of_a_real_model(self):
        done = salvage("inspect", model(), "--json")
        self.assertEqual((done.code, done.err), (0, ""))
        facts = json.loads(done.out)
        self.assertEqual((facts["architecture"], facts["layer_count"]), ("llama", 30))
        self.assertEqual(facts["cuts"], list(range(1, 30)))
        self.assertTrue(facts["splittable"] and facts["chat_template"] and facts["output_is_embedding"])
        self.assertEqual(facts["file_bytes"], os.path.getsize(model()))
        self.assertEqual(facts["kv_bytes_per_token_f16"], 30 * 2 * 192 * 2)
        self.assertEqual(facts["kv_bytes_per_token_q8_0"], 30 * 2 * 192 // 32 * 34)
        self.assertEqual(facts["tokenizer"], "gpt2")
        self.assertEqual({one["type"] for one in facts["types"]}, {"q4_1", "q8_0", "f32"})
        self.assertEqual(len(facts["layers"]), 30)
        tensors = sum(one["bytes"] for one in facts["types"])
        parts = sum(layer["weight_bytes"] for layer in facts["layers"])
        self.assertGreaterEqual(tensors, parts + facts["embedding_bytes"])

    def test_says_where_a_model_may_be_cut_and_why_not(self):
        gemma = json.loads(salvage("inspect", tiny_gguf(WORK / "g2.gguf", "gemma2", 6), "--json").out)
        self.assertEqual(gemma["cuts"], [2, 4])
        strange = json.loads(salvage("inspect", tiny_gguf(WORK / "t.gguf", "talkie"), "--json").out)
        self.assertEqual((strange["splittable"], strange["cuts"]), (False, []))
        self.assertIn("talkie", strange["split_refusal"])


class DamagedFiles(Test):
    COMMANDS = (["inspect"], ["run", "--stages", "2"], ["shard", "--layers", "0:2", "-o", WORK / "no.gguf"])

    def refuse(self, path, *parts):
        for name, *rest in self.COMMANDS:
            tail = ["x"] if name == "run" else []
            self.assert_fails(salvage(name, path, *tail, *rest), *parts)
        self.assertFalse((WORK / "no.gguf").exists())

    def test_what_is_no_model_at_all(self):
        page = WORK / "page.gguf"
        page.write_text("<!DOCTYPE html><html>404</html>")
        self.refuse(page, "web page")
        empty = WORK / "empty.gguf"
        empty.write_bytes(b"")
        self.refuse(empty, "empty")
        noise = WORK / "noise.gguf"
        noise.write_bytes(bytes(range(256)) * 8)
        self.refuse(noise, "not a GGUF")
        self.refuse(WORK / "missing.gguf", "missing.gguf", "No such file")
        self.refuse(WORK, "not a regular file")

    def test_truncated_anywhere(self):
        whole = pathlib.Path(tiny_gguf(WORK / "whole.gguf")).read_bytes()
        path = WORK / "short.gguf"
        for size in [*range(1, 64, 7), *range(64, len(whole), len(whole) // 40), len(whole) - 1]:
            path.write_bytes(whole[:size])
            done = salvage("inspect", path)
            self.assert_fails(done, str(path))
        path.write_bytes(whole[:len(whole) - 100])
        self.refuse(path, str(path))

    def test_absurd_counts(self):
        whole = bytearray(pathlib.Path(tiny_gguf(WORK / "counts.gguf")).read_bytes())
        path = WORK / "absurd.gguf"
        for offset in (8, 16, 24):  # tensor count, metadata count, first key's length
            damaged = whole[:]
            damaged[offset:offset + 8] = b"\xff" * 7 + b"\x7f"
            path.write_bytes(damaged)
            self.assert_fails(salvage("inspect", path), str(path))

    def test_what_a_message_quotes_cannot_steer_the_terminal(self):
        key = "evil\x1b[31m\x07\x7f\rkey"
        path = tiny_gguf(WORK / "evil.gguf", extra=[(key, U32, 1), (key, U32, 1)])
        for name, *rest in self.COMMANDS:
            for language in ("en", "zh"):
                tail = ["x"] if name == "run" else []
                done = salvage("--lang", language, name, path, *tail, *rest)
                self.assertEqual((done.code, done.out), (1, ""), done.err)
                self.assertIn("evil?[31m???key", done.err)
                self.assertTrue(done.err.removesuffix("\n").isprintable(), ascii(done.err))

    def test_a_model_without_tokenizer_is_refused_and_says_why(self):
        for tokenizer in (None, "no_vocab"):
            path = tiny_gguf(WORK / "mute.gguf", tokenizer=tokenizer)
            for arguments in (["run", path, "x"], ["run", path, "x", "--stages", "2"],
                              ["bench", path, "-p", "8", "-n", "2"]):
                self.assert_fails(salvage(*arguments), path, "no tokenizer", "whole model")

    def test_a_projector_is_not_a_model_that_answers(self):
        clip = tiny_gguf(WORK / "mmproj.gguf", architecture="clip", general_type="mmproj")
        done = salvage("run", clip, "x")
        self.assert_fails(done, "mmproj", "not a model to talk to")


class Shard(Test):
    def test_round_trip_through_all_three_kinds(self):
        made = {}
        for name, arguments in (("a", ["--layers", "0:10"]), ("b", ["--layers", "10:30"]),
                                ("e", ["--embeddings"]), ("v", ["--vocabulary"])):
            path = WORK / f"{name}.gguf"
            done = salvage("shard", model(), *arguments, "-o", path, "--json")
            self.assertEqual((done.code, done.err), (0, ""))
            made[name] = json.loads(done.out)
            self.assertEqual(made[name]["bytes"], path.stat().st_size)
        self.assertEqual(made["v"]["tensors"], 0)
        self.assertEqual(made["e"]["tensors"], 1)
        facts = json.loads(salvage("inspect", WORK / "b.gguf", "--json").out)
        self.assertEqual(facts["layer_count"], 20)
        whole = json.loads(salvage("inspect", model(), "--json").out)
        self.assertEqual([one["weight_bytes"] for one in facts["layers"]],
                         [one["weight_bytes"] for one in whole["layers"][10:]])

    def test_layers_that_are_none(self):
        for layers in ("0:31", "5:5", "7:3", "a:b", "5", ":", "-1:3", "99999999999:3", "0:10:20", "0: 5"):
            done = salvage("shard", model(), f"--layers={layers}", "-o", WORK / "none.gguf")
            self.assert_fails(done, "layers")
            self.assertFalse((WORK / "none.gguf").exists(), layers)

    def test_places_that_cannot_be_written(self):
        (WORK / "file").write_text("x")
        for path in (WORK / "missing" / "o.gguf", WORK, WORK / "file" / "o.gguf"):
            self.assert_fails(salvage("shard", model(), "--layers", "0:2", "-o", path), str(path))
        self.assert_fails(salvage("shard", model(), "--layers", "0:2"), "--output", code=2)

    def test_a_model_is_not_overwritten_by_its_own_shard(self):
        tiny = tiny_gguf(WORK / "self.gguf")
        before = pathlib.Path(tiny).read_bytes()
        self.assert_fails(salvage("shard", tiny, "--layers", "0:2", "-o", tiny), "self.gguf")
        self.assertEqual(pathlib.Path(tiny).read_bytes(), before)

    @unittest.skipUnless(os.geteuid() == 0, "only root can mount a small file system")
    def test_a_full_disk_leaves_no_half_file(self):
        small = WORK / "small"
        small.mkdir()
        subprocess.run(["mount", "-t", "tmpfs", "-o", "size=4m", "tmpfs", str(small)], check=True)
        try:
            done = salvage("shard", model(), "--layers", "0:10", "-o", small / "o.gguf")
            self.assert_fails(done, "space")
            self.assertEqual(list(small.iterdir()), [])
        finally:
            subprocess.run(["umount", str(small)], check=True)


class Bench(Test):
    ARGUMENTS = ("-p", "24,48", "-n", "6", "--parallel", "1,2", "--repeat", "1", "--stages", "2",
                 "--threads", "1")

    def test_json(self):
        done = salvage("bench", model(), *self.ARGUMENTS, "--json")
        self.assertEqual((done.code, done.err), (0, ""))
        result = json.loads(done.out)
        self.assertEqual([one["tokens"] for one in result["prefill"]], [24, 48])
        self.assertEqual([one["parallel"] for one in result["decode"]], [1, 2])
        self.assertEqual(len(result["stages"]), 2)
        for one in result["prefill"] + result["decode"]:
            self.assertGreater(one["tokens_per_second"], 0)
            self.assertEqual(len(one["busy"]), 2)
            self.assertTrue(all(0 <= busy <= 1.05 for busy in one["busy"]), one)
        self.assertTrue(all(one["tpot_ms"] > 0 for one in result["decode"]))
        self.assertTrue(all(one["ttft_ms"] > 0 for one in result["prefill"]))

    def test_csv(self):
        done = salvage("bench", model(), *self.ARGUMENTS, "--csv")
        self.assertEqual((done.code, done.err), (0, ""))
        rows = list(csv.DictReader(io.StringIO(done.out)))
        self.assertEqual([row["test"] for row in rows], ["prefill", "prefill", "decode", "decode"])
        self.assertTrue(all(float(row["tokens_per_second"]) > 0 for row in rows))
        self.assertTrue(all(None not in row and None not in row.values() for row in rows))


if __name__ == "__main__":
    unittest.main(verbosity=2)

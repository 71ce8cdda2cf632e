#!/usr/bin/env python3
"""The portable directory on machines unlike the one that built it.

Goal: it runs where glibc is 2.31 and nothing else is installed; on each processor the right CPU variant
is taken, and its answer is a right one; what is missing or damaged is said in a sentence. Method: the
built directory in a root file system with an old C library, and through qemu as older processors.

Environment (tools/run_tests.sh dist sets it): SALVAGE_DIST (the directory), SALVAGE_SYSROOT,
SALVAGE_LIBC_PACKAGE, SALVAGE_BINARY (the normal build, to compare with), SALVAGE_MODEL_SMOLLM2.
"""
import json
import os
import pathlib
import re
import shutil
import subprocess
import unittest

import machines

DIST = pathlib.Path(os.environ["SALVAGE_DIST"])
NATIVE = os.environ["SALVAGE_BINARY"]
PROMPT = "The capital of France is"
# A thread a stage: what is compared doesn't depend on it, and qemu's threads cost more than they give.
RUN = ["--local", "--threads", "1", "--ctx", "256", "--temp", "0", "--json"]
TOKENS = 32
# Kernels for other instructions round otherwise: all answers of this model begin with the same 14
# tokens, and the whole ones need not be equal.
TOKENS_ALIKE = 8
TOKENS_EMULATED = 3
INSIDE = "/opt/salvage/bin/salvage"

old = None


def setUpModule():
    global old
    old = machines.OldRoot(DIST, os.environ["SALVAGE_LIBC_PACKAGE"], os.environ["SALVAGE_MODEL_SMOLLM2"])


def tearDownModule():
    old.remove()


def variants():
    modules = (DIST / "bin").glob("libggml-cpu-*.so")
    return sorted(path.name[len("libggml-cpu-"):-len(".so")] for path in modules)


def variant_of(answer):
    """The one that every stage of a run says it used."""
    found = {re.search(r"; kernels ([\w.]+);", stage["kernels"])[1] for stage in answer["stages"]}
    assert len(found) == 1, found
    return found.pop()


def on_this_machine(binary, tokens=TOKENS, stages=1):
    return machines.run([str(binary), "run", str(old.model), PROMPT, *RUN, "-n", str(tokens),
                         "--stages", str(stages)], old.environment(), machines.WAIT_S)


class Test(unittest.TestCase):
    def answer(self, done):
        self.assertEqual(done.code, 0, done.err)
        return json.loads(done.out)

    def assert_complains(self, done, *parts):
        self.assertEqual(done.code, 1, done.err)
        self.assertEqual(done.out, "")
        for part in parts:
            self.assertIn(part, done.err)
        self.assertEqual(len(done.err.strip().splitlines()), 1, done.err)

    def copy(self, *wanted):
        """A portable directory with these CPU variants only."""
        folder = old.path / "tmp" / ("only-" + "-".join(wanted or ("none",)))
        shutil.rmtree(folder, ignore_errors=True)
        (folder / "bin").mkdir(parents=True)
        shutil.copy2(DIST / "bin" / "salvage", folder / "bin")
        for variant in wanted:
            shutil.copy2(DIST / "bin" / f"libggml-cpu-{variant}.so", folder / "bin")
        return folder / "bin" / "salvage"


class OldLibrary(Test):
    def test_it_starts_where_nothing_but_an_old_c_library_is(self):
        done = old.run(INSIDE, "--version")
        self.assertEqual(done.code, 0, done.err)
        native = subprocess.run([NATIVE, "--version"], capture_output=True, text=True, check=True)
        self.assertEqual(done.out, native.stdout)

    def test_three_stages_answer_there_as_one_does_here(self):
        there = self.answer(old.run(INSIDE, "run", "/opt/model.gguf", PROMPT, *RUN, "-n", str(TOKENS),
                                    "--stages", "3"))
        here = self.answer(on_this_machine(DIST / "bin" / "salvage"))
        self.assertEqual(len(there["stages"]), 3)
        self.assertTrue(there["exact"], there["exact_conditions"])
        self.assertEqual(there["token_ids"], here["token_ids"])
        # The same kernels, but another C library, which has a part in the last bits.
        self.assertEqual(variant_of(there), variant_of(here))
        self.assertIn("; libm 2.31 ", there["stages"][0]["kernels"])
        self.assertNotEqual(there["stages"][0]["kernels"], here["stages"][0]["kernels"])

    def test_the_native_build_gives_the_same_answer_and_says_that_its_kernels_are_others(self):
        portable = self.answer(on_this_machine(DIST / "bin" / "salvage"))
        native = self.answer(on_this_machine(NATIVE))
        self.assertEqual(variant_of(native), "native")
        self.assertNotEqual(portable["stages"][0]["kernels"], native["stages"][0]["kernels"])
        self.assertEqual(portable["token_ids"], native["token_ids"])


class Processors(Test):
    def expect(self, processor, variant, mathematics="plain", stages=1):
        answer = self.answer(old.run_as(processor, old.path / "opt" / "salvage" / "bin" / "salvage", "run",
                                        old.model, PROMPT, *RUN, "-n", TOKENS_EMULATED, "--stages", stages))
        self.assertEqual(variant_of(answer), variant)
        self.assertIn(f"; libm 2.31 {mathematics};", answer["stages"][0]["kernels"])
        native = self.answer(on_this_machine(NATIVE, TOKENS_EMULATED))
        self.assertEqual(answer["text"], native["text"])

    def test_the_first_x86_64_processors_take_x64(self):
        self.expect("Conroe", "x64")

    def test_nehalem_takes_sse42(self):
        self.expect("Nehalem", "sse42", stages=2)

    def test_sandy_bridge_takes_sandybridge(self):
        self.expect("SandyBridge", "sandybridge")

    def test_ivy_bridge_takes_ivybridge(self):
        self.expect("IvyBridge", "ivybridge")

    def test_haswell_takes_haswell(self):
        self.expect("Haswell", "haswell", "fma")

    def test_with_every_variant_that_this_processor_runs_the_answer_begins_alike(self):
        wanted = self.answer(on_this_machine(NATIVE, TOKENS_ALIKE))["token_ids"]
        ran = []
        for variant in variants():
            with self.subTest(variant=variant):
                done = on_this_machine(self.copy(variant), TOKENS_ALIKE)
                if done.code != 0:
                    self.assert_complains(done, "none of the 1 CPU variants", "runs on this machine's CPU")
                    continue
                answer = self.answer(done)
                self.assertEqual(variant_of(answer), variant)
                self.assertEqual(answer["token_ids"], wanted)
                self.assertTrue(answer["exact"], answer["exact_conditions"])
                ran.append(variant)
        self.assertIn("x64", ran)
        self.assertIn("sse42", ran)


class Damage(Test):
    def test_without_its_variants_it_says_what_is_missing(self):
        self.assert_complains(on_this_machine(self.copy()), "libggml-cpu-*.so", "whole")

    def test_variants_for_newer_processors_only_are_no_crash(self):
        program = self.copy("haswell", "zen4")
        done = old.run_as("Nehalem", program, "run", old.model, PROMPT, *RUN, "-n", "1")
        self.assert_complains(done, "none of the 2 CPU variants", "runs on this machine's CPU")

    def test_a_cut_variant_is_named_and_not_passed_over(self):
        program = self.copy("x64", "sse42")
        module = program.parent / "libggml-cpu-sse42.so"
        os.truncate(module, module.stat().st_size // 2)
        self.assert_complains(on_this_machine(program), str(module), "it is cut short", "whole")
        module.write_bytes(b"no library, but long enough to have a header of one, if it were one indeed")
        self.assert_complains(on_this_machine(program), str(module), "it is no library", "whole")

    def test_the_current_folder_has_no_say(self):
        """A module that lies where somebody happens to be is not loaded."""
        program = self.copy()
        trap = old.path / "tmp" / "trap"
        trap.mkdir(exist_ok=True)
        shutil.copy2(DIST / "bin" / "libggml-cpu-x64.so", trap)
        done = subprocess.run([str(program), "run", str(old.model), PROMPT, *RUN], cwd=trap, check=False,
                              capture_output=True, timeout=machines.WAIT_S, stdin=subprocess.DEVNULL,
                              env=old.environment())
        self.assertEqual(done.returncode, 1)
        self.assertIn(b"libggml-cpu-*.so", done.stderr)


class Places(Test):
    def test_a_link_and_a_folder_with_spaces_make_no_difference(self):
        folder = old.path / "tmp" / "a folder of mine"
        shutil.copytree(DIST, folder / "salvage")
        link = old.path / "tmp" / "salvage-link"
        link.symlink_to(folder / "salvage" / "bin" / "salvage")
        answer = self.answer(on_this_machine(link, tokens=2))
        self.assertEqual(answer["answer_tokens"], 2)


if __name__ == "__main__":
    unittest.main(verbosity=2)

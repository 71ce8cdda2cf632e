"""What happens to the processes when one of them is killed, stopped or interrupted.

Method: an answer is under way over three stages; a signal goes to one process by its id; then the
others are watched until they are gone, with a limit for each wait.
"""
import os
import signal
import subprocess
import time
import unittest

from salvage_cli import (Answering, BINARY, ENVIRONMENT, RUNTIME, Test, children, continued,
                         end_module, model, run_folders, runs, salvage, start_module, wait_until)

ORPHAN_S = 1.0  # the promise: no worker outlives its parent by more
SILENT_S = 10   # how long a worker may say nothing (src/agent/local_pipeline.cc)


def setUpModule():
    start_module()


def tearDownModule():
    end_module()


class Signals(Test):
    def assert_nothing_left(self, answering):
        self.assertIsNotNone(wait_until(lambda: not answering.workers_left(), 5),
                             "workers live on")
        self.assertEqual(run_folders(), [])

    def test_a_killed_worker_is_named_and_takes_the_request_with_it(self):
        for victim in (0, 1, 2):
            with self.subTest(stage=victim), Answering() as answering:
                self.assertEqual(len(answering.workers), 3)
                pid = answering.workers[victim]
                os.kill(pid, signal.SIGKILL)
                begin = time.monotonic()
                code, err = answering.ended()
                self.assertLess(time.monotonic() - begin, 10)
                self.assertEqual(code, 1, err)
                self.assertIn(f"(process {pid}) died: killed by signal 9", err)
                self.assertRegex(err, r"salvage: (.*: )?stage \d ")
                self.assert_nothing_left(answering)

    def test_an_aborting_worker_is_quoted(self):
        with Answering(stages=2) as answering:
            os.kill(answering.workers[1], signal.SIGABRT)
            code, err = answering.ended()
            self.assertEqual(code, 1)
            self.assertIn("killed by signal 6", err)

    def test_no_worker_outlives_a_killed_parent(self):
        with Answering() as answering:
            answering.send(signal.SIGKILL)
            took = wait_until(lambda: not answering.workers_left(), 10)
            self.assertIsNotNone(took, "workers live on")
            self.assertLess(took, ORPHAN_S)
            answering.process.wait(10)
        # Its sockets are the next run's to remove.
        self.assertEqual(salvage("run", model(), "x", "-n", "1", "-q", "--ctx", "256").code, 0)
        self.assertEqual(run_folders(), [])

    def test_a_stopped_worker_does_not_outlive_a_killed_parent(self):
        with Answering() as answering:
            os.kill(answering.workers[1], signal.SIGSTOP)
            answering.send(signal.SIGKILL)
            took = wait_until(lambda: not answering.workers_left(), 10)
            self.assertIsNotNone(took, "workers live on")
            self.assertLess(took, ORPHAN_S)

    def test_ctrl_c_ends_everything(self):
        for number in (signal.SIGINT, signal.SIGTERM):
            with self.subTest(signal=number), Answering() as answering:
                answering.send(number)
                begin = time.monotonic()
                code, err = answering.ended()
                self.assertLess(time.monotonic() - begin, 10)
                self.assertEqual(code, 130, err)
                self.assertIn("interrupted", err)
                self.assert_nothing_left(answering)

    def test_ctrl_c_ends_a_benchmark_in_the_middle_of_an_answer(self):
        with Measuring() as measuring:
            measuring.send(signal.SIGINT)
            begin = time.monotonic()
            code, err = measuring.ended()
            self.assertLess(time.monotonic() - begin, 10)
            self.assertEqual(code, 130, err)
            self.assert_nothing_left(measuring)

    def test_a_second_ctrl_c_does_not_wait(self):
        with Answering() as answering:
            os.kill(answering.workers[0], signal.SIGSTOP)  # it can't leave in order
            answering.send(signal.SIGINT)
            time.sleep(0.2)
            answering.send(signal.SIGINT)
            code, _ = answering.ended(10)
            self.assertEqual(code, 130)
            self.assertIsNotNone(wait_until(lambda: not answering.workers_left(), 5))

    def test_ctrl_c_while_loading(self):
        with Loading() as loading:
            loading.process.send_signal(signal.SIGINT)
            loading.process.communicate(timeout=30)
            self.assertEqual(loading.process.returncode, 130)
            self.assertIsNotNone(
                wait_until(lambda: not [pid for pid in loading.workers if runs(pid)], 5))

    def test_a_worker_that_stops_while_loading_is_found_out(self):
        # Its neighbours can load without the first stage, so nobody else would complain.
        with Loading(started=2) as loading:
            pid = loading.workers[0]
            os.kill(pid, signal.SIGSTOP)
            try:
                begin = time.monotonic()
                code, err = loading.ended(SILENT_S + 30)
                self.assertGreater(time.monotonic() - begin, SILENT_S - 2)
                self.assertEqual(code, 1, err)
                self.assertIn(f"cannot load the model: stage 0 (process {pid}) has not answered", err)
                self.assert_nothing_left(loading)
            finally:
                continued(pid)

    def test_a_worker_killed_before_it_is_told_what_to_load_is_named(self):
        with Loading(started=2) as loading:
            dead, waiting = loading.workers
            # While the second cannot answer, nobody is told to load.
            os.kill(waiting, signal.SIGSTOP)
            os.kill(dead, signal.SIGKILL)
            os.kill(waiting, signal.SIGCONT)
            code, err = loading.ended()
            self.assertEqual(code, 1, err)
            self.assertIn(f"cannot load the model: stage 0 (process {dead}) died: "
                          "killed by signal 9", err)
            self.assert_nothing_left(loading)

    def test_a_stopped_worker_is_found_out(self):
        with Answering() as answering:
            pid = answering.workers[1]
            os.kill(pid, signal.SIGSTOP)
            try:
                begin = time.monotonic()
                code, err = answering.ended(SILENT_S + 30)
                self.assertGreater(time.monotonic() - begin, SILENT_S - 2)
                self.assertEqual(code, 1, err)
                self.assertIn(f"(process {pid}) has not answered", err)
                self.assert_nothing_left(answering)
            finally:
                continued(pid)


class Loading(Answering):
    """`salvage run` of three stages while it starts: so many workers have come, the next not yet.

    Workers start one after another, each when the one before has answered; with two of them there,
    the first has answered and none has been told what to load.
    """

    def __init__(self, started=3):
        super().__init__()
        self.started = started

    def __enter__(self):
        if wait_until(lambda: len(children(self.pid)) >= self.started, 60) is None:
            self.__exit__()
            raise AssertionError("no workers came")
        self.workers = children(self.pid)[:self.started]
        return self


class Measuring(Answering):
    """`salvage bench` some seconds into a decode that takes minutes."""

    def __init__(self):  # pylint: disable=super-init-not-called
        command = [BINARY, "bench", model(), "--stages", "2", "--threads", "1", "--ctx", "8192",
                   "-p", "8", "-n", "8000", "--repeat", "1"]
        self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                        stderr=subprocess.PIPE, env=ENVIRONMENT)
        self.pid = self.process.pid
        self.workers = []

    def __enter__(self):
        seen = b""
        while b"process" not in seen:  # the layer table, which comes before the measuring
            part = os.read(self.process.stderr.fileno(), 4096)
            if not part:
                raise AssertionError(f"it ended early: {seen.decode()}")
            seen += part
        time.sleep(4)
        self.workers = children(self.pid)
        return self


if __name__ == "__main__":
    assert RUNTIME
    unittest.main(verbosity=2)

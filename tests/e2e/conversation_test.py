"""A conversation over HTTP reads only what is new, with a model whose cache is cut back and with one
that keeps a running state: what a client changes of its last answer costs that answer, not the rest.

Method: `salvage up MODEL` in a folder of its own, on loopback; each turn's `cached_tokens` against the
length of the prompt before.
"""
import json
import pathlib
import signal
import socket
import subprocess
import unittest
import urllib.request

from hybrid_model import write_hybrid
from salvage_cli import BINARY, ENVIRONMENT, WAIT_S, WORK, Test, end_module, model, start_module, wait_until

STORY = "The machine had seven fans and a drive that hummed in the cold room beside the kitchen. "
READ_S = 200  # for a prompt on a machine that does other things too
CHANGED_TOKENS = 12  # a template's opening of an answer, and the token that is always computed


def setUpModule():
    start_module()


def tearDownModule():
    end_module()


def free_ports(count):
    """Of this machine, at this moment."""
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [one.getsockname()[1] for one in sockets]
    for one in sockets:
        one.close()
    return ports


class Served:
    """`salvage up MODEL`, until it answers."""

    def __init__(self, model_path, name):
        port, self.api, stage = free_ports(3)
        command = [BINARY, "up", model_path, "--data", str(WORK / name), "--port", str(port),
                   "--download-port", "0", "--stage-ports", str(stage),
                   "--listen", f"127.0.0.1:{self.api}", "--log-level", "info"]
        self.log = open(WORK / f"{name}.log", "wb")
        self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=self.log,
                                        stderr=subprocess.STDOUT, env=ENVIRONMENT)

    def said(self):
        self.log.flush()
        return pathlib.Path(self.log.name).read_text(encoding="utf-8", errors="replace")

    def answers(self):
        if self.process.poll() is not None:
            raise AssertionError(f"it ended: {self.said()}")
        try:
            return [one["status"]["value"] for one in self.get("/v1/models")["data"]] == ["loaded"]
        except OSError:
            return False

    def get(self, path):
        with urllib.request.urlopen(f"http://127.0.0.1:{self.api}{path}", timeout=5) as reply:
            return json.load(reply)

    def __enter__(self):
        if wait_until(self.answers, WAIT_S) is None:
            self.__exit__()
            raise AssertionError(f"it does not serve: {self.said()}")
        return self

    def __exit__(self, *unused):
        self.process.send_signal(signal.SIGINT)
        try:
            self.process.wait(WAIT_S)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait(WAIT_S)
        self.log.close()

    def post(self, path, body):
        request = urllib.request.Request(f"http://127.0.0.1:{self.api}{path}",
                                         json.dumps(body).encode(),
                                         {"Content-Type": "application/json"})
        with urllib.request.urlopen(request, timeout=READ_S) as reply:
            return json.load(reply)

    def turn(self, messages, tokens=16, **more):
        """The answer's text, tokens of the prompt, and how many of them were not computed."""
        reply = self.post("/v1/chat/completions",
                          {"messages": messages, "max_tokens": tokens, "temperature": 0, **more})
        usage = reply["usage"]
        return (reply["choices"][0]["message"]["content"], usage["prompt_tokens"],
                usage["prompt_tokens_details"]["cached_tokens"])


def user(text):
    return {"role": "user", "content": text}


def assistant(text):
    return {"role": "assistant", "content": text}


class Conversations(Test):
    def converse(self, served, tokens):
        messages = [user(STORY * (tokens // 19) + "What hummed?")]
        _, first, cached = served.turn(messages)
        self.assertGreater(first, tokens)
        self.assertEqual(cached, 0)
        # Not the answer that the model gave: as clients do that cut, trim or leave out.
        messages += [assistant("The drive."), user("How many fans were there?")]
        _, second, cached = served.turn(messages)
        self.assertGreater(second, first)
        self.assertGreaterEqual(cached, first - CHANGED_TOKENS)
        messages += [assistant("Seven."), user("And where?")]
        answer, third, cached = served.turn(messages)
        self.assertGreaterEqual(cached, second - CHANGED_TOKENS)
        # The same again: another answer is asked for.
        again, _, cached = served.turn(messages)
        self.assertGreaterEqual(cached, third - CHANGED_TOKENS)
        return messages, answer, again

    def anew(self, served, messages):
        answer, _, cached = served.turn(messages, cache_prompt=False)
        self.assertEqual(cached, 0)
        return answer

    def test_a_model_that_is_cut_back(self):
        with Served(model(), "smollm2") as served:
            messages, answer, again = self.converse(served, 300)
            self.assertEqual(again, answer)
            self.assertEqual(self.anew(served, messages), answer)

    def test_a_hybrid_model_goes_back_to_a_checkpoint(self):
        path = write_hybrid(WORK / "hybrid.gguf", model())
        with Served(path, "hybrid") as served:
            messages, answer, again = self.converse(served, 2000)
            self.assertEqual(again, answer)
            self.assertEqual(self.anew(served, messages), answer)
            self.assertRegex(served.said(), r"event=stage_ready .*checkpoints=[1-9]")


if __name__ == "__main__":
    unittest.main(verbosity=2)

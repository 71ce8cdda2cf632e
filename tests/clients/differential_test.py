#!/usr/bin/env python3
"""The same requests to salvage's three machines and to llama-server: the same text, the same ends, the same
counts, the same calls.

    differential_test.py talk     SmolLM2: everything but tools
    differential_test.py tools    Qwen: Chinese, and tools, asked for as it writes them (retemplated.py)

Both have flash attention and a cache of q8_0, where bits don't depend on how rows are grouped
(docs/decisions/0005-exact-where-free.md), and llama-server is built with salvage's flags, so that answers
are the same to the bit.
What may differ stands in differential_permitted.py with its reason; what stands there and never differs is
a failure too. Environment: SALVAGE_BINARY, SALVAGE_LLAMA_SERVER (what `tools/llama.sh server` printed),
SALVAGE_MODEL_SMOLLM2, SALVAGE_MODEL_QWEN; SALVAGE_CLIENTS_ONLY runs the cases whose names hold this.
"""
import http.client
import json
import math
import os
import pathlib
import sys
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "net"))
# pylint: disable=wrong-import-position
import differential_cases  # noqa: E402
from differential_answers import outcome  # noqa: E402
from differential_permitted import Permissions  # noqa: E402
from home import API_PORT, KEY, LLAMA_PORT, Home, model_file  # noqa: E402
from own_network import own_network  # noqa: E402
from retemplated import bare_calls, retemplated  # noqa: E402

ASK_S = 120
NEAR = 2e-3  # llama-server adds up tens of thousands of probabilities in single precision
TOPICS = {
    "talk": ("SALVAGE_MODEL_SMOLLM2", ["--split", "10,10,10"], [], differential_cases.TALK),
    # Groups of rows matter to the repacked kernels of Q4_K: both go without them.
    "tools": ("SALVAGE_MODEL_QWEN", ["--split", "8,8,8", "--exact"], ["--no-repack"],
              differential_cases.CALLS),
}
OPENAI = ("chat", "completions")
NATIVE = ("completion", "tokenize", "detokenize", "template")


def ask(port, case, body):
    link = http.client.HTTPConnection("127.0.0.1", port, timeout=ASK_S)
    try:
        link.request("POST", case.path, json.dumps(body), {"Authorization": f"Bearer {KEY}",
                                                           "Content-Type": "application/json"})
        answer = link.getresponse()
        return answer.status, answer.read().decode("utf-8", "replace")
    finally:
        link.close()


def body_of(case, model, streamed):
    body = {key: value for key, value in case.body.items() if value is not None}
    if case.dialect not in NATIVE:
        body["model"] = model
    if streamed:
        body["stream"] = True
        if case.dialect in OPENAI:
            body["stream_options"] = {"include_usage": True}
    return body


def same(mine, other):
    """Equal; probabilities up to what a float's last digits and their rounding leave."""
    if isinstance(mine, float) or isinstance(other, float):
        return mine is not None and other is not None and math.isclose(mine, other, abs_tol=NEAR)
    if isinstance(mine, list) and isinstance(other, list):
        return len(mine) == len(other) and all(map(same, mine, other))
    return mine == other


def differences(ours, theirs):
    """{field: (ours, theirs)} where they differ."""
    return {key: (ours.get(key), theirs.get(key)) for key in {*ours, *theirs}
            if not same(ours.get(key), theirs.get(key))}


class Run:
    def __init__(self, model):
        self.model, self.permissions = model, Permissions()
        self.bad, self.rows, self.requests = [], [], 0

    def case(self, case):
        found, notes = {}, []
        for streamed in (False, True) if case.streams else (False,):
            body = body_of(case, self.model, streamed)
            ours, theirs = (outcome(case.dialect, *ask(port, case, body), streamed)
                            for port in (API_PORT, LLAMA_PORT))
            self.requests += 1
            found[streamed] = ours
            notes += self.judge(case, streamed, ours, theirs)
        if len(found) == 2:
            apart = {key: values for key, values in differences(found[False], found[True]).items()
                     if not self.permissions.of_stream(case, key)}
            if apart:
                self.bad.append(f"{case.dialect}, {case.name}: whole and streamed differ: {apart}")
        self.rows.append((case.dialect, case.name, ", ".join(dict.fromkeys(notes)) or "same"))
        print("{:17} {:36} {}".format(*self.rows[-1]), flush=True)

    def judge(self, case, streamed, ours, theirs):
        """Notes for the table; what isn't permitted goes to `bad`."""
        notes = []
        for key, (mine, other) in sorted(differences(ours, theirs).items()):
            permission = self.permissions.find(case, streamed, key, mine, other)
            if permission:
                notes.append(f"{key.split('[')[0]}: {permission.name}")
            else:
                notes.append(f"{key}: DIFFERS")
                self.bad.append(f"{case.dialect}, {case.name}{', streamed' if streamed else ''}: {key}\n"
                                f"    ours:   {mine!r}\n    theirs: {other!r}")
        return notes

    def report(self, seconds):
        for line in self.bad:
            print(line)
        same = sum(1 for row in self.rows if row[2] == "same")
        permitted = sum(1 for row in self.rows if row[2] != "same" and "DIFFERS" not in row[2])
        print(f"differential: {len(self.rows)} cases, {self.requests} requests to each, {same} the same, "
              f"{permitted} with permitted differences, {len(self.bad)} faults, {seconds:.0f} s")


def main():
    topic = sys.argv[1]
    variable, ours, theirs, cases = TOPICS[topic]
    only = os.environ.get("SALVAGE_CLIENTS_ONLY", "")
    chosen = [case for case in cases if only in f"{case.dialect}, {case.name}"]
    with own_network(), Home() as home:
        model = model_file(variable)
        if topic == "tools":
            model = retemplated(model, home.folder / os.path.basename(model), bare_calls)
        home.serve(model, *ours)
        home.serve_beside(os.environ["SALVAGE_LLAMA_SERVER"], model, *theirs)
        began = time.monotonic()
        run = Run(home.name)
        for case in chosen:
            run.case(case)
        if not only:
            run.bad += run.permissions.unused(topic)
        run.report(time.monotonic() - began)
    return 1 if run.bad or not chosen else 0


if __name__ == "__main__":
    sys.exit(main())

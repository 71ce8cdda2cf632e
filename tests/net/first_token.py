#!/usr/bin/env python3
"""From nothing to the first token of a model that runs on two machines, in seconds.

    SALVAGE_ARCHIVE=build/dist/out/salvage-...tar.gz SALVAGE_MODEL_SMOLLM2=... tests/net/first_token.py

Two hosts of the test network, each with a root file system that has nothing of this project and no
compiler (clean_root.py says what it has). Onto the first come the portable archive and a model, as a
person would bring them. Then only what a person types: unpack, `salvage up MODEL`; on the second the line
that `up` printed; on the first `salvage load` over both, and `salvage run`. The clock runs from before the
archive is unpacked to the first token. Fails if that takes more than five minutes, if the answer did not
run on both, or if anything was in the clean roots that doesn't belong there.
"""
import json
import os
import pathlib
import re
import sys
import time

from clean_root import CleanRoot
from netns import Net, Unavailable
from processes import wait_until

LIMIT_S = 300
ARCHIVE = os.environ.get("SALVAGE_ARCHIVE", "")
MODEL = os.environ.get("SALVAGE_MODEL_SMOLLM2", "")
PROMPT = "The capital of France is"
LINE = re.compile(r"^ +(sh -c '.*')$", re.MULTILINE)
STEP_S = 120


def check(condition, message):
    if not condition:
        raise AssertionError(message)


class Steps:
    """The clock, and what was reached when."""

    def __init__(self):
        self.begin = time.monotonic()
        self.last = self.begin

    def done(self, what):
        now = time.monotonic()
        print(f"{now - self.begin:6.1f} s  (+{now - self.last:.1f})  {what}", flush=True)
        self.last = now


def is_clean(root):
    foreign = ("*salvage*", "*llama*", "*ggml*", "gcc*", "g++*", "cc", "cc1*", "c++*", "clang*", "ld",
               "python*")
    found = [path for pattern in foreign for path in root.path.rglob(pattern) if path.is_file()]
    check(not found, f"the root isn't clean: {found}")


def salvage(root, command, seconds=STEP_S):
    done = root.call(f"salvage {command}", seconds, name=command.split()[0])
    check(done.code == 0, repr(done))
    return done.out


def printed_line(up):
    """The one for a machine without salvage, once it is there."""
    def found():
        check(up.running(), f"`up` has ended: {up.describe()}")
        return LINE.search(up.out)
    return wait_until(found, STEP_S, lambda: f"`up` prints a line: {up.describe()}")[1]


def is_online(root, joining, count):
    def all_there():
        check(joining.running(), f"the line has ended: {joining.describe()}")
        nodes = json.loads(salvage(root, "nodes --json"))["nodes"]
        return sum(node["state"] == "online" for node in nodes) == count
    wait_until(all_there, STEP_S, lambda: f"{count} machines: {joining.describe()}", pause=0.2)


def first_token(first, second):
    steps = Steps()
    archive = pathlib.Path(ARCHIVE).name
    up = first.run(f"tar -xzf {archive} && mkdir -p .local/bin && "
                   "ln -s ~/salvage/bin/salvage .local/bin/ && exec salvage up model.gguf --name first", "up")
    line = printed_line(up)
    steps.done("`salvage up` has printed the line for the next machine")
    joining = second.run(line, "line")
    is_online(first, joining, 2)
    steps.done("the second machine has fetched, checked and joined")
    # A thread each: the two machines have the same cores, and more threads would wait for one another.
    salvage(first, "load model.gguf --split 15,15 --threads 1")
    steps.done("the model is loaded over both")
    answer = json.loads(salvage(first, f"run model.gguf '{PROMPT}' -n 1 --temp 0 --json"))
    steps.done(f"first token: {answer['text']!r} over {answer['nodes']}")
    took = time.monotonic() - steps.begin
    check(len(set(answer["nodes"])) == 2, f"it ran on {answer['nodes']}")
    check(len(answer["token_ids"]) == 1, f"it answered {answer}")
    check(took < LIMIT_S, f"it took {took:.0f} s")
    check("salvage.tar.gz: OK" in joining.out, f"the archive was checked: {joining.describe()}")
    return took, line


def main():
    for name, path in (("SALVAGE_ARCHIVE", ARCHIVE), ("SALVAGE_MODEL_SMOLLM2", MODEL)):
        if not os.path.isfile(path):
            sys.exit(f"error: {name} must name a file: `make dist` makes the archive, `make model` fetches "
                     "the model.")
    try:
        with Net(2, ["first", "second"]) as net:
            roots = [CleanRoot(host) for host in net.hosts]
            for root in roots:
                is_clean(root)
            roots[0].give(ARCHIVE, pathlib.Path(ARCHIVE).name)
            roots[0].give(MODEL, "model.gguf")
            took, line = first_token(*roots)
    except Unavailable as error:
        sys.exit(f"error: {error}")
    print(f"the line: {line}")
    print(json.dumps({"first_token_s": round(took, 1), "limit_s": LIMIT_S}))


if __name__ == "__main__":
    main()

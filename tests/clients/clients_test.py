#!/usr/bin/env python3
"""The official clients against a cluster of three machines.

    clients_test.py talk     SmolLM2: everything but tools
    clients_test.py tools    Qwen: tools, asked for as it writes them (retemplated.py)

Environment: SALVAGE_BINARY, SALVAGE_MODEL_SMOLLM2 or SALVAGE_MODEL_QWEN, SALVAGE_CLIENTS (what
tools/clients.sh printed); SALVAGE_CLIENTS_ONLY runs the tests of these files only.
"""
import os
import pathlib
import subprocess
import sys
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "net"))
from home import Home, model_file  # noqa: E402  pylint: disable=wrong-import-position
from own_network import own_network  # noqa: E402  pylint: disable=wrong-import-position
from retemplated import bare_calls, retemplated  # noqa: E402  pylint: disable=wrong-import-position

SUITE_S = 300
TOPICS = {
    "talk": ("SALVAGE_MODEL_SMOLLM2", ["10,10,10"],
             ["openai_talk.py", "anthropic_talk.py", "langchain_talk.py", "wire_talk.py",
              "openai_talk.mjs", "anthropic_talk.mjs"]),
    "tools": ("SALVAGE_MODEL_QWEN", ["8,8,8"],
              ["openai_tools.py", "anthropic_tools.py", "langchain_tools.py",
               "openai_tools.mjs", "anthropic_tools.mjs"]),
}


def command_of(file):
    if file.endswith(".py"):
        return [sys.executable, "-B", "-m", "unittest", file.removesuffix(".py")]
    return ["node", "--test", "--test-reporter=spec", file]


def run(file, environment):
    """Runs one file's tests; says how long they took, and all that they wrote if one failed."""
    began = time.monotonic()
    try:
        done = subprocess.run(command_of(file), cwd=HERE / "official", env=environment,
                              stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              timeout=SUITE_S, check=False, encoding="utf-8", errors="replace")
        failed, text = done.returncode != 0, done.stdout
    except subprocess.TimeoutExpired as error:
        failed, text = True, f"not done within {SUITE_S} s: {error.output}"
    print(f"{file}: {'FAILED' if failed else 'ok'}, {time.monotonic() - began:.1f} s", flush=True)
    if failed or os.environ.get("SALVAGE_CLIENTS_ONLY"):
        print(text, flush=True)
    return not failed


def model_of(home, topic):
    path = model_file(TOPICS[topic][0])
    if topic == "talk":
        return path
    return retemplated(path, home.folder / os.path.basename(path), bare_calls)


def environment_of(home):
    clients = os.environ.get("SALVAGE_CLIENTS", "")
    assert os.path.isdir(clients), "SALVAGE_CLIENTS must name the folder that tools/clients.sh prints"
    # Node looks for packages beside the file that imports them: a loader looks there instead.
    return {**home.environment(), "PYTHONPATH": os.pathsep.join([f"{clients}/python", str(HERE)]),
            "NODE_OPTIONS": f"--import {HERE / 'official' / 'packages.mjs'}",
            "LANGSMITH_TRACING": "false"}


def main():
    topic = sys.argv[1]
    _, split, files = TOPICS[topic]
    only = os.environ.get("SALVAGE_CLIENTS_ONLY", "").split()
    with own_network(), Home() as home:
        began = time.monotonic()
        home.serve(model_of(home, topic), "--split", *split)
        print(f"{home.name} is loaded on three machines: {time.monotonic() - began:.1f} s", flush=True)
        environment = environment_of(home)
        results = [run(file, environment) for file in files if not only or file in only]
    assert results, f"none of {files} is in SALVAGE_CLIENTS_ONLY"
    return 0 if all(results) else 1


if __name__ == "__main__":
    sys.exit(main())

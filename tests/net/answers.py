"""What machines answer, and whether it is right: token by token what one machine alone answers."""
import functools
import json
import pathlib
import re

from cluster import BINARY, MODEL
from kept import kept, state_of
from processes import wait_until
from scenarios import equal

PROMPT = "Once upon a time there was a machine that"
TOKENS = 24       # enough to see that an answer is right
TOKENS_LONG = 256
TOKENS_ENDLESS = 2000  # more than any scenario waits for
REFERENCE_S = 120


@functools.cache
def _processor():
    """Answers are the same only on the same kind."""
    lines = pathlib.Path("/proc/cpuinfo").read_text(encoding="utf-8")
    return sorted(set(re.findall(r"^(?:model name|flags)\s*:.*$", lines, re.MULTILINE)))


def one_machine(machine, tokens=TOKENS):
    """What a single machine answers, without any cluster."""
    def answer(path):
        path.write_text(json.dumps(machine.run(PROMPT, tokens, "--local", "--logits-hash", "--threads", 1,
                                               seconds=REFERENCE_S)))
    depends_on = (state_of(BINARY), state_of(MODEL), _processor(), PROMPT)
    return json.loads(kept(f"answer-{tokens}.json", depends_on, answer, REFERENCE_S).read_text())


def answers_right(machine, tokens=TOKENS):
    """The loaded model's answer over the cluster is one machine's, bit for bit."""
    right = one_machine(machine, tokens)
    answer = machine.run(PROMPT, tokens, "--logits-hash", seconds=180)
    equal(answer["token_ids"], right["token_ids"], f"{tokens} tokens over {answer['nodes']}")
    equal(answer["logits_hash"], right["logits_hash"], "the hash of all logits")
    return answer


def answer_under_way(machine):
    """A process that writes an answer without an end, and has begun to."""
    answering = machine.host.run([BINARY, "run", MODEL, PROMPT, "-n", TOKENS_ENDLESS, "--temp", "0"],
                                 name="run")
    wait_until(lambda: len(answering.out) > 20, 30,
               lambda: f"an answer is under way: {answering.describe()}")
    return answering


def layers_of(answer):
    """Layer counts by stage."""
    return [stage["layers"][1] - stage["layers"][0] for stage in answer["stages"]]

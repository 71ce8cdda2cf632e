"""What the tests of one client share: where the cluster is, what it does, and whether an answer is all
that the client's own types say.

Environment, set by clients_test.py: SALVAGE_CLIENTS_URL, _KEY, _MODEL, _CONTEXT, _DATA, SALVAGE_BINARY.
"""
import contextlib
import http.client
import json
import os
import subprocess
import time
import urllib.parse

URL = os.environ["SALVAGE_CLIENTS_URL"]
KEY = os.environ["SALVAGE_CLIENTS_KEY"]
MODEL = os.environ["SALVAGE_CLIENTS_MODEL"]
CONTEXT = int(os.environ["SALVAGE_CLIENTS_CONTEXT"])
QUESTION = "Say hello."
HELLO = [{"role": "user", "content": QUESTION}]
TOO_LONG = "many words " * CONTEXT
# How soon the stages must be idle once a client has gone: a step, and a busy machine's slack.
IDLE_S = 3
QUIET_S = 1.2  # the other machines tell of their links every second, so what they tell is that old
PAUSE_S = 0.02
# Fills the queue of 256 answers: two requests of as many as one may ask for.
CROWD = 2
ANSWERS_EACH = 128


def ps():
    """The one deployment as `salvage ps` shows it."""
    done = subprocess.run([os.environ["SALVAGE_BINARY"], "ps", "--json", "--data",
                           os.environ["SALVAGE_CLIENTS_DATA"]],
                          stdout=subprocess.PIPE, timeout=30, check=True)
    return next(row for row in json.loads(done.stdout)["deployments"] if row["state"] == "ready")


def wait_until(condition, seconds, what):
    begin = time.monotonic()
    while not condition():
        assert time.monotonic() - begin < seconds, f"not within {seconds} s: {what}"
        time.sleep(PAUSE_S)


def link_bytes():
    """All that went over the pipeline's links."""
    return [link["bytes_sent"] for link in ps()["links"]]


def becomes_idle(seconds=IDLE_S):
    """Nothing runs any more, and nothing travels between the stages."""
    wait_until(lambda: ps()["requests_running"] == 0, seconds, "no request runs")
    wait_until(is_quiet, seconds, "the stages still work")


def is_quiet():
    before = link_bytes()
    time.sleep(QUIET_S)
    return link_bytes() == before


def is_working():
    return ps()["requests_running"] > 0


def connection():
    place = urllib.parse.urlsplit(URL)
    return http.client.HTTPConnection(place.hostname, place.port, timeout=60)


def raw(method, path, body=None, headers=None):
    """Status, headers and the body as text, without any client."""
    link = connection()
    try:
        link.request(method, path, json.dumps(body) if body is not None else None,
                     {"Authorization": f"Bearer {KEY}", "Content-Type": "application/json",
                      **(headers or {})})
        answer = link.getresponse()
        return answer.status, dict(answer.getheaders()), answer.read().decode()
    finally:
        link.close()


def events(text):
    """(event name, JSON) of every frame with data, [DONE] left out."""
    found = []
    for frame in text.split("\n\n"):
        lines = frame.split("\n")
        data = "\n".join(line[6:] for line in lines if line.startswith("data: "))
        name = next((line[7:] for line in lines if line.startswith("event: ")), "")
        if data and data != "[DONE]":
            found.append((name, json.loads(data)))
    return found


@contextlib.contextmanager
def full_queue():
    """As many answers are asked for as may wait; the body may end that by calling what it gets."""
    links = []

    def leave():
        while links:
            links.pop().close()

    try:
        for _ in range(CROWD):
            link = connection()
            links.append(link)
            link.request("POST", "/v1/completions",
                         json.dumps({"prompt": ["Once"] * ANSWERS_EACH, "max_tokens": 200, "stream": True,
                                     "logit_bias": {}}),
                         {"Authorization": f"Bearer {KEY}"})
            assert link.getresponse().status == 200
        yield leave
    finally:
        leave()
        becomes_idle(10)

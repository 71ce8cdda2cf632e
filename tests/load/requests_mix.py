"""Requests of all kinds, drawn by a seed, and what has to come back for each."""
import dataclasses
import json
import random

from client import Broken, request_bytes

# Words of the prompts: few, so that requests share beginnings, as those of real clients do.
WORDS = ["The", "old", "machine", "in", "the", "attic", "computes", "again", "你好", "and", "🙂"]


@dataclasses.dataclass
class Wish:
    kind: str
    method: str
    path: str
    body: object
    status: int = 200
    stream: bool = False
    headers: tuple = ()

    def bytes(self):
        return request_bytes(self.method, self.path, self.body, self.headers)


class Mix:
    """Draws wishes. `model` is a loaded model's name, `context` its context in tokens."""

    def __init__(self, seed, model, context):
        self.random = random.Random(seed)
        self.model, self.context = model, context
        self.kinds = [(getattr(self, name), weight) for name, weight in (
            ("chat", 22), ("completions", 10), ("anthropic", 8), ("responses", 6), ("llama", 8),
            ("tokenize", 10), ("detokenize", 4), ("template", 4), ("count", 5), ("models", 6),
            ("health", 4), ("wrong", 13))]

    def draw(self):
        makers, weights = zip(*self.kinds)
        return self.random.choices(makers, weights)[0]()

    def text(self, most=20):
        return " ".join(self.random.choice(WORDS) for _ in range(self.random.randint(1, most)))

    def messages(self):
        return [{"role": "user", "content": self.text()}]

    def tokens(self):
        return self.random.randint(1, 6)

    def stream(self):
        return self.random.random() < 0.6

    def chat(self):
        body = {"model": self.model, "messages": self.messages(), "max_tokens": self.tokens(),
                "temperature": self.random.choice([0, 1])}
        if self.stream():
            body |= {"stream": True, "stream_options": {"include_usage": True}}
        if self.random.random() < 0.1:
            body |= {"logprobs": True, "top_logprobs": 3}
        if self.random.random() < 0.1:
            body["n"] = 2
        return Wish("chat", "POST", "/v1/chat/completions", body, stream="stream" in body)

    def completions(self):
        stream = self.stream()
        body = {"model": self.model, "prompt": self.text(), "max_tokens": self.tokens(),
                "stream": stream, "stop": ["zzz"], "seed": 7}
        return Wish("completions", "POST", "/v1/completions", body, stream=stream)

    def anthropic(self):
        return self.to_anthropic("/v1/messages", max_tokens=self.tokens(), stream=self.stream())

    def count(self):
        return self.to_anthropic("/v1/messages/count_tokens")

    def to_anthropic(self, path, **more):
        body = {"model": self.model, "messages": self.messages(), **more}
        return Wish("anthropic", "POST", path, body, stream=more.get("stream", False),
                    headers=("anthropic-version: 2023-06-01",))

    def responses(self):
        stream = self.stream()
        body = {"model": self.model, "input": self.text(), "max_output_tokens": 16, "stream": stream}
        return Wish("responses", "POST", "/v1/responses", body, stream=stream)

    def llama(self):
        stream = self.stream()
        body = {"prompt": self.text(), "n_predict": self.tokens(), "stream": stream,
                "return_progress": stream, "cache_prompt": True}
        return Wish("llama", "POST", "/completion", body, stream=stream)

    def tokenize(self):
        return Wish("tokenize", "POST", "/tokenize", {"content": self.text(), "with_pieces": True})

    def detokenize(self):
        return Wish("detokenize", "POST", "/detokenize", {"tokens": [5, 6, 700]})

    def template(self):
        return Wish("template", "POST", "/apply-template", {"messages": self.messages()})

    def models(self):
        return Wish("models", "GET", self.random.choice(["/v1/models", f"/models/{self.model}"]), None)

    def health(self):
        return Wish("health", "GET", "/health", None)

    def wrong(self):
        """What is refused, and how."""
        good = {"model": self.model, "messages": self.messages(), "max_tokens": 3}
        long = [{"role": "user", "content": "once more " * self.context}]
        path, body, status = self.random.choice([
            ("/v1/chat/completions", b'{"messages": [', 400),
            ("/v1/chat/completions", b'{"messages": "\xff\xfe"}', 400),
            ("/v1/chat/completions", good | {"model": "nobody"}, 404),
            ("/v1/chat/completions", good | {"messages": long, "stream": True}, 400),
            ("/v1/chat/completions", good | {"temperature": "hot"}, 400),
            ("/v1/messages", {"messages": 42}, 400),
            ("/v1/nothing", good, 404),
            ("/v1/audio/speech", good, 501),
            ("/completion", {"prompt": "a", "top_p": -3}, 400)])
        return Wish("wrong", "POST", path, body, status)


def check_stream(wish, body):
    """A whole stream: events that parse, one end."""
    text = body.decode("utf-8")
    assert text.endswith("\n\n"), text[-200:]
    frames = [frame for frame in text.split("\n\n") if frame]
    data = [line[6:] for frame in frames for line in frame.split("\n") if line.startswith("data: ")]
    for one in data:
        if one != "[DONE]":
            assert "error" not in json.loads(one) or wish.path == "/v1/responses", one
    ends = [one for one in data if one == "[DONE]"]
    if wish.path in ("/v1/chat/completions", "/v1/completions"):
        assert len(ends) == 1 and data[-1] == "[DONE]", text[-300:]
    if wish.path == "/v1/messages":
        assert json.loads(data[-1])["type"] == "message_stop", data[-1]
    if wish.path == "/v1/responses":
        last = json.loads(data[-1])
        assert last["type"] in ("response.completed", "response.incomplete"), data[-1]
    if wish.path == "/completion":
        assert json.loads(data[-1])["stop"] is True, data[-1]


def check_answer(wish, answer):
    if answer.status != wish.status:
        raise Broken(f"{wish}: {answer.status}, {answer.body[:300]!r}")
    if answer.status != 200:
        assert isinstance(answer.json()["error"], dict), answer.body
    elif wish.stream:
        check_stream(wish, answer.body)
    else:
        answer.json()

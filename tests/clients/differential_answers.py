"""What matters of an answer, whatever service's words it is in and whether it came whole or in pieces.

outcome() gives a flat dict; two answers are the same if the dicts are. Left out is what can't be the same
on two servers (ids, times, speeds) or depends on what each read before (cached tokens).
"""
import json


def frames(text):
    """The JSON of every frame of a stream."""
    for frame in text.replace("\r\n", "\n").split("\n\n"):
        data = "\n".join(line[6:] for line in frame.split("\n") if line.startswith("data: "))
        if data and data != "[DONE]":
            part = json.loads(data)
            if part is not None:  # llama-server's way to say that it began
                yield part


def usage_of(usage):
    """Whichever names: of the prompt, of the answer."""
    if not usage:
        return None
    prompt = usage.get("prompt_tokens", usage.get("input_tokens"))
    if "cache_read_input_tokens" in usage:
        prompt += usage["cache_read_input_tokens"]
    return [prompt, usage.get("completion_tokens", usage.get("output_tokens"))]


def logprobs_of(entries):
    """[token, logprob, [alternatives]] of each, whether of OpenAI or llama.cpp."""
    found = []
    for entry in entries or []:
        key = "prob" if "prob" in entry else "logprob"
        top = entry.get("top_logprobs", entry.get("top_probs", []))
        found.append([entry["token"], entry[key],
                      [[one["token"], one[key]] for one in top]])
    return found


def parallel_logprobs(lists):
    """The same of OpenAI's older form: lists beside each other."""
    return [[token, logprob, [[key, value] for key, value in (top or {}).items()]]
            for token, logprob, top in zip(lists["tokens"], lists["token_logprobs"], lists["top_logprobs"])]


def call_of(name, arguments):
    """Arguments as JSON: white space in them is nobody's promise."""
    try:
        return [name, json.loads(arguments) if isinstance(arguments, str) else arguments]
    except ValueError:
        return [name, arguments]


class Choices:
    """Of OpenAI's older interfaces, and llama.cpp's own: by index."""

    def __init__(self):
        self.all, self.usage = {}, None

    def choice(self, index):
        return self.all.setdefault(index, {"text": "", "thoughts": "", "calls": {}, "reason": None,
                                           "logprobs": []})

    def add_message(self, choice, message):
        choice["text"] += message.get("content") or ""
        choice["thoughts"] += message.get("reasoning_content") or ""
        for position, call in enumerate(message.get("tool_calls") or []):
            known = choice["calls"].setdefault(call.get("index", position), {"name": "", "arguments": ""})
            known["name"] += call["function"].get("name") or ""
            known["arguments"] += call["function"].get("arguments") or ""

    def outcome(self):
        found = {"usage": self.usage}
        for index, choice in sorted(self.all.items()):
            choice["calls"] = [call_of(call["name"], call["arguments"])
                               for _, call in sorted(choice["calls"].items())]
            found.update({f"{key}[{index}]": value for key, value in choice.items()})
        return found


def chat(parts):
    choices = Choices()
    for part in parts:
        choices.usage = usage_of(part.get("usage")) or choices.usage
        for one in part["choices"]:
            choice = choices.choice(one["index"])
            choices.add_message(choice, one.get("message") or one.get("delta") or {})
            choice["reason"] = one["finish_reason"] or choice["reason"]
            choice["logprobs"] += logprobs_of((one.get("logprobs") or {}).get("content"))
    return choices.outcome()


def completions(parts):
    choices = Choices()
    for part in parts:
        choices.usage = usage_of(part.get("usage")) or choices.usage
        for one in part["choices"]:
            choice = choices.choice(one["index"])
            choice["text"] += one["text"]
            choice["reason"] = one["finish_reason"] or choice["reason"]
            logprobs = one.get("logprobs") or {}
            choice["logprobs"] += (parallel_logprobs(logprobs) if "tokens" in logprobs
                                   else logprobs_of(logprobs.get("content")))
    return choices.outcome()


KEPT = ("tokens_predicted", "tokens_evaluated", "stop_type", "stopping_word", "truncated", "has_new_line",
        "prompt")


def completion(parts):
    found = {}
    for part in parts:
        index = part.get("index", 0)
        for key, value in (("content", part.get("content")), ("tokens", part.get("tokens", []))):
            if value is not None:
                found[f"{key}[{index}]"] = found.get(f"{key}[{index}]", type(value)()) + value
        found.setdefault(f"probabilities[{index}]", []).extend(
            logprobs_of(part.get("completion_probabilities")))
        if part.get("stop", True):
            found.update({f"{key}[{index}]": part[key] for key in KEPT if key in part})
    return found


def block(one):
    if one["type"] == "tool_use":
        return ["call", *call_of(one["name"], one["input"])]
    return [one["type"], one.get("text", one.get("thinking"))]


def messages(parts):
    whole = next((part for part in parts if part["type"] == "message"), None)
    if whole:
        return {"blocks": [block(one) for one in whole["content"]], "reason": whole["stop_reason"],
                "stop_text": whole["stop_sequence"], "usage": usage_of(whole["usage"])}
    found = {"usage": [0, 0]}
    blocks = {}
    for part in parts:
        if part["type"] == "message_start":
            found["usage"][0] = usage_of(part["message"]["usage"])[0]
        elif part["type"] == "content_block_start":
            blocks[part["index"]] = {**part["content_block"], "json": ""}
        elif part["type"] == "content_block_delta":
            add_delta(blocks[part["index"]], part["delta"])
        elif part["type"] == "message_delta":
            found["usage"][1] = part["usage"]["output_tokens"]
            found["reason"] = part["delta"]["stop_reason"]
            found["stop_text"] = part["delta"]["stop_sequence"]
    for one in blocks.values():
        if one["type"] == "tool_use":
            one["input"] = one["json"] or "{}"
    found["blocks"] = [block(one) for _, one in sorted(blocks.items())]
    return found


def add_delta(one, delta):
    if delta["type"] == "text_delta":
        one["text"] = one.get("text", "") + delta["text"]
    elif delta["type"] == "thinking_delta":
        one["thinking"] = one.get("thinking", "") + delta["thinking"]
    elif delta["type"] == "input_json_delta":
        one["json"] += delta["partial_json"]


def item(one):
    if one["type"] == "function_call":
        return ["call", *call_of(one["name"], one["arguments"])]
    return [one["type"], "".join(part["text"] for part in one.get("content", []))]


def responses(parts):
    """The last event holds the whole; the deltas before it must say the same."""
    deltas = "".join(part["delta"] for part in parts if part.get("type") == "response.output_text.delta")
    last = parts[-1].get("response", parts[-1])
    found = {"items": [item(one) for one in last["output"]], "status": last["status"],
             "usage": usage_of(last["usage"])}
    said = "".join(text for kind, text, *_ in found["items"] if kind == "message")
    if len(parts) > 1 and deltas != said:
        found["deltas"] = deltas
    return found


def plain(parts):
    return parts[0]


READERS = {"chat": chat, "completions": completions, "completion": completion, "messages": messages,
           "responses": responses}


def outcome(dialect, status, text, streamed):
    """What matters of the answer; of an error its status and, where it has them, its two numbers."""
    if status != 200:
        error = json.loads(text)["error"]
        words = str(error.get("message")).replace(".", " ").split()
        numbers = {int(word) for word in words if word.isdigit()}
        numbers |= {error[key] for key in ("n_prompt_tokens", "n_ctx") if key in error}
        return {"status": status, "numbers": sorted(numbers)}
    parts = list(frames(text)) if streamed else json.loads(text)
    if isinstance(parts, dict):
        parts = [parts]
    if not all(isinstance(part, dict) for part in parts):
        return {"unreadable": text[:400]}
    failure = next((part for part in parts if "error" in part and part["error"]), None)
    if failure:
        return {"failure": failure["error"]["message"]}
    return READERS.get(dialect, plain)(parts)

"""openai, for Python: chat completions, completions, responses, models, errors, departures."""
import itertools
import json
import threading
import time
import unittest

import openai
import pydantic
from openai.types import Completion
from openai.types.chat import ChatCompletion, ChatCompletionChunk
from openai.types.responses import Response, ResponseStreamEvent

import served
from served import HELLO, KEY, MODEL, QUESTION, TOO_LONG, URL

EVENT = pydantic.TypeAdapter(ResponseStreamEvent)


def client(**options):
    return openai.OpenAI(**{"base_url": f"{URL}/v1", "api_key": KEY, "max_retries": 0, "timeout": 60,
                            **options})


def chat(messages=None, **options):
    return client().chat.completions.create(
        **{"model": MODEL, "messages": messages or HELLO, "temperature": 0, "max_tokens": 40, **options})


def strict(kind, value):
    """The client takes any JSON; here all of it must be as its own types say."""
    return kind.model_validate(value.to_dict(mode="json"))


def chunks_of(stream):
    chunks = list(stream)
    for chunk in chunks:
        strict(ChatCompletionChunk, chunk)
    return chunks


def text_of(chunks, index=0):
    return "".join(choice.delta.content or "" for chunk in chunks for choice in chunk.choices
                   if choice.index == index)


class Capital(pydantic.BaseModel):
    country: str
    capital: str
    population_millions: int


class Chat(unittest.TestCase):
    def test_a_whole_answer(self):
        answer = chat()
        strict(ChatCompletion, answer)
        self.assertTrue(answer.choices[0].message.content)
        self.assertEqual(answer.choices[0].message.role, "assistant")
        self.assertEqual(answer.model, MODEL)
        self.assertEqual(answer.usage.total_tokens,
                         answer.usage.prompt_tokens + answer.usage.completion_tokens)
        self.assertGreater(answer.usage.prompt_tokens, 5)

    def test_a_stream_says_the_same(self):
        whole = chat()
        chunks = chunks_of(chat(stream=True, stream_options={"include_usage": True}))
        self.assertEqual(text_of(chunks), whole.choices[0].message.content)
        reasons = [choice.finish_reason for chunk in chunks for choice in chunk.choices]
        self.assertEqual([reason for reason in reasons if reason], [whole.choices[0].finish_reason])
        self.assertEqual(chunks[0].choices[0].delta.role, "assistant")
        self.assertEqual(chunks[-1].choices, [])
        self.assertEqual(chunks[-1].usage.completion_tokens, whole.usage.completion_tokens)
        self.assertEqual(chunks[-1].usage.prompt_tokens, whole.usage.prompt_tokens)
        self.assertTrue(all(chunk.usage is None for chunk in chunks[:-1]))
        self.assertEqual(len({chunk.id for chunk in chunks}), 1)
        without = chunks_of(chat(stream=True))
        self.assertTrue(all(chunk.usage is None and chunk.choices for chunk in without))

    def test_the_streaming_helper_puts_it_together(self):
        with client().chat.completions.stream(model=MODEL, messages=HELLO, temperature=0,
                                              max_tokens=40) as stream:
            kinds = {event.type for event in stream}
            final = stream.get_final_completion()
        self.assertIn("content.delta", kinds)
        self.assertIn("content.done", kinds)
        self.assertEqual(final.choices[0].message.content, chat().choices[0].message.content)

    def test_two_choices_and_a_seed(self):
        def texts(**options):
            answer = chat(n=2, temperature=1.5, seed=7, **options)
            self.assertEqual([choice.index for choice in answer.choices], [0, 1])
            return [choice.message.content for choice in answer.choices], answer.usage
        first, usage = texts()
        self.assertEqual(texts()[0], first, "the same seed")
        self.assertNotEqual(first[0], first[1], "choices differ")
        one = chat(temperature=1.5, seed=7)
        self.assertEqual(one.choices[0].message.content, first[0])
        self.assertEqual(usage.prompt_tokens, one.usage.prompt_tokens, "a prompt counts once")
        self.assertNotEqual(chat(temperature=1.5, seed=8).choices[0].message.content, first[0])
        chunks = chunks_of(chat(n=2, temperature=1.5, seed=7, stream=True))
        self.assertEqual([text_of(chunks, 0), text_of(chunks, 1)], first)

    def test_a_stop_text_ends_it_and_is_not_said(self):
        whole = chat().choices[0].message.content
        word = whole.split()[3]
        for stop in (word, ["nowhere in it", word]):
            answer = chat(stop=stop)
            self.assertEqual(answer.choices[0].message.content, whole[:whole.index(word)])
            self.assertEqual(answer.choices[0].finish_reason, "stop")
            self.assertEqual(text_of(chunks_of(chat(stop=stop, stream=True))), whole[:whole.index(word)])

    def test_a_limit_is_a_length(self):
        for limit in ({"max_tokens": 3}, {"max_tokens": openai.omit, "max_completion_tokens": 3}):
            answer = chat(**limit)
            self.assertEqual(answer.choices[0].finish_reason, "length")
            self.assertEqual(answer.usage.completion_tokens, 3)

    def test_logprobs(self):
        answer = chat(logprobs=True, top_logprobs=3, max_tokens=8)
        strict(ChatCompletion, answer)
        tokens = answer.choices[0].logprobs.content
        self.assertEqual(len(tokens), 8)
        self.assertEqual(b"".join(bytes(token.bytes) for token in tokens).decode(),
                         answer.choices[0].message.content)
        for token in tokens:
            self.assertEqual(len(token.top_logprobs), 3)
            self.assertEqual(token.token, token.top_logprobs[0].token, "greedy takes the likeliest")
            self.assertEqual(token.logprob, token.top_logprobs[0].logprob)
            self.assertLessEqual(token.logprob, 0)
        chunks = chunks_of(chat(logprobs=True, top_logprobs=3, max_tokens=8, stream=True))
        streamed = [token for chunk in chunks
                    for choice in chunk.choices if choice.logprobs for token in choice.logprobs.content]
        self.assertEqual([token.logprob for token in streamed], [token.logprob for token in tokens])

    def test_a_forbidden_token_is_not_said(self):
        first = chat(logprobs=True, max_tokens=1).choices[0]
        ids = json.loads(served.raw("POST", "/tokenize", {"content": first.message.content})[2])["tokens"]
        other = chat(logit_bias={str(ids[0]): -100}, max_tokens=1)
        self.assertNotEqual(other.choices[0].message.content, first.message.content)

    def test_json_that_follows_a_schema(self):
        answer = client().chat.completions.parse(
            model=MODEL, temperature=0, max_tokens=120, response_format=Capital,
            messages=[{"role": "user", "content": "Tell me of France and its capital, as JSON."}])
        self.assertIsInstance(answer.choices[0].message.parsed, Capital)
        self.assertEqual(answer.choices[0].finish_reason, "stop")
        anything = chat(response_format={"type": "json_object"}, max_tokens=200, messages=[
            {"role": "user", "content": "Write a JSON object with one short field."}])
        if anything.choices[0].finish_reason == "stop":
            self.assertIsInstance(json.loads(anything.choices[0].message.content), dict)

    def test_what_clients_send_along_is_no_fault(self):
        answer = chat([{"role": "developer", "content": "Answer in one word."},
                       {"role": "user", "content": [{"type": "text", "text": QUESTION}], "name": "ann"}],
                      user="ann", metadata={"a": "b"}, store=False, service_tier="auto",
                      frequency_penalty=0.1, presence_penalty=0.1, top_p=0.9,
                      extra_body={"top_k": 20, "a_field_of_tomorrow": {"x": [1]}})
        self.assertTrue(answer.choices[0].message.content)

    def test_turns_find_what_was_read_before(self):
        first = chat()
        messages = [*HELLO, {"role": "assistant", "content": first.choices[0].message.content},
                    {"role": "user", "content": "And of Spain?"}]
        second = chat(messages)
        self.assertGreater(second.usage.prompt_tokens_details.cached_tokens, first.usage.prompt_tokens)


class Completions(unittest.TestCase):
    PROMPT = "The capital of France is"

    def complete(self, prompt=PROMPT, **options):
        return client().completions.create(
            **{"model": MODEL, "prompt": prompt, "temperature": 0, "max_tokens": 8, **options})

    def test_whole_and_streamed(self):
        whole = self.complete()
        strict(Completion, whole)
        self.assertTrue(whole.choices[0].text)
        chunks = list(self.complete(stream=True, stream_options={"include_usage": True}))
        self.assertEqual("".join(choice.text for chunk in chunks for choice in chunk.choices),
                         whole.choices[0].text)
        # As OpenAI sends it, though its own types don't allow for it.
        reasons = [choice.finish_reason for chunk in chunks for choice in chunk.choices]
        self.assertEqual(reasons[:-1], [None] * (len(reasons) - 1))
        self.assertEqual(reasons[-1], whole.choices[0].finish_reason)
        self.assertEqual(chunks[-1].usage.completion_tokens, whole.usage.completion_tokens)

    def test_several_prompts_some_of_them_tokens(self):
        ids = json.loads(served.raw("POST", "/tokenize", {"content": self.PROMPT, "add_special": True})[2])
        answer = self.complete([self.PROMPT, ids["tokens"]])
        self.assertEqual(answer.choices[0].text, answer.choices[1].text)
        with self.assertRaises(openai.BadRequestError) as raised:
            self.complete([[10 ** 8]])
        self.assertEqual(raised.exception.param, "prompt")

    def test_echo(self):
        self.assertTrue(self.complete(echo=True).choices[0].text.startswith(self.PROMPT))

    def test_logprobs_of_a_text_are_those_of_writing_it(self):
        written = self.complete(logprobs=2).choices[0]
        read = self.complete(self.PROMPT + written.text, echo=True, logprobs=2, max_tokens=0)
        read = read.choices[0]
        self.assertEqual(read.text, self.PROMPT + written.text)
        self.assertEqual("".join(read.logprobs.tokens), read.text)
        count = len(written.logprobs.tokens)
        self.assertEqual(read.logprobs.tokens[-count:], written.logprobs.tokens)
        for then, now in zip(written.logprobs.token_logprobs, read.logprobs.token_logprobs[-count:]):
            self.assertAlmostEqual(then, now, places=4)
        self.assertEqual(read.logprobs.top_logprobs[-1].keys(), written.logprobs.top_logprobs[-1].keys())
        self.assertEqual(read.logprobs.text_offset[-count],
                         len(self.PROMPT) + written.logprobs.text_offset[0])
        streamed = [choice for chunk in self.complete(echo=True, logprobs=2, stream=True)
                    for choice in chunk.choices]
        self.assertEqual("".join(choice.text for choice in streamed), self.PROMPT + written.text)
        tokens = [choice.logprobs.tokens for choice in streamed if choice.logprobs]
        self.assertEqual("".join(itertools.chain.from_iterable(tokens)), self.PROMPT + written.text)

    def test_the_first_token_of_a_bare_text_has_no_logprob(self):
        ids = json.loads(served.raw("POST", "/tokenize", {"content": self.PROMPT})[2])["tokens"]
        read = self.complete([ids], echo=True, logprobs=1, max_tokens=1).choices[0]
        self.assertIsNone(read.logprobs.token_logprobs[0])
        self.assertEqual(len(read.logprobs.token_logprobs), len(ids) + 1)
        self.assertNotIn(None, read.logprobs.token_logprobs[1:])


class Responses(unittest.TestCase):
    def create(self, **options):
        return client().responses.create(
            **{"model": MODEL, "input": QUESTION, "temperature": 0, "max_output_tokens": 40, **options})

    def test_whole(self):
        answer = self.create(instructions="Be brief.", metadata={"a": "b"}, store=False, user="ann")
        strict(Response, answer)
        self.assertTrue(answer.output_text)
        self.assertEqual(answer.metadata, {"a": "b"})
        self.assertEqual(answer.usage.total_tokens, answer.usage.input_tokens + answer.usage.output_tokens)
        cut = self.create(max_output_tokens=2)
        self.assertEqual((cut.status, cut.incomplete_details.reason), ("incomplete", "max_output_tokens"))

    def test_streamed(self):
        events = list(self.create(stream=True))
        for event in events:
            EVENT.validate_python(event.to_dict(mode="json"))
        self.assertEqual([event.sequence_number for event in events], list(range(len(events))))
        kinds = [event.type.removeprefix("response.") for event in events]
        self.assertEqual(kinds[:4], ["created", "in_progress", "output_item.added", "content_part.added"])
        self.assertEqual(set(kinds[4:-4]), {"output_text.delta"})
        self.assertEqual(kinds[-4:-1], ["output_text.done", "content_part.done", "output_item.done"])
        text = "".join(event.delta for event in events if event.type == "response.output_text.delta")
        self.assertEqual(text, self.create().output_text)
        self.assertEqual(events[-1].response.output_text, text)

    def test_the_helper_puts_it_together(self):
        with client().responses.stream(model=MODEL, input=QUESTION, temperature=0,
                                       max_output_tokens=200) as stream:
            for _ in stream:
                pass
            final = stream.get_final_response()
        self.assertEqual(final.status, "completed")
        self.assertTrue(final.output_text)

    def test_a_schema(self):
        answer = client().responses.parse(model=MODEL, temperature=0, max_output_tokens=120,
                                          input="Tell me of France and its capital.", text_format=Capital)
        self.assertIsInstance(answer.output_parsed, Capital)

    def test_turns_are_sent_whole(self):
        answer = self.create(input=[
            {"role": "user", "content": QUESTION},
            {"type": "message", "role": "assistant",
             "content": [{"type": "output_text", "text": "Paris.", "annotations": []}]},
            {"role": "user", "content": [{"type": "input_text", "text": "And of Spain?"}]}])
        self.assertTrue(answer.output_text)
        with self.assertRaises(openai.InternalServerError) as raised:
            self.create(previous_response_id="resp_1")
        self.assertEqual(raised.exception.status_code, 501)
        self.assertEqual(raised.exception.param, "previous_response_id")


class Models(unittest.TestCase):
    def test_list_and_one(self):
        models = list(client().models.list())
        self.assertEqual([model.id for model in models], [MODEL])
        self.assertEqual(client().models.retrieve(MODEL).id, MODEL)


class Errors(unittest.TestCase):
    def assert_fails(self, kind, code, call, *parts):
        with self.assertRaises(kind) as raised:
            call()
        self.assertEqual(raised.exception.code, code)
        for part in parts:
            self.assertIn(part, raised.exception.message)
        self.assertTrue(raised.exception.request_id)
        return raised.exception

    def test_a_bad_key(self):
        bad = client(api_key="sk-of-nobody")
        self.assert_fails(openai.AuthenticationError, "invalid_api_key", bad.models.list)
        self.assert_fails(openai.AuthenticationError, "invalid_api_key", lambda: bad.chat.completions.create(
            model=MODEL, messages=HELLO, stream=True))

    def test_an_unknown_model(self):
        for call in (lambda: chat(model="gpt-none"), lambda: chat(model="gpt-none", stream=True),
                     lambda: client().models.retrieve("gpt-none"),
                     lambda: client().responses.create(model="gpt-none", input="x")):
            self.assert_fails(openai.NotFoundError, "model_not_found", call, MODEL)

    def test_a_prompt_that_is_too_long(self):
        long = [{"role": "user", "content": TOO_LONG}]
        tokens = len(json.loads(served.raw("POST", "/tokenize", {"content": TOO_LONG})[2])["tokens"])
        for call in (lambda: chat(long), lambda: chat(long, stream=True),
                     lambda: client().responses.create(model=MODEL, input=TOO_LONG, stream=True),
                     lambda: client().completions.create(model=MODEL, prompt=TOO_LONG)):
            error = self.assert_fails(openai.BadRequestError, "context_length_exceeded", call,
                                      str(served.CONTEXT))
            counts = [int(word) for word in error.message.split() if word.isdigit()]
            self.assertTrue(any(tokens <= count < tokens + 64 for count in counts), error.message)

    def test_wrong_values_are_named(self):
        for options, param in (({"temperature": -1}, "temperature"), ({"top_logprobs": 99}, "top_logprobs"),
                               ({"messages": [{"role": "robot", "content": "x"}]}, "messages[0].role")):
            error = self.assert_fails(openai.BadRequestError, "invalid_value", lambda o=options: chat(**o))
            self.assertEqual(error.param, param)

    def test_what_is_not_done_is_said_at_once(self):
        began = time.monotonic()
        error = self.assert_fails(openai.InternalServerError, "not_supported",
                                  lambda: client(max_retries=2).embeddings.create(model=MODEL, input="x"))
        self.assertEqual(error.status_code, 501)
        self.assertLess(time.monotonic() - began, 0.4, "it isn't tried again")

    def test_a_full_queue_says_when_to_come_back(self):
        with served.full_queue() as leave:
            error = self.assert_fails(openai.RateLimitError, "queue_full", chat)
            wait = int(error.response.headers["retry-after"])
            self.assertGreater(wait, 0)
            timer = threading.Timer(1, leave)
            timer.start()
            began = time.monotonic()
            raw = client(max_retries=2).chat.completions.with_raw_response.create(
                model=MODEL, messages=HELLO, max_tokens=4)
            timer.join()
        self.assertEqual(raw.retries_taken, 1)
        self.assertGreaterEqual(time.monotonic() - began, wait)
        self.assertTrue(raw.parse().choices[0].message.content)


class Departures(unittest.TestCase):
    STORY = [{"role": "user", "content": "Tell me a very long story about a lighthouse."}]

    def test_a_stream_that_is_closed_ends_the_work(self):
        stream = chat(self.STORY, max_tokens=900, stream=True, logit_bias={}, extra_body={"ignore_eos": True})
        for _ in itertools.islice(stream, 4):
            pass
        before = served.link_bytes()
        time.sleep(served.QUIET_S)
        self.assertNotEqual(served.link_bytes(), before, "it works until then")
        stream.close()
        served.becomes_idle()

    def test_a_client_that_waits_no_longer_ends_the_work(self):
        with self.assertRaises(openai.APITimeoutError):
            client(timeout=0.5).chat.completions.create(
                model=MODEL, messages=self.STORY, max_tokens=900, extra_body={"ignore_eos": True})
        served.becomes_idle()

    def test_what_was_read_is_still_there(self):
        stream = chat(self.STORY, max_tokens=900, stream=True, extra_body={"ignore_eos": True})
        next(iter(stream))
        stream.close()
        served.becomes_idle()
        again = chat(self.STORY, max_tokens=2)
        self.assertGreaterEqual(again.usage.prompt_tokens_details.cached_tokens,
                                again.usage.prompt_tokens - 1)


if __name__ == "__main__":
    unittest.main()

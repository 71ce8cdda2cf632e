"""anthropic, for Python: messages, counting, models, errors; and what agents send along."""
import itertools
import threading
import time
import unittest

import anthropic
import pydantic
from anthropic.types import Message, RawMessageStreamEvent

import served
from served import HELLO, KEY, MODEL, TOO_LONG, URL

EVENT = pydantic.TypeAdapter(RawMessageStreamEvent)


def client(**options):
    return anthropic.Anthropic(**{"base_url": URL, "api_key": KEY, "max_retries": 0, "timeout": 60,
                                  **options})


def message(**options):
    """The client's own types know no temperature any more for newer models; the wire does."""
    extra = {"temperature": 0, **options.pop("extra_body", {})}
    return client().messages.create(**{"model": MODEL, "messages": HELLO, "max_tokens": 40, **options},
                                    extra_body=extra)


def strict(answer):
    return Message.model_validate(answer.to_dict(mode="json"))


class Messages(unittest.TestCase):
    def test_a_whole_answer(self):
        answer = message()
        strict(answer)
        self.assertTrue(answer.content[0].text)
        self.assertIn(answer.stop_reason, ("end_turn", "max_tokens"))
        self.assertGreater(answer.usage.output_tokens, 2)

    def test_a_stream_says_the_same(self):
        events = list(message(stream=True))
        for event in events:
            EVENT.validate_python(event.to_dict(mode="json"))
        kinds = [event.type for event in events]
        self.assertEqual(kinds[:2], ["message_start", "content_block_start"])
        self.assertEqual(kinds[-3:], ["content_block_stop", "message_delta", "message_stop"])
        text = "".join(event.delta.text for event in events if event.type == "content_block_delta")
        whole = message()
        self.assertEqual(text, whole.content[0].text)
        self.assertEqual(events[-2].delta.stop_reason, whole.stop_reason)
        self.assertEqual(events[-2].usage.output_tokens, whole.usage.output_tokens)

    def test_the_streaming_helper_puts_it_together(self):
        with client().messages.stream(model=MODEL, messages=HELLO, max_tokens=40,
                                      extra_body={"temperature": 0}) as stream:
            text = "".join(stream.text_stream)
            final = stream.get_final_message()
        self.assertEqual(final.content[0].text, text)
        self.assertEqual(final.usage.output_tokens, message().usage.output_tokens)

    def test_a_stop_text(self):
        whole = message().content[0].text
        word = whole.split()[3]
        answer = message(stop_sequences=[word])
        self.assertEqual(answer.content[0].text, whole[:whole.index(word)])
        self.assertEqual((answer.stop_reason, answer.stop_sequence), ("stop_sequence", word))
        self.assertEqual(message(max_tokens=2).stop_reason, "max_tokens")

    def test_what_clients_send_along_is_no_fault(self):
        answer = message(
            system=[{"type": "text", "text": "Answer in one word.", "cache_control": {"type": "ephemeral"}}],
            messages=[{"role": "user", "content": [
                {"type": "text", "text": "Capital of France?", "cache_control": {"type": "ephemeral"}}]}],
            metadata={"user_id": "ann"}, service_tier="auto", extra_body={"top_k": 3, "top_p": 0.9})
        self.assertTrue(answer.content[0].text)

    def test_the_beta_path_is_the_same(self):
        answer = client().beta.messages.create(model=MODEL, messages=HELLO, max_tokens=40,
                                               betas=["a-beta-2025-01-01"], extra_body={"temperature": 0})
        self.assertEqual(answer.content[0].text, message().content[0].text)

    def test_tokens_are_counted(self):
        def count(**options):
            return client().messages.count_tokens(model=MODEL, messages=HELLO, **options).input_tokens
        usage = message().usage
        self.assertEqual(count(), usage.input_tokens + usage.cache_read_input_tokens)
        self.assertGreater(count(system="You are very helpful. " * 20), count() + 60)

    def test_a_line_that_changes_with_every_request_costs_nothing(self):
        def ask(mark):
            return message(max_tokens=2, system=[
                {"type": "text", "text": f"x-anthropic-billing-header: cc_version=2.1.9; cch={mark};"},
                {"type": "text", "text": "You write tests. " * 20}]).usage
        ask("0a1b2")
        again = ask("9f8e7")
        self.assertGreater(again.cache_read_input_tokens, 60)
        self.assertLessEqual(again.input_tokens, 1, "only the last token is read again")


class Others(unittest.TestCase):
    def test_models(self):
        self.assertEqual([model.id for model in client().models.list()], [MODEL])
        self.assertEqual(client().models.retrieve(MODEL).display_name, MODEL)

    def test_errors(self):
        for kind, call, part in (
                (anthropic.AuthenticationError, lambda: client(api_key="sk-of-nobody").models.list(), "key"),
                (anthropic.NotFoundError, lambda: message(model="claude-none"), MODEL),
                (anthropic.BadRequestError, lambda: message(max_tokens="many"), "max_tokens"),
                (anthropic.BadRequestError, lambda: message(
                    messages=[{"role": "user", "content": TOO_LONG}], stream=True), "prompt is too long")):
            with self.assertRaises(kind) as raised:
                call()
            self.assertIn(part, raised.exception.message)
            self.assertTrue(raised.exception.request_id)
        self.assertIn(f"> {served.CONTEXT} maximum", raised.exception.message)

    def test_a_bearer_token_is_a_key_too(self):
        bearer = anthropic.Anthropic(base_url=URL, api_key=None, auth_token=KEY, max_retries=0)
        self.assertEqual(len(list(bearer.models.list())), 1)

    def test_a_full_queue_is_asked_again_later(self):
        with served.full_queue() as leave:
            with self.assertRaises(anthropic.RateLimitError) as raised:
                message()
            wait = int(raised.exception.response.headers["retry-after"])
            timer = threading.Timer(1, leave)
            timer.start()
            began = time.monotonic()
            raw = client(max_retries=2).messages.with_raw_response.create(
                model=MODEL, messages=HELLO, max_tokens=4)
            timer.join()
        self.assertEqual(raw.retries_taken, 1)
        self.assertGreaterEqual(time.monotonic() - began, wait)

    def test_a_stream_that_is_closed_ends_the_work(self):
        stream = message(messages=[{"role": "user", "content": "Tell me a very long story."}],
                         max_tokens=900, stream=True, extra_body={"ignore_eos": True})
        for _ in itertools.islice(stream, 5):
            pass
        self.assertTrue(served.is_working())
        stream.close()
        served.becomes_idle()


if __name__ == "__main__":
    unittest.main()

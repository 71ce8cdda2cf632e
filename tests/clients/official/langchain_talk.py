"""langchain-openai: what it makes of chat completions and of responses."""
import unittest

import openai
import pydantic
from langchain_core.messages import HumanMessage, SystemMessage
from langchain_openai import ChatOpenAI, OpenAI

from served import KEY, MODEL, QUESTION, TOO_LONG, URL


class Capital(pydantic.BaseModel):
    """A country's capital."""
    country: str
    capital: str


def model(**options):
    return ChatOpenAI(**{"base_url": f"{URL}/v1", "api_key": KEY, "model": MODEL, "temperature": 0,
                         "max_tokens": 40, "max_retries": 0, "timeout": 60, **options})


class Talk(unittest.TestCase):
    def test_invoke_and_stream(self):
        messages = [SystemMessage("Be brief."), HumanMessage(QUESTION)]
        whole = model().invoke(messages)
        self.assertTrue(whole.content)
        self.assertEqual(whole.response_metadata["model_name"], MODEL)
        self.assertEqual(whole.usage_metadata["total_tokens"],
                         whole.usage_metadata["input_tokens"] + whole.usage_metadata["output_tokens"])
        chunks = list(model(stream_usage=True).stream(messages))
        joined = sum(chunks[1:], chunks[0])
        self.assertEqual(joined.content, whole.content)
        self.assertEqual(joined.usage_metadata["output_tokens"], whole.usage_metadata["output_tokens"])
        self.assertEqual(joined.response_metadata["finish_reason"],
                         whole.response_metadata["finish_reason"])

    def test_several_at_once(self):
        answers = model().batch([QUESTION, "What is two and two?", QUESTION])
        self.assertEqual(answers[0].content, answers[2].content)
        self.assertNotEqual(answers[0].content, answers[1].content)

    def test_stop_and_logprobs(self):
        whole = model().invoke(QUESTION).content
        word = whole.split()[3]
        self.assertEqual(model(stop_sequences=[word]).invoke(QUESTION).content, whole[:whole.index(word)])
        logprobs = model(max_tokens=5).bind(logprobs=True, top_logprobs=2).invoke(QUESTION)
        self.assertEqual(len(logprobs.response_metadata["logprobs"]["content"]), 5)

    def test_a_schema(self):
        for method in ("json_schema", "json_mode"):
            structured = model(max_tokens=120).with_structured_output(Capital, method=method)
            found = structured.invoke('Tell me of France as JSON: {"country": ..., "capital": ...}')
            self.assertIsInstance(found, Capital)

    def test_the_responses_api(self):
        answer = model(use_responses_api=True, max_tokens=40).invoke(QUESTION)
        self.assertTrue(answer.text)
        chunks = model(use_responses_api=True, max_tokens=40).stream(QUESTION)
        self.assertEqual("".join(chunk.text for chunk in chunks), answer.text)

    def test_completions(self):
        old = OpenAI(base_url=f"{URL}/v1", api_key=KEY, model=MODEL, temperature=0, max_tokens=8,
                     max_retries=0)
        self.assertTrue(old.invoke("The capital of France is"))

    def test_errors_come_through(self):
        with self.assertRaises(openai.AuthenticationError):
            model(api_key="sk-of-nobody").invoke(QUESTION)
        with self.assertRaises(openai.NotFoundError):
            model(model="gpt-none").invoke(QUESTION)
        with self.assertRaises(openai.BadRequestError) as raised:
            model().invoke(TOO_LONG)
        self.assertEqual(raised.exception.code, "context_length_exceeded")


if __name__ == "__main__":
    unittest.main()

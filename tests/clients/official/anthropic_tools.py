"""anthropic, for Python: tools in messages."""
import json
import unittest

import anthropic
import pydantic
from anthropic.types import Message, RawMessageStreamEvent

from served import KEY, MODEL, URL
from weather import ASK, FOLLOW, SYSTEM, TIME, TIME_TEXT, WEATHER, WEATHER_TEXT, check_arguments

EVENT = pydantic.TypeAdapter(RawMessageStreamEvent)
TOOLS = [{"name": "get_weather", "description": WEATHER_TEXT, "input_schema": WEATHER},
         {"name": "get_time", "description": TIME_TEXT, "input_schema": TIME}]
MESSAGES = [{"role": "user", "content": ASK}]


def client():
    return anthropic.Anthropic(base_url=URL, api_key=KEY, max_retries=0, timeout=120)


def options_of(**options):
    return {"model": MODEL, "system": SYSTEM, "messages": MESSAGES, "max_tokens": 96, "tools": TOOLS,
            "tool_choice": {"type": "any"}, "extra_body": {"temperature": 0}, **options}


def message(**options):
    answer = client().messages.create(**options_of(**options))
    if not options.get("stream"):
        Message.model_validate(answer.to_dict(mode="json"))
    return answer


def uses(answer):
    return [block for block in answer.content if block.type == "tool_use"]


class Tools(unittest.TestCase):
    def test_the_model_may_call(self):
        answer = message(tool_choice={"type": "auto"})
        self.assertEqual(answer.stop_reason, "tool_use")
        self.assertIn("Paris", check_arguments(self, "get_weather", uses(answer)[0].input)["city"])

    def test_a_result_is_answered(self):
        first = message()
        self.assertEqual(first.stop_reason, "tool_use")
        results = [{"type": "tool_result", "tool_use_id": block.id,
                    "content": [{"type": "text", "text": "sunny, 21 degrees"}]} for block in uses(first)]
        answer = message(tool_choice={"type": "none"}, messages=[
            *MESSAGES, {"role": "assistant",
                        "content": [block.to_dict(mode="json") for block in first.content]},
            {"role": "user", "content": [*results, {"type": "text", "text": FOLLOW}]}])
        self.assertRegex(answer.content[0].text, "(?i)sun|21")

    def test_a_stream_of_calls(self):
        events = list(message(stream=True))
        for event in events:
            EVENT.validate_python(event.to_dict(mode="json"))
        inputs = {}
        for event in events:
            if event.type == "content_block_start" and event.content_block.type == "tool_use":
                inputs[event.index] = ""
            if event.type == "content_block_delta" and event.delta.type == "input_json_delta":
                inputs[event.index] += event.delta.partial_json
        self.assertEqual([json.loads(text) for text in inputs.values()],
                         [block.input for block in uses(message())])
        with client().messages.stream(**options_of()) as stream:
            final = stream.get_final_message()
        self.assertEqual([block.input for block in uses(final)],
                         [json.loads(text) for text in inputs.values()])
        self.assertEqual(final.stop_reason, "tool_use")

    def test_this_one_and_one_at_a_time(self):
        answer = message(tool_choice={"type": "tool", "name": "get_time", "disable_parallel_tool_use": True})
        self.assertEqual([block.name for block in uses(answer)], ["get_time"])

    def test_tools_count_as_tokens(self):
        def count(**more):
            return client().messages.count_tokens(model=MODEL, messages=MESSAGES, **more).input_tokens
        self.assertGreater(count(tools=TOOLS), count() + 50)


if __name__ == "__main__":
    unittest.main()

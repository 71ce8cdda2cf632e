"""openai, for Python: tools in chat completions and in responses."""
import json
import unittest

import openai
import pydantic
from openai.types.chat import ChatCompletion, ChatCompletionChunk
from openai.types.responses import Response, ResponseStreamEvent

from served import KEY, MODEL, URL
from weather import ASK, FOLLOW, SYSTEM, TIME, TIME_TEXT, WEATHER, WEATHER_TEXT, check_arguments

EVENT = pydantic.TypeAdapter(ResponseStreamEvent)
MESSAGES = [{"role": "system", "content": SYSTEM}, {"role": "user", "content": ASK}]
FUNCTIONS = [("get_weather", WEATHER_TEXT, WEATHER), ("get_time", TIME_TEXT, TIME)]
TOOLS = [{"type": "function", "function": {"name": name, "description": text, "parameters": schema}}
         for name, text, schema in FUNCTIONS]


def client():
    return openai.OpenAI(base_url=f"{URL}/v1", api_key=KEY, max_retries=0, timeout=120)


def chat(messages=None, **options):
    answer = client().chat.completions.create(
        **{"model": MODEL, "messages": messages or MESSAGES, "temperature": 0, "max_tokens": 96,
           "tools": TOOLS, **options})
    if not options.get("stream"):
        ChatCompletion.model_validate(answer.to_dict(mode="json"))
    return answer


def put_together(chunks):
    """Calls by index, as a client must read them: id and name once, then pieces of arguments."""
    calls, reason = {}, None
    for chunk in chunks:
        ChatCompletionChunk.model_validate(chunk.to_dict(mode="json"))
        for choice in chunk.choices:
            reason = choice.finish_reason or reason
            for piece in choice.delta.tool_calls or []:
                call = calls.setdefault(piece.index, {"id": "", "name": "", "arguments": ""})
                call["id"] += piece.id or ""
                call["name"] += piece.function.name or ""
                call["arguments"] += piece.function.arguments or ""
    return [calls[index] for index in sorted(calls)], reason


class Tools(unittest.TestCase):
    def test_the_model_may_call(self):
        answer = chat().choices[0]
        self.assertEqual(answer.finish_reason, "tool_calls")
        call = answer.message.tool_calls[0]
        self.assertEqual((call.type, call.function.name), ("function", "get_weather"))
        self.assertIn("Paris", check_arguments(self, call.function.name, call.function.arguments)["city"])
        self.assertTrue(call.id)

    def test_a_stream_of_calls(self):
        for choice in ("auto", "required"):
            whole = chat(tool_choice=choice).choices[0]
            calls, reason = put_together(chat(tool_choice=choice, stream=True))
            self.assertEqual(reason, whole.finish_reason)
            self.assertEqual([(call["name"], call["arguments"]) for call in calls],
                             [(call.function.name, call.function.arguments)
                              for call in whole.message.tool_calls or []])

    def test_it_must_call(self):
        hello = [{"role": "user", "content": "Hello!"}]
        answer = chat(hello, tool_choice="required").choices[0]
        self.assertEqual(answer.finish_reason, "tool_calls")
        for call in answer.message.tool_calls:
            check_arguments(self, call.function.name, call.function.arguments)

    def test_it_must_call_this_one(self):
        answer = chat(tool_choice={"type": "function", "function": {"name": "get_time"}}).choices[0]
        self.assertEqual({call.function.name for call in answer.message.tool_calls}, {"get_time"})

    def test_it_must_not_call(self):
        answer = chat(tool_choice="none").choices[0]
        self.assertFalse(answer.message.tool_calls)
        self.assertTrue(answer.message.content)

    def test_one_at_a_time(self):
        both = [{"role": "user", "content": "Call get_weather for Paris and get_weather for Rome."}]
        one = chat(both, tool_choice="required", parallel_tool_calls=False).choices[0]
        self.assertEqual(len(one.message.tool_calls), 1)
        many = chat(both, tool_choice="required", parallel_tool_calls=True).choices[0]
        self.assertGreaterEqual(len(many.message.tool_calls), 1)
        self.assertEqual(len({call.id for call in many.message.tool_calls}), len(many.message.tool_calls))

    def test_the_result_is_answered(self):
        first = chat(tool_choice="required").choices[0].message
        results = [{"role": "tool", "tool_call_id": call.id,
                    "content": json.dumps({"sky": "sunny", "celsius": 21})} for call in first.tool_calls]
        follow = {"role": "user", "content": FOLLOW}
        answer = chat([*MESSAGES, first.to_dict(mode="json"), *results, follow],
                      tool_choice="none").choices[0]
        self.assertRegex(answer.message.content, "(?i)sun|21")
        auto = chat([*MESSAGES, first.to_dict(mode="json"), *results]).choices[0]
        self.assertIn(auto.finish_reason, ("stop", "tool_calls", "length"))

    def test_a_schema_that_asks_for_much(self):
        nested = {"type": "object", "required": ["rows"], "properties": {"rows": {
            "type": "array", "minItems": 1, "maxItems": 2, "items": {"$ref": "#/$defs/row"}}},
            "$defs": {"row": {"type": "object", "required": ["n"], "properties": {"n": {"type": "integer"}}}}}
        tool = {"type": "function", "function": {"name": "store", "parameters": nested}}
        answer = chat(tools=[tool], tool_choice="required").choices[0]
        rows = json.loads(answer.message.tool_calls[0].function.arguments)["rows"]
        self.assertTrue(all(isinstance(row["n"], int) for row in rows))

    def test_wrong_tools_are_named(self):
        for tools, param in (([{"type": "function", "function": {}}], "tools[0].function.name"),
                             ([{"type": "function", "function": {"name": "f", "parameters": {
                                 "type": "object", "properties": {"a": {"type": "nonsense"}}}}}],
                              "tools[0].function.parameters")):
            with self.assertRaises(openai.BadRequestError) as raised:
                chat(tools=tools, tool_choice="required")
            self.assertTrue(raised.exception.param.startswith(param), raised.exception.param)


class Responses(unittest.TestCase):
    TOOLS = [{"type": "function", "name": name, "description": text, "parameters": schema, "strict": False}
             for name, text, schema in FUNCTIONS] + [{"type": "web_search"}]

    def create(self, **options):
        return client().responses.create(**{
            "model": MODEL, "instructions": SYSTEM, "input": ASK, "temperature": 0, "max_output_tokens": 96,
            "tools": self.TOOLS, "tool_choice": "required", **options})

    def test_a_call_and_its_result(self):
        answer = self.create()
        Response.model_validate(answer.to_dict(mode="json"))
        calls = [item for item in answer.output if item.type == "function_call"]
        self.assertTrue(calls)
        for call in calls:
            check_arguments(self, call.name, call.arguments)
        after = self.create(tool_choice="none", input=[
            {"role": "user", "content": ASK}, *[item.to_dict(mode="json") for item in answer.output],
            *[{"type": "function_call_output", "call_id": call.call_id, "output": "sunny, 21 degrees"}
              for call in calls], {"role": "user", "content": FOLLOW}])
        self.assertRegex(after.output_text, "(?i)sun|21")

    def test_a_stream_of_calls(self):
        events = list(self.create(stream=True))
        for event in events:
            EVENT.validate_python(event.to_dict(mode="json"))
        arguments = "".join(event.delta for event in events
                            if event.type == "response.function_call_arguments.delta")
        calls = [item for item in events[-1].response.output if item.type == "function_call"]
        self.assertEqual(arguments, "".join(call.arguments for call in calls))
        self.assertEqual([call.name for call in calls],
                         [item.name for item in self.create().output if item.type == "function_call"])

    def test_a_tool_of_free_text(self):
        patch = {"type": "custom", "name": "apply_patch", "description": "Give a patch as text."}
        answer = self.create(tools=[patch], input="Call apply_patch with the text: hello")
        item = next(item for item in answer.output if item.type == "custom_tool_call")
        self.assertEqual(item.name, "apply_patch")
        self.assertTrue(item.input)


if __name__ == "__main__":
    unittest.main()

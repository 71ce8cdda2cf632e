"""langchain-openai: tools that are bound, called and answered."""
import unittest

import pydantic
from langchain_core.messages import HumanMessage, ToolMessage
from langchain_core.tools import tool
from langchain_openai import ChatOpenAI

from served import KEY, MODEL, URL
from weather import ASK, FOLLOW


@tool
def get_weather(city: str) -> str:
    """The weather in a city at this moment."""
    return f"It is sunny in {city}, 21 degrees."


class Capital(pydantic.BaseModel):
    """A country and its capital."""
    country: str
    capital: str


def model(**options):
    return ChatOpenAI(base_url=f"{URL}/v1", api_key=KEY, model=MODEL, temperature=0, max_tokens=96,
                      max_retries=0, timeout=120, **options)


class Tools(unittest.TestCase):
    def test_a_turn_with_a_tool(self):
        messages = [HumanMessage(ASK)]
        calls = model().bind_tools([get_weather], tool_choice="any").invoke(messages)
        self.assertEqual([call["name"] for call in calls.tool_calls], ["get_weather"])
        messages += [calls, *[get_weather.invoke(call) for call in calls.tool_calls]]
        self.assertIsInstance(messages[-1], ToolMessage)
        messages.append(HumanMessage(FOLLOW))
        self.assertRegex(model().invoke(messages).content, "(?i)sun|21")

    def test_a_stream_of_calls(self):
        bound = model().bind_tools([get_weather], tool_choice="get_weather")
        chunks = list(bound.stream(ASK))
        joined = sum(chunks[1:], chunks[0])
        self.assertEqual([call["args"] for call in joined.tool_calls],
                         [call["args"] for call in bound.invoke(ASK).tool_calls])

    def test_a_schema_by_way_of_a_function(self):
        structured = model().with_structured_output(Capital, method="function_calling")
        self.assertIsInstance(structured.invoke("France and Paris."), Capital)


if __name__ == "__main__":
    unittest.main()

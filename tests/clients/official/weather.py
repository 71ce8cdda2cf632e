"""The tools of these tests, and how their calls are judged: a small model calls, but not always wisely."""
import json

SYSTEM = "You are a helpful assistant that calls tools."
FOLLOW = "Thank you. Say in one short sentence what the weather is."
ASK = "What is the weather in Paris right now? Use the tool."
WEATHER = {"type": "object", "properties": {"city": {"type": "string"},
                                            "unit": {"type": "string", "enum": ["celsius", "fahrenheit"]}},
           "required": ["city"]}
TIME = {"type": "object", "properties": {"zone": {"type": "string"}}, "required": ["zone"]}
WEATHER_TEXT = "The weather in a city at this moment."
TIME_TEXT = "The time in a time zone."


def check_arguments(test, name, arguments):
    """They are JSON that follows the tool's schema."""
    given = json.loads(arguments) if isinstance(arguments, str) else arguments
    schema = {"get_weather": WEATHER, "get_time": TIME}[name]
    test.assertLessEqual(set(schema["required"]), set(given))
    test.assertLessEqual(set(given), set(schema["properties"]))
    test.assertIn(given.get("unit", "celsius"), ("celsius", "fahrenheit"))
    return given

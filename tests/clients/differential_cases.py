"""The requests of the differential run: the same bytes go to salvage and to llama-server.

A Case is one request of one dialect; whoever streams is asked twice, whole and as a stream.
"""
import dataclasses

DIALECTS = {  # name: (path, may stream)
    "chat": ("/v1/chat/completions", True),
    "completions": ("/v1/completions", True),
    "completion": ("/completion", True),
    "messages": ("/v1/messages", True),
    "responses": ("/v1/responses", True),
    "count": ("/v1/messages/count_tokens", False),
    "chat_tokens": ("/v1/chat/completions/input_tokens", False),
    "responses_tokens": ("/v1/responses/input_tokens", False),
    "tokenize": ("/tokenize", False),
    "detokenize": ("/detokenize", False),
    "template": ("/apply-template", False),
}


@dataclasses.dataclass
class Case:
    dialect: str
    name: str
    body: dict

    @property
    def path(self):
        return DIALECTS[self.dialect][0]

    @property
    def streams(self):
        return DIALECTS[self.dialect][1]


def user(text):
    return {"role": "user", "content": text}


def chat(name, messages="What is the capital of France?", **options):
    messages = [user(messages)] if isinstance(messages, str) else messages
    return Case("chat", name, {"messages": messages, "temperature": 0, "max_tokens": 32, **options})


def completions(name, prompt="The capital of France is", **options):
    return Case("completions", name, {"prompt": prompt, "temperature": 0, "max_tokens": 24, **options})


def completion(name, prompt="The capital of France is", **options):
    return Case("completion", name, {"prompt": prompt, "temperature": 0, "n_predict": 24, **options})


def messages(name, content="What is the capital of France?", **options):
    content = [user(content)] if isinstance(content, str) else content
    return Case("messages", name, {"messages": content, "temperature": 0, "max_tokens": 32, **options})


def responses(name, given="What is the capital of France?", **options):
    return Case("responses", name, {"input": given, "temperature": 0, "max_output_tokens": 32, **options})


TURNS = [{"role": "system", "content": "You answer in few words."}, user("What is the capital of France?"),
         {"role": "assistant", "content": "Paris."}, user("And of Spain?")]
CHINESE = "用一句话解释天空为什么是蓝色的"
EMOJI = "Repeat: 👩‍🚀🚀 héllo 🇫🇷"
LONG = "The lighthouse keeper counted the ships that went by. " * 50
SCHEMA = {"type": "object", "required": ["country", "capital"], "additionalProperties": False,
          "properties": {"country": {"type": "string"}, "capital": {"type": "string", "maxLength": 20}}}
NESTED = {"type": "object", "required": ["rows"], "properties": {"rows": {
    "type": "array", "minItems": 1, "maxItems": 2, "items": {"$ref": "#/$defs/row"}}},
    "$defs": {"row": {"type": "object", "required": ["n", "ok"],
                      "properties": {"n": {"type": "integer"}, "ok": {"type": "boolean"}}}}}
GRAMMAR = 'root ::= "I say " ("yes" | "no") " " [0-9]{2,4} "."'

CHAT = [
    chat("plain"),
    chat("to its end", max_tokens=200),
    chat("turns", TURNS),
    chat("chinese", CHINESE),
    chat("emoji", EMOJI),
    chat("developer", [{"role": "developer", "content": "Answer in one word."}, user("Capital of Italy?")]),
    chat("parts", [user([{"type": "text", "text": "Two and two"}, {"type": "text", "text": "is what?"}])]),
    chat("one part", [user([{"type": "text", "text": "What is two and two?"}])]),
    chat("a stop text", stop="Paris"),
    chat("stop texts", stop=["nowhere", "is", "Paris"]),
    chat("a stop text that spans tokens", stop=" of France", max_tokens=60),
    chat("one token", max_tokens=1),
    chat("newer limit", max_tokens=None, max_completion_tokens=5),
    chat("schema", response_format={"type": "json_schema", "json_schema": {
        "name": "capital", "strict": True, "schema": SCHEMA}}, max_tokens=80),
    chat("flat schema", response_format={"type": "json_object", "schema": SCHEMA}, max_tokens=80),
    chat("nested schema", "Give me rows of numbers.", json_schema=NESTED, max_tokens=100),
    chat("any json", "Write a short JSON object.", response_format={"type": "json_object"}, max_tokens=60),
    chat("grammar", "Do you like tea?", grammar=GRAMMAR),
    chat("logprobs", logprobs=True, top_logprobs=5, max_tokens=10),
    chat("logprobs without others", logprobs=True, max_tokens=6),
    chat("a forbidden token", logit_bias={"504": -100, "378": -100}),
    chat("forbidden texts", logit_bias=[[" Paris", False], ["The", -50]]),
    chat("penalties", "Say ha ha ha ha ha.", repeat_penalty=1.3, frequency_penalty=0.5, presence_penalty=0.4),
    chat("dry", "Say ha ha ha ha ha.", dry_multiplier=0.8, dry_base=1.75, dry_allowed_length=2),
    chat("samplers that leave one", top_k=1, top_p=0.5, min_p=0.2, typical_p=0.9),
    chat("an order of samplers", samplers=["top_k", "min_p", "temperature"], top_k=5),
    chat("never ends", "Say hello.", ignore_eos=True, max_tokens=60),
    chat("begun", [user("What is the capital of France?"),
                   {"role": "assistant", "content": "Well, the capital of"}]),
    chat("begun, said so", [user("What is the capital of France?"),
                            {"role": "assistant", "content": "Well, the capital of"}],
         continue_final_message=True, add_generation_prompt=False),
    chat("systems", [{"role": "system", "content": "Be brief."}, {"role": "system", "content": "Be kind."},
                     user("Hello!")]),
    chat("nothing said", [user("")]),
    chat("a long one", LONG + "What did he count?"),
    chat("too long", LONG * 4),
    chat("two answers", n=2),
    chat("arguments of the template", chat_template_kwargs={"nothing": 1}),
    chat("drawn", temperature=0.8, seed=42),
    chat("drawn hot", temperature=1.5, seed=7, top_k=0, top_p=1, min_p=0),
    chat("mirostat", temperature=0.8, seed=42, mirostat=2),
    chat("control tokens as text", [user("Say <|im_end|> and <|im_start|>system")]),
]
COMPLETIONS = [
    completions("plain"),
    completions("chinese", "天空是蓝色的，因为"),
    completions("emoji", "🚀 means"),
    completions("tokens", [504, 3575, 282, 4649, 314]),
    completions("several", ["The sea is", "The sky is"]),
    completions("mixed", ["The sea", 314]),
    completions("a stop text", stop=[".", "\n"]),
    completions("two answers", n=2),
    completions("schema", "JSON:", json_schema=SCHEMA, max_tokens=60),
    completions("grammar", "Do you? ", grammar=GRAMMAR),
    completions("logprobs", logprobs=3, max_tokens=6),
    completions("nothing", ""),
]
COMPLETION = [
    completion("plain"),
    completion("of the guide", CHINESE, temperature=0.0, n_predict=64),
    completion("tokens that are returned", return_tokens=True),
    completion("probabilities", n_probs=3, n_predict=6),
    completion("probabilities after sampling", n_probs=3, post_sampling_probs=True, n_predict=6),
    completion("a stop text", stop=["."]),
    completion("some fields", response_fields=["content", "stop_type"]),
    completion("short form of samplers", samplers="kpmt"),
    completion("a prompt in an object", {"prompt_string": "The capital of Italy is"}),
    completion("several", ["The sea is", "The sky is"]),
    completion("control tokens", "<|im_start|>user\nHello<|im_end|>\n<|im_start|>assistant\n", n_predict=40),
    completion("drawn", temperature=0.9, seed=11),
    completion("to the end of the context", LONG, n_predict=-1, ignore_eos=True, dry_multiplier=0.8),
    completion("too long", LONG * 4),
]
MESSAGES = [
    messages("plain"),
    messages("system", system="You answer in one word."),
    messages("blocks", [user([{"type": "text", "text": "Two and two", "cache_control": {"type": "ephemeral"}},
                              {"type": "text", "text": " is what?"}])],
             system=[{"type": "text", "text": "Be brief.", "cache_control": {"type": "ephemeral"}}]),
    messages("a stop text", stop_sequences=["Paris"]),
    messages("one token", max_tokens=1),
    messages("turns", TURNS[1:]),
    messages("too long", LONG * 4),
    Case("count", "plain", {"messages": TURNS[1:]}),
    Case("count", "system", {"messages": [user(CHINESE)], "system": "Be brief."}),
]
RESPONSES = [
    responses("plain"),
    responses("instructions", instructions="You answer in one word."),
    responses("items", [{"role": "user", "content": [{"type": "input_text", "text": "Two and two is what?"}]},
                        {"type": "message", "role": "assistant", "content": [
                            {"type": "output_text", "text": "Four.", "annotations": []}]},
                        {"role": "user", "content": "And three and three?"}]),
    responses("to its end", max_output_tokens=200),
    responses("schema", text={"format": {"type": "json_schema", "name": "c", "schema": SCHEMA}},
              max_output_tokens=80),
    Case("responses_tokens", "plain", {"input": "What is the capital of France?"}),
    Case("chat_tokens", "plain", {"messages": TURNS}),
]
TEXT = [
    Case("tokenize", "plain", {"content": "Hello world, how  are you?\n\n\tFine."}),
    Case("tokenize", "chinese", {"content": CHINESE + EMOJI, "with_pieces": True}),
    Case("tokenize", "with what belongs in front", {"content": "Hello", "add_special": True}),
    Case("tokenize", "control tokens", {"content": "<|im_start|>user"}),
    Case("tokenize", "control tokens as text", {"content": "<|im_start|>user", "parse_special": False}),
    Case("tokenize", "nothing", {"content": ""}),
    Case("detokenize", "plain", {"tokens": [19556, 905, 28, 638, 359, 346, 47]}),
    Case("detokenize", "half a character", {"tokens": [236]}),
    Case("detokenize", "control tokens", {"tokens": [1, 4093, 2]}),
    Case("template", "turns", {"messages": TURNS}),
    Case("template", "chinese", {"messages": [user(CHINESE)]}),
    Case("template", "begun", {"messages": [user("Hi"), {"role": "assistant", "content": "Well"}]}),
    Case("template", "not begun", {"messages": [user("Hi")], "add_generation_prompt": False}),
]
TALK = CHAT + COMPLETIONS + COMPLETION + MESSAGES + RESPONSES + TEXT

WEATHER = {"type": "object", "properties": {"city": {"type": "string"},
                                            "unit": {"type": "string", "enum": ["celsius", "fahrenheit"]}},
           "required": ["city"]}
FUNCTIONS = [{"name": "get_weather", "description": "The weather in a city at this moment.",
              "parameters": WEATHER},
             {"name": "get_time", "description": "The time in a time zone.",
              "parameters": {"type": "object", "properties": {"zone": {"type": "string"}},
                             "required": ["zone"]}}]
TOOLS = [{"type": "function", "function": function} for function in FUNCTIONS]
ASK = "What is the weather in Paris right now? Use the tool."
BOTH = "Call get_weather for Paris and get_time for CET."
CALLED = [user(ASK), {"role": "assistant", "content": None, "tool_calls": [
    {"id": "call_1", "type": "function",
     "function": {"name": "get_weather", "arguments": "{\"city\": \"Paris\"}"}}]},
          {"role": "tool", "tool_call_id": "call_1", "content": "sunny, 21 degrees"}]


def tools(name, given=ASK, **options):
    return chat(name, given, **{"tools": TOOLS, "max_tokens": 80, **options})


CALLS = [
    tools("auto"),
    tools("auto, nothing to call", "Say hello."),
    tools("required", tool_choice="required"),
    tools("required, nothing to call", "Say hello.", tool_choice="required"),
    tools("none", tool_choice="none"),
    tools("one at a time", BOTH, tool_choice="required", parallel_tool_calls=False),
    tools("several", BOTH, tool_choice="required", parallel_tool_calls=True, max_tokens=120),
    tools("a result", CALLED),
    tools("a system", [{"role": "system", "content": "You call tools."}, user(ASK)]),
    tools("a nested schema", "Store the rows 1 and 2.", tool_choice="required", max_tokens=120,
          tools=[{"type": "function", "function": {"name": "store", "parameters": NESTED}}]),
    messages("tool", ASK, max_tokens=80, tool_choice={"type": "any"}, tools=[
        {"name": function["name"], "description": function["description"],
         "input_schema": function["parameters"]} for function in FUNCTIONS]),
    messages("tool result", [
        user(ASK), {"role": "assistant", "content": [
            {"type": "tool_use", "id": "toolu_1", "name": "get_weather", "input": {"city": "Paris"}}]},
        user([{"type": "tool_result", "tool_use_id": "toolu_1", "content": "sunny, 21 degrees"}])]),
    responses("tool", ASK, max_output_tokens=80, tool_choice="required", tools=[
        {"type": "function", "strict": False, **function} for function in FUNCTIONS]),
    Case("template", "tools", {"messages": CALLED, "tools": TOOLS}),
    Case("chat_tokens", "tools", {"messages": [user(ASK)], "tools": TOOLS}),
    chat("chinese", CHINESE),
    chat("chinese turns", [user("你好"), {"role": "assistant", "content": "你好！"},
                           user("写一句关于海的话。")]),
]

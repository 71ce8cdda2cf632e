"""What agents send besides what the clients of others do, byte for byte: Claude Code's and Codex's ways
of asking, without their programs.
"""
import json
import unittest

import served
from served import KEY, MODEL, raw


class ClaudeCode(unittest.TestCase):
    HEADERS = {"Authorization": "", "x-api-key": KEY, "anthropic-version": "2023-06-01",
               "anthropic-beta": "claude-code-20250219,interleaved-thinking-2025-05-14",
               "x-app": "cli", "User-Agent": "claude-cli/2.1.180 (external, cli)",
               "X-Claude-Code-Session-Id": "b7c0"}

    def body(self, **options):
        return {"model": MODEL, "max_tokens": 40, "temperature": 0, "stream": True,
                "system": [
                    {"type": "text", "text": "x-anthropic-billing-header: cc_version=2.1.180; cch=00a1f;"},
                    {"type": "text", "text": "You are an agent.", "cache_control": {"type": "ephemeral"}}],
                "messages": [{"role": "user", "content": [
                    {"type": "text", "text": "<system-reminder>Be brief.</system-reminder>"},
                    {"type": "text", "text": "Say hello.", "cache_control": {"type": "ephemeral"}}]}],
                "metadata": {"user_id": "user_1_account__session_2"},
                "thinking": {"type": "adaptive"}, "context_management": {"edits": []}, **options}

    def test_it_looks_whether_anybody_is_there(self):
        status, _, body = raw("HEAD", "/", headers=self.HEADERS)
        self.assertLess(status, 600)
        self.assertEqual(body, "")

    def test_it_asks_for_models(self):
        status, _, body = raw("GET", "/v1/models?limit=1000", headers=self.HEADERS)
        self.assertEqual(status, 200)
        models = json.loads(body)
        self.assertEqual((models["data"][0]["type"], models["data"][0]["id"]), ("model", MODEL))
        self.assertEqual((models["has_more"], models["first_id"]), (False, MODEL))

    def test_it_asks(self):
        status, headers, body = raw("POST", "/v1/messages?beta=true", self.body(), self.HEADERS)
        self.assertEqual((status, headers["Content-Type"].split(";")[0]), (200, "text/event-stream"))
        self.assertEqual(headers["X-Accel-Buffering"], "no")
        names = [name for name, _ in served.events(body)]
        self.assertEqual((names[0], names[-1]), ("message_start", "message_stop"))
        for name, data in served.events(body):
            self.assertEqual(name, data["type"])
        self.assertNotIn("[DONE]", body)

    def test_it_counts(self):
        body = self.body()
        del body["stream"], body["max_tokens"]
        status, _, counted = raw("POST", "/v1/messages/count_tokens?beta=true", body, self.HEADERS)
        self.assertEqual(status, 200)
        tokens = json.loads(counted)["input_tokens"]
        body["system"][0]["text"] = "x-anthropic-billing-header: cc_version=2.1.181.a9c; cch=ffffffff;"
        _, _, again = raw("POST", "/v1/messages/count_tokens?beta=true", body, self.HEADERS)
        self.assertEqual(json.loads(again)["input_tokens"], tokens, "the line isn't part of the prompt")

    def test_its_errors_are_anthropics(self):
        status, _, body = raw("POST", "/v1/messages?beta=true", self.body(model="claude-none"), self.HEADERS)
        error = json.loads(body)
        self.assertEqual((status, error["type"], error["error"]["type"]), (404, "error", "not_found_error"))
        self.assertTrue(error["request_id"])


class Codex(unittest.TestCase):
    def body(self, **options):
        return {"model": MODEL, "instructions": "You are a coding agent.", "stream": True, "store": False,
                "input": [{"type": "message", "role": "developer",
                           "content": [{"type": "input_text", "text": "<permissions>none</permissions>"}]},
                          {"type": "message", "role": "user",
                           "content": [{"type": "input_text", "text": "Say hello."}]}],
                "tools": [{"type": "web_search"}, {"type": "local_shell"},
                          {"type": "image_generation", "output_format": "png"},
                          {"type": "namespace", "name": "mcp__x", "tools": []}],
                "tool_choice": "auto", "parallel_tool_calls": False,
                "reasoning": {"effort": "low", "summary": "auto"},
                "include": ["reasoning.encrypted_content"], "prompt_cache_key": "k",
                "text": {"verbosity": "low"}, "temperature": 0, "max_output_tokens": 40,
                "client_metadata": {"x": "y"}, **options}

    def test_it_asks(self):
        status, headers, body = raw("POST", "/v1/responses", self.body(),
                                    {"originator": "codex_cli_rs", "session_id": "s",
                                     "OpenAI-Beta": "responses=experimental"})
        self.assertEqual(status, 200, body)
        self.assertTrue(headers["Content-Type"].startswith("text/event-stream"))
        names = [name for name, _ in served.events(body)]
        self.assertEqual(names[0], "response.created")
        self.assertIn(names[-1], ("response.completed", "response.incomplete"))
        last = served.events(body)[-1][1]["response"]
        self.assertGreater(last["usage"]["output_tokens"], 0)

    def test_it_says_what_it_had(self):
        first = served.events(raw("POST", "/v1/responses", self.body())[2])[-1][1]["response"]
        body = self.body()
        body["input"] += [{"type": "reasoning", "summary": [], "encrypted_content": "gAAAA"},
                          *first["output"],
                          {"type": "function_call", "call_id": "c", "name": "shell", "arguments": "{}"},
                          {"type": "function_call_output", "call_id": "c", "output": "ok"}]
        status, _, answer = raw("POST", "/v1/responses", body)
        self.assertEqual(status, 200, answer)

    def test_its_errors_come_before_the_stream(self):
        status, headers, body = raw("POST", "/v1/responses", self.body(model="gpt-none"))
        self.assertEqual(status, 404)
        self.assertEqual(headers["Content-Type"].split(";")[0], "application/json")
        self.assertEqual(json.loads(body)["error"]["code"], "model_not_found")


class Paths(unittest.TestCase):
    def test_bases_that_people_type(self):
        body = {"messages": served.HELLO, "max_tokens": 1}
        for path in ("/v1/chat/completions", "/chat/completions", "/v1/v1/chat/completions",
                     "//v1/chat/completions/", "/v1/chat/completions?api-version=1"):
            self.assertEqual(raw("POST", path, body)[0], 200, path)
        status, _, answer = raw("POST", "/v1/chat/completion", body)
        self.assertEqual(status, 404)
        self.assertIn("/v1/chat/completions", json.loads(answer)["error"]["hint"])

    def test_a_key_in_any_of_its_places(self):
        for headers in ({"Authorization": f"bearer {KEY}"}, {"Authorization": "", "x-api-key": KEY},
                        {"Authorization": "", "api-key": KEY}):
            self.assertEqual(raw("GET", "/v1/models", headers=headers)[0], 200, headers)
        self.assertEqual(raw("GET", "/v1/models", headers={"Authorization": ""})[0], 401)
        self.assertEqual(raw("GET", "/health", headers={"Authorization": ""})[0], 200)


if __name__ == "__main__":
    unittest.main()

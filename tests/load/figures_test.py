#!/usr/bin/env python3
"""What is shown of requests is what was asked: /metrics, /v1/requests, `salvage top` and `ps` of a
cluster of three stages, and `salvage run`, `salvage cancel` on it.

    tests/load/figures_test.py

Environment: SALVAGE_BINARY (the program), SALVAGE_MODEL_SMOLLM2 (a real model's file).

Method: a few requests of known size, then every figure against their own `usage`. Loaded with --exact,
so that an answer has the same bits however its prompt came into the caches.
"""
import asyncio
import json
import re
import signal
import subprocess
import sys

from client import Connection, ask, long_prompt
from prometheus import Metrics
from served import BINARY, STAGES, VOCABULARY, Served, own_network, stopwatch

from processes import wait_until
from scenarios import check, equal, main, scenario

CHUNK = 24  # rows of a micro-batch: many fit into a prompt, and nobody would choose it unasked
LONG = 640  # tokens of a prompt, about
SETTLE_S = 30
REPORT_S = 2.5  # at most so old is what a machine says of its stages (agent/node_agent.cc)
TASTE = {"temperature": 0, "ignore_eos": True}
LINKS = [("coordinator", "0"), ("0", "1"), ("1", "2"), ("2", "coordinator")]


class Asked:
    """Sums over the answers, as their clients were told."""

    def __init__(self):
        self.done = self.prompt = self.cached = self.answer = 0

    def add(self, usage):
        self.done += 1
        self.prompt += usage["prompt_tokens"]
        self.cached += usage["prompt_tokens_details"]["cached_tokens"]
        self.answer += usage["completion_tokens"]


async def metrics(served):
    answer = await ask(served.address, "GET", "/metrics")
    equal(answer.status, 200, "metrics")
    check(answer.headers["content-type"].startswith("text/plain; version=0.0.4"), answer.headers)
    return Metrics(answer.body.decode())


async def requests(served):
    return (await ask(served.address, "GET", "/v1/requests")).json()["data"]


async def until(condition, what, seconds=SETTLE_S):
    """The first true value of condition(), which is awaited; the event loop goes on meanwhile."""
    async with asyncio.timeout(seconds):
        while True:
            value = await condition()
            if value:
                return value
            await asyncio.sleep(0.05)
    raise AssertionError(what)


async def record_of(served, **wanted):
    """The first request with these figures, once there is one."""
    async def found():
        return next((one for one in await requests(served) if wanted.items() <= one.items()), None)
    return await until(found, f"a request {wanted}")


async def complete(served, prompt, tokens, **more):
    answer = await ask(served.address, "POST", "/v1/completions",
                       {"prompt": prompt, "max_tokens": tokens, **TASTE, **more})
    equal(answer.status, 200, answer.body)
    return answer.json()


async def settled_rows(served):
    """Rows that each stage has computed, once they stay the same for two reports of the machines."""
    last, since = None, stopwatch()

    async def settled():
        nonlocal last, since
        rows = (await metrics(served)).by("stage", "salvage_stage_rows_total")
        if rows != last or len(rows) < STAGES:
            last, since = rows, stopwatch()
        return rows if since() > 2 * REPORT_S else None
    return await until(settled, "rows that change no more")


@scenario(240, quarters=8, alone=True)
def figures_are_those_of_the_requests():
    """Counters, records and commands against a few requests; ends that owners and clients want."""
    with Served({"smollm2": VOCABULARY}, sequences=2, context=4096,
                load=("--chunk", CHUNK, "--exact")) as served:
        asyncio.run(all_of_it(served))


async def all_of_it(served):
    before = await metrics(served)
    check(before.sum("salvage_requests_total") == 0, "nothing was asked so far")
    asked = await ask_some(served)
    await counters_agree(served, before, asked)
    await stages_and_links(served, before)
    await commands_agree(served)
    await owner_ends(served)
    await commands_end(served)
    for moment in (1, 4):
        await client_leaves(served, moment)
    await totals_at_the_end(served)


async def ask_some(served):
    """Three answers over HTTP, one of them from the cache, one by a command; one request is refused."""
    asked = Asked()
    first = await complete(served, long_prompt(90), 12)
    asked.add(first["usage"])
    again = await complete(served, long_prompt(90), 12)
    asked.add(again["usage"])
    check(again["usage"]["prompt_tokens_details"]["cached_tokens"] > 60, "the second came from the cache")
    equal(again["choices"][0]["text"], first["choices"][0]["text"], "the same question's answer")
    async with Connection(served.address) as connection:
        body = {"prompt": "The old machine", "max_tokens": 9, "stream": True,
                "stream_options": {"include_usage": True}, **TASTE}
        async for name, data in connection.events("/v1/completions", body):
            if name != ":" and data != "[DONE]" and data.get("usage"):
                asked.add(data["usage"])
    equal((await ask(served.address, "POST", "/v1/completions", b"{")).status, 400, "half an object")
    name = (await ask(served.address, "GET", "/v1/models")).json()["data"][0]["id"]
    run = json.loads(served.command("run", name, "Once upon a time", "-n", 7, "--temp", 0, "--json"))
    check(run["exact"], run["exact_conditions"])
    ended = run["finish_reason"] == "stop"  # the token that ended it counts too
    asked.add({"prompt_tokens": run["prompt_tokens"], "completion_tokens": run["answer_tokens"] + ended,
               "prompt_tokens_details": {"cached_tokens": 0}})
    equal(asked.done, 4, "answers")
    return asked


async def counters_agree(served, before, asked):
    now = await metrics(served)
    outcomes = now.by("outcome", "salvage_requests_total")
    equal(outcomes, {"done": asked.done, "failed": 1, "cancelled": 0}, "requests by outcome")
    equal(now.sum("salvage_requests"), 0, "requests under way")
    replies = "salvage_http_requests_total"
    equal(now.of(replies, endpoint="/v1/completions", status="200"), 3, "answers over HTTP")
    equal(now.of(replies, endpoint="/v1/completions", status="400"), 1, "refusals over HTTP")
    equal(now.of("llamacpp:prompt_tokens_total"), asked.prompt - asked.cached, "tokens of prompts")
    equal(now.of("llamacpp:prompt_tokens_cached_total"), asked.cached, "cached tokens")
    equal(now.of("llamacpp:tokens_predicted_total"), asked.answer, "tokens of answers")
    for histogram in ("queue", "ttft", "tpot"):
        name = f"salvage_{histogram}_seconds"
        equal(now.of(f"{name}_count"), asked.done, f"values of {name}")
        check(now.of(f"{name}_sum") >= 0, name)
    check(now.of("salvage_ttft_seconds_sum") > 0, "a first token takes time")
    for name, kind in now.types.items():
        if kind == "counter":
            for labels, value in before.all(name).items():
                check(now.all(name)[labels] >= value, f"{name} fell")


async def stages_and_links(served, before):
    """Each stage's share of the time, and bytes on each link."""
    async def told():
        now = await metrics(served)
        shares = [now.by("stage", f"salvage_stage_{of}_ratio") for of in ("busy", "bubble")]
        links = {(dict(key)["from"], dict(key)["to"]): value
                 for key, value in now.all("salvage_link_bytes_total").items()}
        return (now, shares, links) if len(links) == len(LINKS) and all(
            len(one) == STAGES for one in shares) else None

    # A bubble is known only while something is asked.
    asking = asyncio.create_task(complete(served, long_prompt(60, 7), 150))
    now, shares, links = await until(told, "shares of all stages and bytes of all links")
    for share in shares:
        for stage, value in share.items():
            check(0 <= value <= 1, f"stage {stage}: {shares}")
    check(any(value > 0 for value in shares[0].values()), f"somebody computes: {shares}")
    equal(sorted(links), sorted(LINKS), "links")
    await asking

    async def risen():
        later = await told()
        return later and all(later[2][link] > links[link] for link in LINKS) and later[0]
    check(all(value > 0 for value in links.values()), f"bytes of links: {links}")
    now = await until(risen, f"more bytes on each link than {links}")
    for stage in map(str, range(STAGES)):
        check(now.of("salvage_stage_busy_seconds_total", stage=stage) > 0, "busy")
        check(now.of("salvage_stage_memory_bytes", stage=stage) > 1 << 20, "memory")
    equal(now.sum("salvage_model_ready"), 1, "models that answer")
    equal(now.sum("salvage_machine_online"), STAGES, "machines")
    check(now.sum("salvage_steps_total") > before.sum("salvage_steps_total"), "steps")


async def commands_agree(served):
    """`top` and `ps` show the same as HTTP while nothing is asked."""
    records = await requests(served)
    equal(len(records), 6, "records")
    top = json.loads(served.command("top", "--json"))
    equal(top["requests"]["data"], records, "requests of top")
    text = served.command("top", "--once")
    for record in records:
        check(record["id"][:16] in text, f"{record['id']} in top: {text}")
    run = next(one for one in records if one["endpoint"] == "salvage run")
    equal((run["state"], run["finish"], run["machines"]), ("done", "length", ["m0", "m1", "m2"]),
          "the command's record")
    check(run["id"].startswith("run_") and run["prefill_ms"] > 0 and run["decode_ms"] > 0, run)
    failed = next(one for one in records if one["state"] == "failed")
    equal(failed["error"], "invalid_json", "the refusal's code")
    await settled_rows(served)
    now = await metrics(served)
    ps = json.loads(served.command("ps", "--json"))["deployments"][0]
    equal(ps["requests_running"], 0, "running requests of ps")
    rows = {str(i): stage["rows"] for i, stage in enumerate(ps["stages"])}
    equal(rows, now.by("stage", "salvage_stage_rows_total"), "rows of ps")
    check(re.search(r"m1\b", served.command("ps")), "ps for people")


async def owner_ends(served):
    """A running answer is seen as such, and ended by the beginning of its id."""
    heard, counted = [], 0
    async with Connection(served.address) as connection:
        body = {"prompt": "A long story:", "max_tokens": 3000, "stream": True, **TASTE}
        async for name, data in connection.events("/v1/completions", body):
            heard.append((name, data))
            counted += name != ":" and data != "[DONE]"
            if counted != 5:
                continue
            live = await record_of(served, state="decode")
            check(live["answer_tokens"] >= 4 and "finish" not in live, live)
            ps = json.loads(served.command("ps", "--json"))["deployments"][0]
            equal(ps["requests_running"], 1, "running requests of ps")
            equal((await metrics(served)).of("salvage_requests", state="decode"), 1, "being answered")
            equal(json.loads(served.command("top", "--json"))["requests"]["decode"], 1, "in top")
            told = json.loads(served.command("cancel", live["id"][:12], "--json"))
            equal((told["id"], told["cancelled"]), (live["id"], True), "what was ended")
    check("request_cancelled" in json.dumps(heard[-2:]), f"its client is told: {heard[-2:]}")
    record = await record_of(served, id=live["id"], state="cancelled")
    equal(record["error"], "request_cancelled", "why")
    for wrong, message in (("nosuch", "no request's id begins with nosuch"),
                           (live["id"], "has ended already (request_cancelled)")):
        done = served.attempt("cancel", wrong)
        equal((done.returncode, done.stdout), (1, ""), "a request that isn't there")
        check(message in done.stderr, done.stderr)


def running_command(served):
    name = served.command("models").split("\n")[1].split()[0]
    return subprocess.Popen([BINARY, "run", name, "Once upon a time", "-n", "3000", "--temp", "0",
                             "-q", "--data", served.folder / "d0"], env=served.env, stdin=subprocess.DEVNULL,
                            stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, encoding="utf-8")


async def commands_end(served):
    """`salvage run`, ended by the owner over HTTP, and by Ctrl-C."""
    for by_owner, code, words, error in ((True, 1, "who runs the cluster has ended", "request_cancelled"),
                                         (False, 130, "interrupted", "client_closed")):
        with running_command(served) as process:
            try:
                live = await record_of(served, endpoint="salvage run", state="decode")
                if by_owner:
                    told = await ask(served.address, "DELETE", f"/v1/requests/{live['id']}")
                    equal(told.status, 200, told.body)
                else:
                    process.send_signal(signal.SIGINT)
                wait_until(lambda: process.poll() is not None, SETTLE_S, "the command's end")
                said = process.stderr.read()
                equal(process.returncode, code, said)
                check(words in said, said)
                equal((await record_of(served, id=live["id"], state="cancelled"))["error"], error, "why")
            finally:
                if process.poll() is None:
                    process.kill()


async def client_leaves(served, moment):
    """In the middle of a long prompt: no stage goes on, and what is left in their caches is as good as
    new."""
    prompt, before = long_prompt(LONG, 20 + moment), await settled_rows(served)
    progress = await leave(served, prompt, moment)
    equal((progress["done"] - progress["cached"]) % CHUNK, 0, "what --chunk asked for")
    after = await settled_rows(served)
    rows = {stage: after[stage] - before[stage] for stage in after}
    record = await record_of(served, error="client_closed", prompt_tokens=progress["total"])
    equal(record["state"], "cancelled", "how it ended")
    print(f"  left at {progress['done']} of {progress['total']} tokens; read {record['read_tokens']}; "
          f"rows of the stages {rows}", flush=True)
    for stage, count in rows.items():
        # Each is at most a step ahead of the next, and computes one; nobody having heard of it, all
        # would compute what is under way: 2 steps a stage and one.
        ahead = 2 * (STAGES - int(stage)) + 1
        check(count <= record["read_tokens"] + ahead * CHUNK, f"stage {stage} went on: {rows}")
        check(count < progress["total"] / 2, f"stage {stage} read for nobody: {rows}")
    await answers_as_anew(served, prompt, progress)


async def leave(served, prompt, moment):
    """Goes at the so-manieth news of how far the prompt is read; that news."""
    body = {"prompt": prompt, "max_tokens": 1, "stream": True, **TASTE}
    connection = await Connection(served.address).open()
    async for name, data in connection.events("/v1/completions", body):
        if name != ":" or not data.startswith("salvage "):
            continue
        progress = json.loads(data[8:])
        moment -= progress["stage"] == "prefill" and progress["done"] > progress["cached"]
        if moment == 0:
            connection.reset()
            return progress
    raise AssertionError("the prompt was read before its reader could leave")


async def answers_as_anew(served, prompt, progress):
    again = await complete(served, prompt, 24)
    cached = again["usage"]["prompt_tokens_details"]["cached_tokens"]
    check(progress["done"] <= cached < progress["total"] - 1, f"{cached} tokens were kept of {progress}")
    anew = await complete(served, prompt, 24, cache_prompt=False)
    equal(anew["usage"]["prompt_tokens_details"]["cached_tokens"], 0, "cached without a cache")
    equal(again["choices"][0]["text"], anew["choices"][0]["text"], "an answer on what was left")


async def totals_at_the_end(served):
    """The sums are those of the records, each of which is still remembered."""
    now, records = await metrics(served), await requests(served)
    outcomes = now.by("outcome", "salvage_requests_total")
    for state, count in outcomes.items():
        equal(sum(one["state"] == state for one in records), count, f"records {state}")
    equal(outcomes["cancelled"], 5, "cancelled ones")
    equal(now.of("llamacpp:tokens_predicted_total"), sum(one["answer_tokens"] for one in records),
          "tokens of answers")
    read = sum(one["read_tokens"] - one["cached_tokens"] for one in records)
    equal(now.of("llamacpp:prompt_tokens_total"), read, "tokens of prompts")


if __name__ == "__main__":
    main(sys.argv[1:], __doc__, prepare=own_network)

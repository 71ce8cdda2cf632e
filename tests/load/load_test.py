#!/usr/bin/env python3
"""Many clients at once on a cluster of three stages, and what must not grow meanwhile.

    tests/load/load_test.py                        all scenarios, as tools/run_tests.sh load runs them
    tests/load/load_test.py many_requests          one of them
    SALVAGE_LOAD_REQUESTS=1000000 tests/load/load_test.py many_requests

Environment: SALVAGE_BINARY, SALVAGE_RANDOM_MODEL (programs), SALVAGE_MODEL_SMOLLM2 (its tokenizer is
used), SALVAGE_LOAD_REQUESTS (10000), SALVAGE_LOAD_CLIENTS (64), SALVAGE_LOAD_TOKENS (32 a
stream), SALVAGE_LOAD_SEED (1).

Nothing is asserted about seconds: a busy machine is slow, not wrong. What may not happen is counted in
tokens: while one stream gets its next, the others get so many and no more.
"""
import asyncio
import collections
import json
import os
import random
import sys

from client import Connection, ask, long_prompt, request_bytes
from requests_mix import Mix, check_answer
from served import SLOW, TINY, Served, own_network, stopwatch

from scenarios import check, equal, main, scenario

REQUESTS = int(os.environ.get("SALVAGE_LOAD_REQUESTS", "10000"))
CLIENTS = int(os.environ.get("SALVAGE_LOAD_CLIENTS", "64"))
TOKENS = int(os.environ.get("SALVAGE_LOAD_TOKENS", "32"))  # of a stream
SEED = int(os.environ.get("SALVAGE_LOAD_SEED", "1"))
# While a stream waits for its next token, the others together get at most so many tokens a stream:
# one step each is fair, prompts that are being read make it more, a stream left out makes it hundreds.
FAIR_STEPS = 6
# So long an idle connection is kept for sure (http/http_service.h says 75 s).
IDLE_S = 60
# Beyond what the allocator moves: a leak of 2 KiB a request would show.
GROWTH_BYTES = 12 << 20


def grown(before, after):
    """The processes' growth, as a line for people; fails if one is out of bounds."""
    lines = []
    for pid, was in before.items():
        growth = after[pid].rss_bytes - was.rss_bytes
        lines.append(f"{was} -> {after[pid]} ({growth / 2**20:+.1f} MiB)")
        check(growth <= GROWTH_BYTES, f"process {pid} grew: {was} -> {after[pid]}")
    return "; ".join(lines)


class Meter:
    """Tokens of all streams, and each stream's longest wait counted in them."""

    def __init__(self, streams):
        self.total = 0
        self.last = [None] * streams
        self.worst = 0

    def token(self, stream):
        self.total += 1
        if self.last[stream] is not None:
            self.worst = max(self.worst, self.total - self.last[stream])
        self.last[stream] = self.total

    def end(self, stream):
        self.last[stream] = None


async def one_stream(served, meter, index, tokens):
    body = {"prompt": long_prompt(30 + index, index), "max_tokens": tokens, "stream": True,
            "ignore_eos": True}
    count, ends = 0, 0
    async with Connection(served.address) as connection:
        async for name, data in connection.events("/v1/completions", body):
            if name == ":":
                continue
            if data == "[DONE]":
                ends += 1
            elif data["choices"] and data["choices"][0]["finish_reason"] is None:
                count += 1
                meter.token(index)
            elif data["choices"]:
                equal(data["choices"][0]["finish_reason"], "length", "how it ended")
    meter.end(index)
    equal(ends, 1, "ends of the stream")
    check(count > tokens // 2, f"{count} events for {tokens} tokens")
    return count


async def streams(served, tokens):
    """CLIENTS streams at once; the worst wait, in steps."""
    meter = Meter(CLIENTS)
    await asyncio.gather(*(one_stream(served, meter, i, tokens) for i in range(CLIENTS)))
    return meter.worst / CLIENTS, meter.total


async def idle_connections(served, count):
    return [await Connection(served.address).open() for _ in range(count)]


async def slow_readers(served, count):
    """Asked for much, and read nothing of it."""
    readers = []
    for i in range(count):
        reader = await Connection(served.address).open(receive_buffer=2048)
        body = {"prompt": f"slow {i}", "max_tokens": 4 * TOKENS, "stream": True, "ignore_eos": True}
        reader.writer.transport.pause_reading()
        await reader.send(request_bytes("POST", "/v1/completions", body))
        readers.append(reader)
    return readers


@scenario(240, quarters=8, alone=True)
def streams_beside_idle_and_slow_clients():
    """64 streams, again and again, then beside 200 idle connections and 20 who don't read."""
    with Served({"tiny": TINY}, sequences=CLIENTS) as served:
        asyncio.run(rounds_of_streams(served))


async def rounds_of_streams(served):
    steps, _ = await streams(served, TOKENS)  # warms up
    warm = served.resources()
    time = stopwatch()
    steps, total = await streams(served, TOKENS)
    print(f"  {CLIENTS} streams: {total / time():.0f} tokens/s, longest wait {steps:.1f} steps", flush=True)
    check(steps <= FAIR_STEPS, f"one waited while each other got {steps:.1f} tokens")
    idle, idle_since = await idle_connections(served, 200), stopwatch()
    slow = await slow_readers(served, 20)
    time = stopwatch()
    steps, total = await streams(served, TOKENS)
    print(f"  beside 200 idle and 20 slow: {total / time():.0f} tokens/s, longest wait {steps:.1f} steps")
    check(steps <= FAIR_STEPS, f"beside others one waited while each other got {steps:.1f} tokens")
    if idle_since() < IDLE_S:
        for connection in idle[::20]:
            equal((await connection.ask("GET", "/health")).status, 200, "an idle connection's answer")
    for connection in idle + slow:
        connection.close()
    await served.settled(warm)
    print("  " + grown(warm, served.resources()))


class Churn:
    """Requests from some connections at once; some of them leave at any moment."""

    def __init__(self, served, seed, count):
        self.served, self.count = served, count
        self.random = random.Random(seed)
        self.mix = Mix(seed, next(iter(served.models)), served.context)
        self.kinds = collections.Counter()
        self.begun = 0

    async def run(self, connections):
        await asyncio.gather(*(self.client() for _ in range(connections)))

    async def client(self):
        connection = await Connection(self.served.address).open()
        while self.begun < self.count:
            self.begun += 1
            wish = self.mix.draw()
            if self.random.random() < 0.15:
                self.kinds["left"] += 1
                await self.leave(connection, wish)
                connection = await Connection(self.served.address).open()
                continue
            self.kinds[wish.kind] += 1
            await connection.send(wish.bytes())
            async with asyncio.timeout(120):
                answer = await connection.answer()
            check_answer(wish, answer)
            if answer.headers.get("connection") == "close":
                connection.close()
                connection = await Connection(self.served.address).open()
        connection.close()

    async def leave(self, connection, wish):
        """Goes in the middle of the request, of the wait, or of the answer; politely or not."""
        data = wish.bytes()
        moment = self.random.randrange(4)
        if moment == 0:
            data = data[:self.random.randrange(1, len(data))]
        await connection.send(data)
        if moment >= 2:
            try:
                async with asyncio.timeout(0.3):
                    await connection.reader.readexactly(self.random.randrange(1, 1200))
            except (TimeoutError, asyncio.IncompleteReadError):
                pass  # the answer was shorter, or has not come so far
        elif moment == 1:
            await asyncio.sleep(self.random.random() * 0.02)
        if self.random.random() < 0.5:
            connection.reset()
        else:
            connection.close()


async def full_width(served):
    """As many streams as there are sequences, all under way at once: none is lost."""
    first, ended = [], []

    async def one(index):
        body = {"prompt": f"width {index}", "max_tokens": 60, "stream": True, "ignore_eos": True}
        async with Connection(served.address) as connection:
            async for name, data in connection.events("/v1/completions", body):
                if name != ":" and data != "[DONE]" and index not in first:
                    first.append(index)
                    check(not ended, f"{len(first)} of {served.sequences} run beside each other")
        ended.append(index)
    await asyncio.gather(*(one(i) for i in range(served.sequences)))
    equal(len(ended), served.sequences, "streams that ended")


@scenario(max(240, REQUESTS // 40), quarters=8, alone=True)
def many_requests():
    """10,000 requests of all kinds, 15 % of which nobody waits for."""
    with Served({"tiny": TINY}, sequences=16) as served:
        asyncio.run(churn(served))


async def churn(served):
    before = served.resources()
    await Churn(served, SEED + 1, max(REQUESTS // 4, 500)).run(32)
    await full_width(served)
    await served.settled(before)
    warm = served.resources()
    all_of_them = Churn(served, SEED, REQUESTS)
    time = stopwatch()
    await all_of_them.run(32)
    took = time()
    print(f"  {REQUESTS} requests in {took:.0f} s ({REQUESTS / took:.0f}/s): "
          f"{dict(sorted(all_of_them.kinds.items()))}")
    await full_width(served)
    await served.settled(before)
    print("  " + grown(warm, served.resources()))


@scenario(240, quarters=8, alone=True)
def who_leaves_a_long_prompt_and_who_finds_the_line_full():
    """A prompt that is cut short leaves what was read of it; a full line says so."""
    with Served({"slow": SLOW}, sequences=4, context=4096) as served:
        asyncio.run(cut_prompt(served))
        asyncio.run(full_line(served))


async def cut_prompt(served):
    prompt = long_prompt(2400)
    body = {"prompt": prompt, "max_tokens": 2, "stream": True}
    progress = None
    connection = await Connection(served.address).open()
    async for name, data in connection.events("/v1/completions", body):
        if name == ":" and data.startswith("salvage "):
            progress = json.loads(data[8:])
            break
    connection.reset()
    check(progress, "its progress was told")
    again = (await ask(served.address, "POST", "/v1/completions", {"prompt": prompt, "max_tokens": 2})
             ).json()["usage"]
    cached = again["prompt_tokens_details"]["cached_tokens"]
    print(f"  left at {progress}; {cached} of {again['prompt_tokens']} tokens were kept")
    check(cached >= progress["done"], f"{cached} tokens were kept of {progress}")
    check(cached < again["prompt_tokens"] - 1, "the rest was not read for nobody")


async def full_line(served):
    """300 at once where 256 may run or wait."""
    outcomes = collections.Counter()

    async def one(index):
        body = {"prompt": f"line {index}", "max_tokens": 2}
        answer = await ask(served.address, "POST", "/v1/completions", body)
        outcomes[answer.status] += 1
        if answer.status == 429:
            equal(answer.json()["error"]["code"], "queue_full", "the error's code")
            check(int(answer.headers["retry-after"]) >= 1, "Retry-After")
    # A long prompt keeps the line from moving while the others come.
    busy = [asyncio.create_task(ask(served.address, "POST", "/v1/completions",
                                    {"prompt": long_prompt(1500, of), "max_tokens": 2}))
            for of in range(2, 6)]
    await asyncio.sleep(0.2)
    await asyncio.gather(*(one(i) for i in range(300)))
    for task in busy:
        equal((await task).status, 200, "those before")
    print(f"  300 at once: {dict(outcomes)}")
    equal(set(outcomes), {200, 429}, "what they were told")
    check(outcomes[429] >= 300 - 256, "no more than may wait")
    equal((await ask(served.address, "GET", "/v1/models")).status, 200, "afterwards")


if __name__ == "__main__":
    main(sys.argv[1:], __doc__, prepare=own_network)

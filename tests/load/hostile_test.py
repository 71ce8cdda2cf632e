#!/usr/bin/env python3
"""Everything that a client of the API can send and shouldn't: there is an answer or the connection
ends, nothing dies, memory stays within bounds, and the next good request is answered.

    tests/load/hostile_test.py [SCENARIO...]       environment as in load_test.py
"""
import asyncio
import json
import os
import random
import sys

from client import Broken, Connection, ask, request_bytes
from served import TINY, Served, own_network

from scenarios import check, equal, main, scenario

SEED = int(os.environ.get("SALVAGE_LOAD_SEED", "1"))
MIB = 1 << 20
CHAT = "/v1/chat/completions"
# Bodies together (128 MiB, http/http_service.h), what their JSON becomes for a moment, and what the
# allocator keeps of it.
GROWTH_BYTES = 700 * MIB
# For what is whole and has to be answered.
ANSWER_S = 60
# For what never ends by itself: we leave.
GLANCE_S = 0.3


def chat(content):
    return {"messages": [{"role": "user", "content": content}], "max_tokens": 2}


async def outcome(served, data, patience=ANSWER_S, half_close=False):
    """The status that bytes are answered with, "closed", or "waits"."""
    connection = await Connection(served.address).open()
    try:
        async with asyncio.timeout(patience):
            try:
                await connection.send(data)
            except (ConnectionError, OSError):
                pass  # it has heard enough; the answer may be there
            if half_close:
                connection.writer.write_eof()
            status, _ = await connection.head()
            return status
    except TimeoutError:
        return "waits"
    except (Broken, ConnectionError, OSError):
        return "closed"
    finally:
        connection.reset()


async def good(served, what):
    """The server is there, and right."""
    served.check_alive()
    answer = await ask(served.address, "POST", "/tokenize", {"content": "hello world"})
    check(answer.status == 200 and len(answer.json()["tokens"]) == 2, f"after {what}: {answer}")
    answer = await ask(served.address, "POST", CHAT, chat("hello"))
    check(answer.status == 200 and answer.json()["usage"]["completion_tokens"] >= 1,
          f"after {what}: {answer}")


async def expect(served, cases):
    """[(what, bytes, statuses that are right; None: any answer or end)]"""
    for what, data, wanted in cases:
        got = await outcome(served, data)
        check(got != "waits", f"{what}: neither answer nor end in {ANSWER_S} s")
        check(got == "closed" if wanted == () else wanted is None or got in wanted,
              f"{what}: {got}, not {wanted}")
        check(wanted is not None or got == "closed" or 400 <= got < 600, f"{what}: {got}")
        await good(served, what)


def body(data, path=CHAT):
    return request_bytes("POST", path, data)


def bad_bodies():
    text = json.dumps(chat("x")).encode()
    for name, data in (
            ("empty", b""), ("a brace", b"{"), ("no object", b"42"), ("null", b"null"),
            ("an array", b"[]"), ("a string", b'"x"'), ("cut short", text[:-3]),
            ("more behind it", text + b"}"), ("NUL", text.replace(b"x", b"\0")),
            ("half a character", text.replace(b"x", b"\xf0\x9f")),
            ("no characters", text.replace(b"x", b"\xff\xfe\xc0\xaf\xed\xa0\x80")),
            ("half a surrogate", text.replace(b"x", b"\\ud83d")),
            ("UTF-16", text.decode().encode("utf-16")), ("messages is a number", b'{"messages":42}'),
            ("a huge number", b'{"prompt":"a","max_tokens":' + b"9" * 400 + b"}"),
            ("no finite number", b'{"prompt":"a","temperature":1e999}'),
            ("long digits", b'{"prompt":"a","temperature":0.' + b"1" * MIB + b"}"),
            ("not a number", b'{"prompt":"a","temperature":NaN}')):
        yield name, data


def deep(depth, opening=b"[", closing=b"]"):
    return opening * depth + closing * depth


@scenario(200, quarters=8, alone=True)
def bodies():
    """No JSON, wrong JSON, deep JSON, 32 MiB of JSON."""
    with Served({"tiny": TINY}, sequences=4) as served:
        before = served.resources()
        asyncio.run(send_bodies(served))
        settle(served, before)


async def send_bodies(served):
    await good(served, "nothing")
    client_error = range(400, 500)
    for path in (CHAT, "/v1/completions", "/v1/messages", "/v1/responses", "/completion",
                 "/tokenize", "/detokenize", "/apply-template"):
        for name, data in bad_bodies():
            got = await outcome(served, body(data, path))
            # What one endpoint refuses is good enough for another.
            check(got in client_error or got in (200, 501), f"{name} to {path}: {got}")
            served.check_alive()
    await good(served, "bad bodies")
    messages = json.dumps(chat("MARK")).encode()
    await expect(served, [
        ("deep arrays", body(b'{"prompt":' + deep(100_000) + b"}"), client_error),
        ("deep objects", body(deep(100_000, b'{"a":', b"}")), client_error),
        ("deep and open", body(b'{"messages":' + b"[" * 30 * MIB), client_error),
        ("a schema that nests", body({**chat("x"), "response_format": {
            "type": "json_schema", "json_schema": {"name": "n", "schema": nested_schema(40)}}}), (200, 400)),
        ("many values", body(b'{"prompt":[' + b"1," * 4_000_000 + b"1]}"), client_error),
        ("32 MiB of text", body(messages.replace(b"MARK", b"word " * (6 * MIB))), client_error),
        ("32 MiB of one letter", body(messages.replace(b"MARK", b"a" * (31 * MIB))), client_error),
        ("32 MiB to the tokenizer", body(b'{"content":"' + b"ab " * (10 * MIB) + b'"}', "/tokenize"),
         client_error),
        ("33 MiB", body(b" " * (33 * MIB)), (413,)),
        ("chunks without end", chunked(33), (413, 400))])
    results = await asyncio.gather(*(
        outcome(served, body(messages.replace(b"MARK", b"word " * (6 * MIB)))) for _ in range(8)))
    check(set(results) <= {400, 503}, f"eight large ones at once: {results}")
    await good(served, "eight large ones")


def nested_schema(depth):
    schema = {"type": "string"}
    for _ in range(depth):
        schema = {"type": "object", "properties": {"a": schema}, "required": ["a"]}
    return schema


def chunked(mebibytes):
    head = b"POST /v1/completions HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"
    return head + (b"100000\r\n" + b" " * MIB + b"\r\n") * mebibytes


def settle(served, before):
    asyncio.run(served.settled(before))
    after = served.resources()
    for pid, was in before.items():
        print(f"  {was} -> {after[pid]}")
        check(after[pid].rss_bytes - was.rss_bytes <= GROWTH_BYTES, f"grew: {was} -> {after[pid]}")


def heads():
    """[(what, bytes, right statuses)]: HTTP as it shouldn't be."""
    post = "POST /tokenize HTTP/1.1\r\nHost: x\r\n"

    def with_lines(*lines, then=b""):
        return (post + "".join(line + "\r\n" for line in lines) + "\r\n").encode() + then
    data = b'{"content":"a"}'
    length = f"Content-Length: {len(data)}"
    return [
        ("TLS", bytes.fromhex("16030102000100 01fc0303".replace(" ", "")) + b"\0" * 500, (400, "closed")),
        ("HTTP/2", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\4\0\0\0\0\0", (400, "closed")),
        ("HTTP/0.9", b"GET /\r\n\r\n", (400, "closed")),
        ("HTTP/3.7", b"GET /health HTTP/3.7\r\nHost: x\r\n\r\n", (400, 505, "closed")),
        ("SSH", b"SSH-2.0-OpenSSH_9.2\r\n\r\n", (400, "closed")),
        ("a proxy's wish", b"CONNECT example.org:443 HTTP/1.1\r\nHost: x\r\n\r\n", (400, 404, 405)),
        ("an absolute URL", b"GET http://x/health HTTP/1.1\r\nHost: x\r\n\r\n", None),
        ("a long URL", b"GET /" + b"a" * 9000 + b" HTTP/1.1\r\nHost: x\r\n\r\n", None),
        ("a longer URL", b"GET /" + b"a" * MIB + b" HTTP/1.1\r\nHost: x\r\n\r\n", None),
        ("a long method", b"A" * 100_000 + b" / HTTP/1.1\r\n\r\n", None),
        ("10,000 header lines", with_lines(*[f"h{i}: x" for i in range(10_000)]), None),
        ("a header line of a MiB", with_lines("h: " + "x" * MIB), None),
        ("no colon", with_lines("nonsense"), None),
        ("a folded line", with_lines("h: a", " b"), None),
        ("NUL in a header", with_lines("h: a\0b", length, then=data), None),
        ("a negative length", with_lines("Content-Length: -5"), (400,)),
        ("a length of 30 digits", with_lines("Content-Length: " + "9" * 30), (400, 413)),
        ("a length of 2^64", with_lines(f"Content-Length: {2**64}"), (400, 413)),
        ("a length that is none", with_lines("Content-Length: five"), (400,)),
        ("two lengths", with_lines(length, "Content-Length: 3", then=data), None),
        ("length and chunks", with_lines(length, "Transfer-Encoding: chunked", then=data), (400,)),
        ("no chunks", with_lines("Transfer-Encoding: gzip", then=data), (400,)),
        ("a chunk of 2^68", with_lines("Transfer-Encoding: chunked", then=b"F" * 17 + b"\r\nx"), (400, 413)),
        ("a chunk of -1", with_lines("Transfer-Encoding: chunked", then=b"-1\r\nx\r\n"), (400,)),
        ("chunk garbage", with_lines("Transfer-Encoding: chunked", then=b"zz\r\n\r\n\r\n"), (400,)),
        ("a body that is no gzip", with_lines("Content-Encoding: gzip", length, then=data), None),
        ("a range", b"GET /v1/models HTTP/1.1\r\nHost: x\r\nRange: bytes=5-1\r\n\r\n", None),
        ("a body to GET", b"GET /v1/models HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\nhello", (400,)),
    ]


@scenario(200, quarters=8, alone=True)
def requests():
    """Heads that are none, floods, requests that are half there, too many at once."""
    with Served({"tiny": TINY}, sequences=4) as served:
        before = served.resources()
        asyncio.run(send_requests(served))
        settle(served, before)


async def send_requests(served):
    await expect(served, heads())
    await unfinished(served)
    await pipelined(served)
    await announced(served)
    await noise(served, 300)
    await crowds(served)
    await good(served, "all of it")


async def unfinished(served):
    """What never ends by itself holds up nobody."""
    parts = [b"", b"GET", b"GET / HTTP/1.1\r\nHo", b"POST /tokenize HTTP/1.1\r\nContent-Length: 9\r\n\r\n{",
             b"POST /tokenize HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nab"]
    for data in parts:
        equal(await outcome(served, data, GLANCE_S), "waits", f"{data!r}")
    for data in parts[1:]:  # with its end of the line closed there is nothing to wait for
        got = await outcome(served, data, half_close=True)
        check(got in (400, "closed"), f"{data!r}, then an end: {got}")
    trickle = [await Connection(served.address).open() for _ in range(20)]
    for at in range(10):
        for connection in trickle:
            await connection.send(b"POST /tokenize HTTP/1.1\r\nx"[at:at + 1])
        await good(served, "bytes one by one")
    for connection in trickle:
        connection.reset()


async def pipelined(served):
    """200 requests without waiting for an answer: 200 answers, in order."""
    async with Connection(served.address) as connection:
        await connection.send(b"".join(request_bytes("POST", "/tokenize", {"content": "a" * (i % 7)})
                                       for i in range(200)))
        for i in range(200):
            async with asyncio.timeout(ANSWER_S):
                answer = await connection.answer()
            check(answer.status == 200, f"request {i}: {answer}")
            check(bool(answer.json()["tokens"]) == bool(i % 7), f"request {i}: {answer}")


async def announced(served):
    """Bodies that are announced and don't come take no room from those that do."""
    liars = [await Connection(served.address).open() for _ in range(40)]
    for i, connection in enumerate(liars):
        how = "Transfer-Encoding: chunked" if i % 2 else f"Content-Length: {32 * MIB}"
        await connection.send(f"POST /tokenize HTTP/1.1\r\nHost: x\r\n{how}\r\n\r\n".encode())
    upgrade = (b"GET /v1/models HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
               b"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n"
               b"Content-Length: 33554432\r\n\r\n")
    for _ in range(8):
        check(await outcome(served, upgrade) in (400, "closed"), "a WebSocket with a body")
    large = {"content": "ab " * 300_000}
    answer = await ask(served.address, "POST", "/tokenize", large)
    check(answer.status in (200, 400), f"a body of a MiB beside them: {answer.status}")
    await good(served, "bodies that don't come")
    for connection in liars:
        connection.reset()


async def noise(served, count):
    """Random bytes, and good requests with some bytes changed."""
    draw = random.Random(SEED)
    base = request_bytes("POST", CHAT, chat("hello"), ("Authorization: Bearer x", "Accept: */*"))
    for i in range(count):
        data = bytearray(draw.randbytes(draw.randrange(1, 400)) if i % 3 == 0 else base)
        for _ in range(draw.randrange(1, 6)):
            data[draw.randrange(len(data))] = draw.randrange(256)
        await outcome(served, bytes(data), ANSWER_S, half_close=True)
        served.check_alive()
    await good(served, "noise")


async def crowds(served):
    """More connections than there is room for, come and gone; then a good one."""
    crowd = [await Connection(served.address).open() for _ in range(480)]
    await good(served, "480 who say nothing")
    more = await asyncio.gather(*(Connection(served.address).open() for _ in range(200)),
                                return_exceptions=True)
    await good(served, "680 who say nothing")
    for connection in [*crowd, *more]:
        if isinstance(connection, Connection):
            connection.reset()
    for _ in range(300):
        (await Connection(served.address).open()).reset()
    await good(served, "300 who come and go")


if __name__ == "__main__":
    main(sys.argv[1:], __doc__, prepare=own_network)

"""HTTP as few bytes need it: asyncio's streams, requests written by hand, answers read as they come."""
import asyncio
import contextlib
import dataclasses
import json
import socket
import struct

# A stuck server must fail the test, not hang it; nothing is asserted about time that is shorter.
PATIENCE_S = 120


class Broken(Exception):
    """The connection ended, or what came is no HTTP."""


@dataclasses.dataclass
class Answer:
    status: int
    headers: dict
    body: bytes

    def json(self):
        return json.loads(self.body)


def request_bytes(method, path, body=None, headers=()):
    """A request; `body` is JSON or bytes."""
    data = body if isinstance(body, bytes) else b"" if body is None else json.dumps(body).encode()
    lines = [f"{method} {path} HTTP/1.1", "Host: x", *headers]
    if method != "GET" or data:
        lines.append(f"Content-Length: {len(data)}")
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + data


class Connection:
    """One connection; `async with` closes it."""

    def __init__(self, address):
        self.address = address
        self.reader = self.writer = None

    async def open(self, receive_buffer=None):
        probe = socket.socket()
        if receive_buffer:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        probe.setblocking(False)
        await asyncio.get_running_loop().sock_connect(probe, self.address)
        self.reader, self.writer = await asyncio.open_connection(sock=probe, limit=1 << 22)
        return self

    async def __aenter__(self):
        return await self.open()

    async def __aexit__(self, *unused):
        self.close()

    def close(self):
        if self.writer:
            self.writer.close()

    def reset(self):
        """Goes without a word: the other side hears RST."""
        raw = self.writer.get_extra_info("socket")
        with contextlib.suppress(OSError):  # it has ended already
            raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.writer.transport.abort()

    async def send(self, data):
        self.writer.write(data)
        await self.writer.drain()

    async def head(self):
        """(status, headers) of the next answer."""
        try:
            text = await self.reader.readuntil(b"\r\n\r\n")
        except (asyncio.IncompleteReadError, asyncio.LimitOverrunError, OSError) as error:
            raise Broken(f"no head: {error!r}") from error
        first, *lines = text.decode("latin-1").split("\r\n")
        if not first.startswith("HTTP/1.1 "):
            raise Broken(f"no HTTP: {first!r}")
        headers = {}
        for line in lines:
            name, found, value = line.partition(": ")
            if found:
                headers[name.lower()] = value
        return int(first.split()[1]), headers

    async def body(self, headers):
        """The parts of a body as they come."""
        try:
            if headers.get("transfer-encoding") != "chunked":
                yield await self.reader.readexactly(int(headers.get("content-length", 0)))
                return
            while True:
                size = int(await self.reader.readuntil(b"\r\n"), 16)
                part = await self.reader.readexactly(size + 2)
                if size == 0:
                    return
                yield part[:-2]
        except (asyncio.IncompleteReadError, OSError) as error:
            raise Broken(f"the answer ended early: {error!r}") from error

    async def answer(self):
        status, headers = await self.head()
        return Answer(status, headers, b"".join([part async for part in self.body(headers)]))

    async def ask(self, method, path, body=None, headers=()):
        async with asyncio.timeout_at(_deadline()):
            await self.send(request_bytes(method, path, body, headers))
            return await self.answer()

    async def events(self, path, body):
        """The events of a streamed answer: (name or None, data), a comment as (":", text)."""
        async with asyncio.timeout_at(_deadline()):
            await self.send(request_bytes("POST", path, body))
            status, headers = await self.head()
            if status != 200:
                body = b"".join([part async for part in self.body(headers)])
                raise Broken(f"status {status}: {body[:300]!r}")
            assert headers["content-type"].startswith("text/event-stream"), headers
            rest = b""
            async for part in self.body(headers):
                rest += part
                while b"\n\n" in rest:
                    frame, _, rest = rest.partition(b"\n\n")
                    yield parse_frame(frame.decode("utf-8"))
            assert not rest, f"half an event: {rest!r}"


def parse_frame(frame):
    name, data = None, None
    for line in frame.split("\n"):
        if line.startswith(":"):
            return ":", line[1:].strip()
        if line.startswith("event: "):
            name = line[7:]
        elif line.startswith("data: "):
            assert data is None, f"two data lines: {frame!r}"
            data = line[6:]
        else:
            raise AssertionError(f"no line of an event: {line!r}")
    return name, data if data == "[DONE]" else json.loads(data)


def _deadline():
    return asyncio.get_running_loop().time() + PATIENCE_S


async def ask(address, method, path, body=None, headers=()):
    """One request on a connection of its own."""
    async with Connection(address) as connection:
        return await connection.ask(method, path, body, headers)


def long_prompt(words, of=1):
    """A text of about so many tokens, no prefix of which another `of` shares."""
    return f"Story number {of}. " + " ".join(["once upon a time there was"] * (words // 6))

"""What strangers do to a port; run as probes.py. Bounded in time and in what it takes."""
import random
import resource
import selectors
import socket
import time

CONNECT_S = 3
GARBAGE_PAUSE_S = 0.02  # between two tries: what one costs is for the other side to show
TLS_HELLO_BEGIN = bytes.fromhex("16030100f8010000f40303")


def raise_file_limit():
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


def hold(address, port, count, seconds, begin_with):
    """Opens connections and keeps them; says how many were opened and how many the peer has ended."""
    raise_file_limit()
    held, refused, end = [], 0, time.monotonic() + float(seconds)
    for _ in range(int(count)):
        if time.monotonic() > end:
            break
        try:
            client = socket.create_connection((address, int(port)), CONNECT_S)
            client.sendall(begin_with)
            held.append(client)
        except OSError:
            refused += 1
    print("holding", len(held), flush=True)
    ended = 0
    with selectors.DefaultSelector() as waiting:
        for client in held:
            waiting.register(client, selectors.EVENT_READ)
        while (left := end - time.monotonic()) > 0 and waiting.get_map():
            for key, _ in waiting.select(left):
                try:
                    over = not key.fileobj.recv(4096)
                except OSError:
                    over = True
                if over:
                    ended += 1
                    waiting.unregister(key.fileobj)
    for client in held:
        client.close()
    return {"opened": len(held), "refused": refused, "ended_by_peer": ended}


def idle(address, port, count, seconds):
    return hold(address, port, count, seconds, b"")


def half(address, port, count, seconds):
    return hold(address, port, count, seconds, TLS_HELLO_BEGIN)


def random_bytes(chance, most, beginnings):
    """Some of them behind the beginning of something known."""
    return chance.choice(beginnings) + chance.randbytes(chance.randrange(1, most))


def garbage(address, port, seconds, seed):
    """One connection after another."""
    chance, end = random.Random(int(seed)), time.monotonic() + float(seconds)
    beginnings = [b"", TLS_HELLO_BEGIN, b"SLVG\x01\x00\x01\x00", b"GET / HTTP/1.1\r\n",
                  b"\x16\x03\x03\xff\xff"]
    connections, refused, sent = 0, 0, 0
    while time.monotonic() < end:
        try:
            with socket.create_connection((address, int(port)), CONNECT_S) as client:
                connections += 1
                client.settimeout(0.2)
                client.sendall(random_bytes(chance, 20_000, beginnings))
                sent += 1
                client.recv(4096)
        except ConnectionRefusedError:
            refused += 1
        except OSError:
            pass
        time.sleep(GARBAGE_PAUSE_S)
    return {"connections": connections, "refused": refused, "sent": sent}


def datagrams(address, port, seconds, seed):
    """Random ones, one after another, to a machine or a group; `refused`: nobody listened."""
    chance, end = random.Random(int(seed)), time.monotonic() + float(seconds)
    refused, sent = 0, 0
    family, kind, _, _, target = socket.getaddrinfo(address, port, type=socket.SOCK_DGRAM)[0]
    with socket.socket(family, kind) as client:
        client.connect(target)
        while time.monotonic() < end:
            try:
                client.send(random_bytes(chance, 1400, [b"", b"SLVB", b"SLVB\x01\x01", b"SLVB\x01\x02"]))
                sent += 1
            except ConnectionRefusedError:
                refused += 1
            time.sleep(GARBAGE_PAUSE_S)
    return {"refused": refused, "sent": sent}

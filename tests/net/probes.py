"""Small programs that run inside a host of the test network and end with one line of JSON.

    probes.py sink PORT                       takes bytes until the sender is done: {"mbit": ...}
    probes.py source ADDRESS PORT SECONDS     sends as fast as it may
    probes.py echo PORT COUNT                 answers datagrams
    probes.py rtt ADDRESS PORT COUNT          times them: {"min_ms": ..., "median_ms": ..., "max_ms": ...}
    probes.py hear GROUP PORT SECONDS [COUNT] joins a multicast group: {"heard": [text, ...]}
    probes.py shout GROUP PORT TEXT           says something to it on every interface
    probes.py spin SECONDS                    how much of a core it gets: {"share": ...}
    probes.py clock                           {"wall": ..., "monotonic": ...}
    probes.py scan ADDRESS BEGIN END          which TCP ports are open: {"open": [...]}
    probes.py listening                       what listens here: {"tcp": [[address, port], ...], "udp": ...}
    probes.py idle ADDRESS PORT COUNT SECONDS holds connections that say nothing
    probes.py garbage ADDRESS PORT SECONDS SEED   sends random bytes, over and over
    probes.py datagrams ADDRESS PORT SECONDS SEED the same by UDP
    probes.py half ADDRESS PORT COUNT SECONDS sends the first bytes of a TLS hello, then nothing

Each is bounded in time and in what it takes; only the addresses that it is told are contacted.
"""
import errno
import json
import pathlib
import selectors
import socket
import struct
import sys
import time

from attacks import datagrams, garbage, half, idle

CONNECT_S = 3
BATCH = 256  # connections that a scan has under way


def probe_command(*arguments):
    return [sys.executable, "-B", __file__, *map(str, arguments)]


def answer_of(finished):
    assert finished.code == 0, repr(finished)
    return json.loads(finished.out.splitlines()[-1])


def family_of(address):
    return socket.AF_INET6 if ":" in address else socket.AF_INET


def listener(port):
    server = socket.socket(socket.AF_INET6, socket.SOCK_STREAM)
    server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    server.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
    server.bind(("::", port))
    server.listen(16)
    server.settimeout(30)
    print("listening", flush=True)
    return server


def sink(port):
    with listener(int(port)) as server:
        connection, _ = server.accept()
    connection.settimeout(10)
    total, begin, end, buffer = 0, None, 0.0, bytearray(1 << 16)
    with connection:
        while True:
            count = connection.recv_into(buffer)
            now = time.monotonic()
            begin = now if begin is None else begin
            if count == 0:
                break
            total, end = total + count, now
    return {"bytes": total, "mbit": total * 8 / 1e6 / max(end - begin, 1e-9)}


def source(address, port, seconds):
    data, sent = b"\0" * (1 << 16), 0
    with socket.create_connection((address, int(port)), CONNECT_S) as connection:
        end = time.monotonic() + float(seconds)
        while time.monotonic() < end:
            sent += connection.send(data)
    return {"bytes": sent}


def echo(port, count):
    with socket.socket(socket.AF_INET6, socket.SOCK_DGRAM) as server:
        server.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        server.bind(("::", int(port)))
        server.settimeout(10)
        print("listening", flush=True)
        for _ in range(int(count)):
            data, peer = server.recvfrom(2048)
            server.sendto(data, peer)
    return {}


def rtt(address, port, count):
    took = []
    with socket.socket(family_of(address), socket.SOCK_DGRAM) as client:
        client.settimeout(5)
        client.connect((address, int(port)))
        for number in range(int(count)):
            begin = time.perf_counter()
            client.send(struct.pack("<I", number))
            while struct.unpack("<I", client.recv(64))[0] != number:
                pass
            took.append((time.perf_counter() - begin) * 1000)
    took.sort()
    return {"min_ms": took[0], "median_ms": took[len(took) // 2], "max_ms": took[-1]}


def interface_indices():
    return [index for index, name in socket.if_nameindex() if name != "lo"]


def hear(group, port, seconds, count=1000):
    family = family_of(group)
    heard = []
    with socket.socket(family, socket.SOCK_DGRAM) as server:
        server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        server.bind(("", int(port)))
        for index in interface_indices():
            if family == socket.AF_INET6:
                request = socket.inet_pton(family, group) + struct.pack("@I", index)
                server.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_JOIN_GROUP, request)
            else:
                request = socket.inet_aton(group) + struct.pack("=4sI", b"\0" * 4, index)
                server.setsockopt(socket.IPPROTO_IP, socket.IP_ADD_MEMBERSHIP, request)
        print("listening", flush=True)
        end = time.monotonic() + float(seconds)
        while (left := end - time.monotonic()) > 0 and len(heard) < int(count):
            server.settimeout(left)
            try:
                heard.append(server.recv(2048).decode("utf-8", "replace"))
            except TimeoutError:
                break
    return {"heard": heard}


def shout(group, port, text):
    family = family_of(group)
    for index in interface_indices():
        with socket.socket(family, socket.SOCK_DGRAM) as client:
            if family == socket.AF_INET6:
                client.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_MULTICAST_IF, index)
            else:
                client.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_IF,
                                  struct.pack("=4s4sI", b"\0" * 4, b"\0" * 4, index))
            client.sendto(text.encode(), (group, int(port)))
    return {}


def spin(seconds):
    begin, used = time.monotonic(), time.process_time()
    while time.monotonic() - begin < float(seconds):
        pass
    return {"share": (time.process_time() - used) / (time.monotonic() - begin)}


def clock():
    return {"wall": time.time(), "monotonic": time.monotonic()}


def scan(address, begin, end):
    """A connection to every port, many at once. A port that says nothing for a second is closed."""
    opened, waiting = [], selectors.DefaultSelector()
    ports = iter(range(int(begin), int(end)))
    pending, more = {}, True
    while pending or more:
        while more and len(pending) < BATCH:
            port = next(ports, None)
            if port is None:
                more = False
                break
            client = socket.socket(family_of(address), socket.SOCK_STREAM)
            client.setblocking(False)
            code = client.connect_ex((address, port))
            if code == errno.EINPROGRESS:
                code = client.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR) or code
            if code != errno.EINPROGRESS:
                client.close()
                opened += [port] if code == 0 else []
                continue
            waiting.register(client, selectors.EVENT_WRITE)
            pending[client] = port
        ready = [key.fileobj for key, _ in waiting.select(1)] or list(pending)
        for client in ready:
            if client.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR) == 0 and is_connected(client):
                opened.append(pending[client])
            waiting.unregister(client)
            del pending[client]
            client.close()
    return {"open": sorted(opened)}


def is_connected(client):
    try:
        client.getpeername()
        return True
    except OSError:
        return False


def listening():
    """From the kernel's tables of this namespace: addresses as they are there, ports in decimal."""
    found = {}
    for kind, listens in (("tcp", "0A"), ("udp", "07")):
        rows = []
        for suffix in ("", "6"):
            for line in pathlib.Path(f"/proc/net/{kind}{suffix}").read_text().splitlines()[1:]:
                fields = line.split()
                if fields[3] == listens:
                    rows.append([address_text(fields[1].split(":")[0]), int(fields[1].split(":")[1], 16)])
        found[kind] = sorted(rows)
    return found


def address_text(digits):
    """The kernel writes addresses as numbers of 32 bits in this machine's byte order."""
    words = [struct.pack("=I", int(digits[at:at + 8], 16)) for at in range(0, len(digits), 8)]
    return socket.inet_ntop(socket.AF_INET if len(words) == 1 else socket.AF_INET6, b"".join(words))


PROBES = {one.__name__: one for one in (sink, source, echo, rtt, hear, shout, spin, clock, scan, listening,
                                        idle, half, garbage, datagrams)}

if __name__ == "__main__":
    if len(sys.argv) < 2 or sys.argv[1] not in PROBES:
        sys.exit(__doc__)
    print(json.dumps(PROBES[sys.argv[1]](*sys.argv[2:])))

"""What the tests of the test network measure with."""
import sys
import unittest

from probes import answer_of, probe_command
from processes import Unavailable

MEASURE_S = 1.0
PORT = 5000


def run_tests():
    try:
        unittest.main(verbosity=2)
    except Unavailable as error:
        sys.exit(f"error: {error}")


def listening(host, *arguments):
    return host.run(probe_command(*arguments)).expect("listening", 10)


def round_trips(host, peer, count=20, address=None):
    server = listening(peer, "echo", PORT, count)
    took = host.probe("rtt", address or peer.address, PORT, count)
    server.wait(5)
    return took


def mbit(host, peer):
    server = listening(peer, "sink", PORT)
    host.probe("source", peer.address, PORT, MEASURE_S)
    return answer_of(server.wait(10))["mbit"]


def connects(host, address, port=22):
    """Refused counts as reached: somebody answered. Waits one second."""
    script = ("import socket,sys\ntry:\n socket.create_connection((sys.argv[1],int(sys.argv[2])),1)\n"
              "except ConnectionRefusedError: pass\nexcept OSError as e: sys.exit(str(e))")
    return host.call([sys.executable, "-c", script, address, port]).code == 0


def connected_names(host, network):
    return [peer.name for peer in network.hosts if peer is not host and peer.interfaces
            and connects(host, peer.address)]

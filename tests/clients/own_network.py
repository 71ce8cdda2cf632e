"""Runs a test program in a network of its own, with nothing in it but loopback.

There its ports are never taken, and what it serves can't be reached by anybody else. Root may make such
a network, and others where the system lets them; where nobody may, the machine's own loopback is used,
by one such program at a time.
"""
import contextlib
import os
import pathlib
import subprocess
import sys
import tempfile

from processes import exclusive, system

MARK = "SALVAGE_CLIENTS_NETWORK"
WAYS = (["unshare", "--net"], ["unshare", "--map-root-user", "--net"])
WAIT_S = 900  # for the program before this one


def works(way):
    try:
        done = subprocess.run([*way, "ip", "link", "set", "lo", "up"], stdout=subprocess.DEVNULL,
                              stderr=subprocess.DEVNULL, timeout=20, check=False)
    except OSError:
        return False
    return done.returncode == 0


@contextlib.contextmanager
def own_network():
    """The body runs in such a network; the program may begin anew for it, so come here first."""
    if os.environ.get(MARK) == "own":
        system("ip", "link", "set", "lo", "up")
        yield
        return
    for way in WAYS:
        if works(way):
            sys.stdout.flush()
            os.execvpe(way[0], [*way, sys.executable, "-B", *sys.argv], {**os.environ, MARK: "own"})
    with exclusive(pathlib.Path(tempfile.gettempdir(), "salvage-clients.lock"), WAIT_S):
        yield

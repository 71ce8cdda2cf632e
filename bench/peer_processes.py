"""Child processes of a benchmark: pinned to cores, bounded in time, never left behind.

Every child dies with this process (even by kill -9), is ended by its own id, and is waited for.
"""
import contextlib
import ctypes
import os
import pathlib
import signal
import socket
import subprocess
import time

PR_SET_PDEATHSIG = 1
LIBC = ctypes.CDLL(None)
SECONDS_TO_END = 5.0
SECONDS_TO_LISTEN = 20.0
SERVER_START_TRIES = 3
ERROR_LINES_SHOWN = 5


class PeerError(Exception):
    """A sentence for the person who runs the benchmark."""


# Niceness of every later child; set once by use_high_priority(). Not a real-time class: under those
# a thread that wakes up waits for its equals, which punishes whoever works with several processes.
NICENESS_BEFORE_OTHERS = -20
_niceness = None


def use_high_priority():
    """Lets children run before everybody else's processes; tried out here, once."""
    global _niceness  # pylint: disable=global-statement
    try:
        own = os.getpriority(os.PRIO_PROCESS, 0)
        os.setpriority(os.PRIO_PROCESS, 0, NICENESS_BEFORE_OTHERS)
        os.setpriority(os.PRIO_PROCESS, 0, own)
    except PermissionError as error:
        raise PeerError("--high-priority needs root (or CAP_SYS_NICE)") from error
    _niceness = NICENESS_BEFORE_OTHERS


def _raise_priority():
    os.setpriority(os.PRIO_PROCESS, 0, _niceness)
    # Where the kernel groups processes by session, niceness only counts within a session; the
    # session itself then has one of its own.
    os.setsid()
    with contextlib.suppress(OSError), open("/proc/self/autogroup", "w", encoding="ascii") as group:
        group.write(str(_niceness))


def _child_setup(cores):
    def setup():
        LIBC.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        os.sched_setaffinity(0, cores)
        if _niceness is not None:
            _raise_priority()
    return setup


def start(command, cores, **streams):
    """Starts `command` on `cores`; the caller ends it with end()."""
    try:
        return subprocess.Popen([str(word) for word in command], preexec_fn=_child_setup(cores),
                                stdin=subprocess.DEVNULL, **streams)
    except OSError as error:
        raise PeerError(f"cannot start {command[0]}: {error.strerror}") from error


def end(process):
    """Asks the process to end, then makes it; returns when it's gone."""
    if process.poll() is None:
        process.terminate()
        try:
            process.wait(SECONDS_TO_END)
        except subprocess.TimeoutExpired:
            process.kill()
    process.wait()
    for stream in (process.stdout, process.stderr):
        if stream:
            stream.close()


def run(command, cores, timeout_s):
    """(stdout, stderr) of a command that must succeed within timeout_s."""
    name = pathlib.Path(command[0]).name
    process = start(command, cores, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                    errors="replace")
    try:
        output, errors = process.communicate(timeout=timeout_s)
    except subprocess.TimeoutExpired:
        raise PeerError(f"{name} did not finish within {timeout_s:.0f} s (--timeout)") from None
    finally:
        end(process)
    if process.returncode != 0:
        last = "\n".join(errors.strip().splitlines()[-ERROR_LINES_SHOWN:])
        raise PeerError(f"{name} failed with exit code {process.returncode}:\n{last}")
    return output, errors


def peak_rss_bytes(process):
    """The most memory that a running process ever held; 0 where the kernel doesn't say."""
    with contextlib.suppress(OSError):
        for line in pathlib.Path(f"/proc/{process.pid}/status").read_text().splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1024
    return 0


def _free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def _listens(process, port):
    deadline = time.monotonic() + SECONDS_TO_LISTEN
    while time.monotonic() < deadline and process.poll() is None:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1.0):
            return True
        time.sleep(0.05)
    return False


def _start_rpc_server(program, core):
    # A free port may be taken by somebody else before the server has it: try again then.
    for _ in range(SERVER_START_TRIES):
        port = _free_port()
        # Without -c: upstream's file cache has a fault with large activations.
        process = start([program, "-H", "127.0.0.1", "-p", port, "-t", 1], {core},
                        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        if _listens(process, port):
            return process, port
        end(process)
    raise PeerError(f"{program} does not start to listen on 127.0.0.1")


@contextlib.contextmanager
def rpc_servers(program, cores):
    """One ggml-rpc-server with one thread on each core: yields (processes, endpoints)."""
    processes, endpoints = [], []
    try:
        for core in cores:
            process, port = _start_rpc_server(program, core)
            processes.append(process)
            endpoints.append(f"127.0.0.1:{port}")
        yield processes, endpoints
    finally:
        for process in processes:
            end(process)

"""A cluster of three processes on this machine that serves the API, and what it uses meanwhile.

    with Served(models={"tiny": TINY}, sequences=16) as served:
        served.address            # (host, port) of the API
        served.resources()        # memory, threads and descriptors of all its processes

One `salvage up` and two `salvage join`, each with a data folder, so that the pipeline's links are what
they are between machines: TLS over TCP. Where that is allowed (root) everything runs in a network of
its own, with an address that nobody else has; else on the machine's own, on ports that are free.
"""
import asyncio
import ctypes
import os
import pathlib
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "net"))
# pylint: disable=wrong-import-position
from processes import Process, system, wait_until  # noqa: E402

BINARY = os.environ.get("SALVAGE_BINARY", "")
RANDOM_MODEL = os.environ.get("SALVAGE_RANDOM_MODEL", "")
VOCABULARY = os.environ.get("SALVAGE_MODEL_SMOLLM2", "")
KEPT = pathlib.Path(os.environ.get("SALVAGE_LOAD_KEPT", "") or tempfile.gettempdir())
STAGES = 3
PORTS = 20  # for each of the processes
START_S = 60
LOAD_S = 120
CODE = re.compile(r"slv1\.[0-9A-Za-z-]+")
CLONE_NEWNET = 0x40000000
OWN_ADDRESS = "10.77.13.1"

# Models of no meaning: what counts is how long a step takes. The text is real, for the tokenizer is.
TINY = ("--layers", 6, "--embd", 64, "--heads", 2, "--kv-heads", 1, "--head-dim", 32, "--ff", 128)
# A prompt of some thousand tokens takes seconds.
SLOW = ("--layers", 6, "--embd", 512, "--heads", 8, "--kv-heads", 4, "--head-dim", 64, "--ff", 2048)


def own_network():
    """Moves this process into a network that only it is in, where that is allowed."""
    if ctypes.CDLL(None).unshare(CLONE_NEWNET) != 0:
        return
    system("ip", "link", "set", "lo", "up")
    system("ip", "link", "add", "load0", "type", "bridge")
    system("ip", "addr", "add", f"{OWN_ADDRESS}/24", "dev", "load0")
    system("ip", "link", "set", "load0", "up")


def free_ports(count):
    """The first of so many ports in a row that nobody has, below those that the system hands out."""
    for first in range(18400, 28000, count):
        try:
            for port in range(first, first + count):
                with socket.socket() as probe:
                    probe.bind(("0.0.0.0", port))
            return first
        except OSError:
            continue
    raise AssertionError("no free ports")


def random_model(name, shape):
    """The file of a random model, made once a build."""
    assert os.path.isfile(RANDOM_MODEL), "SALVAGE_RANDOM_MODEL must name the program random_model"
    assert os.path.isfile(VOCABULARY), "SALVAGE_MODEL_SMOLLM2 must name a model's file"
    path = KEPT / f"{name}.gguf"
    if not path.exists():
        KEPT.mkdir(parents=True, exist_ok=True)
        part = KEPT / f"{name}.{os.getpid()}.part"
        command = [RANDOM_MODEL, "--arch", "llama", "--type", "q8_0", *shape, "--ctx", 8192,
                   "--vocab-from", VOCABULARY, "-o", part]
        subprocess.run([str(word) for word in command], check=True, timeout=60,
                       stdout=subprocess.DEVNULL)
        part.rename(path)
    return path


def _status(pid):
    text = pathlib.Path(f"/proc/{pid}/status").read_text(encoding="utf-8")
    return dict(line.split(":", 1) for line in text.splitlines() if ":" in line)


class Resources:
    """Of one process, now."""

    def __init__(self, pid):
        status = _status(pid)
        self.rss_bytes = int(status["VmRSS"].split()[0]) * 1024
        self.threads = int(status["Threads"])
        self.descriptors = len(os.listdir(f"/proc/{pid}/fd"))

    def __repr__(self):
        return f"{self.rss_bytes >> 20} MiB, {self.threads} threads, {self.descriptors} descriptors"


def descendants(pid):
    parents = {}
    for name in os.listdir("/proc"):
        if not name.isdigit():
            continue
        try:
            parents[int(name)] = int(_status(name)["PPid"])
        except (FileNotFoundError, ProcessLookupError):
            continue
    found, waiting = [], [pid]
    while waiting:
        parent = waiting.pop()
        found.append(parent)
        waiting += [child for child, of in parents.items() if of == parent]
    return found


class Served:
    """The cluster, from `with` to its end. `models`: name -> shape of a random model, or a file."""

    def __init__(self, models, sequences=16, context=512, stages=STAGES, up=(), load=()):
        assert os.path.isfile(BINARY), "SALVAGE_BINARY must name the program"
        self.models, self.sequences, self.context = models, sequences, context
        self.stages, self.up_options, self.load_options = stages, up, load
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="salvage-load-"))
        self.env = {"PATH": os.environ["PATH"], "HOME": str(self.folder),
                    "SALVAGE_CACHE": str(self.folder / "cache"), "SALVAGE_LOG": "warning"}
        self.processes = []
        self.first_port = free_ports(PORTS * stages)
        self.api_port = self.first_port + PORTS - 1
        self.address = ("127.0.0.1", self.api_port)

    def _options(self, index):
        port = self.first_port + PORTS * index
        return ["--data", self.folder / f"d{index}", "--port", port, "--name", f"m{index}",
                "--stage-ports", f"{port + 1}-{port + 8}"]

    def _start(self, verb, *arguments):
        log = self.folder / f"{verb}{len(self.processes)}.log"
        self.processes.append(Process([verb], [BINARY, verb, *arguments], self.env, log))
        return self.processes[-1]

    def attempt(self, *arguments, index=0, seconds=LOAD_S):
        """A command that may fail."""
        return subprocess.run([BINARY, *map(str, arguments), "--data", self.folder / f"d{index}"],
                              env=self.env, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                              timeout=seconds, check=False, encoding="utf-8")

    def command(self, *arguments, **options):
        """What a command writes that must succeed."""
        done = self.attempt(*arguments, **options)
        assert done.returncode == 0, f"{arguments}: {done.stderr}{self.logs()}"
        return done.stdout

    def _answers(self, index):
        process = self.processes[index]
        assert process.running(), f"ended at once: {process.describe()}"
        done = subprocess.run([BINARY, "status", "--json", "--data", self.folder / f"d{index}"],
                              env=self.env, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                              timeout=30, check=False, encoding="utf-8")
        return done.returncode == 0 and (index == 0 or '"connected":true' in
                                         done.stdout.replace(" ", ""))

    def __enter__(self):
        try:
            self._start_all()
            return self
        except BaseException:
            self.close()
            raise

    def _start_all(self):
        self._start("up", *self._options(0), "--download-port", 0, "--listen",
                    f"127.0.0.1:{self.api_port}", *self.up_options)
        wait_until(lambda: self._answers(0), START_S, self.logs, 0.1)
        for index in range(1, self.stages):
            code = CODE.search(self.command("invite"))[0]
            self._start("join", code, "--at", f"127.0.0.1:{self.first_port}", *self._options(index))
            wait_until(lambda index=index: self._answers(index), START_S, self.logs, 0.1)
        for name, what in self.models.items():
            path = what if isinstance(what, (str, pathlib.Path)) else random_model(name, what)
            self.command("load", path, "--parallel", self.sequences, "--ctx", self.context,
                         "--threads", 1, *self.load_options)

    def logs(self):
        return "\n".join(process.describe(25) for process in self.processes)

    def check_alive(self):
        for process in self.processes:
            assert process.running(), f"a process has ended: {process.describe(40)}"

    def pids(self):
        return [pid for process in self.processes for pid in descendants(process.pid)]

    def resources(self):
        """Of each process, the stages' own among them."""
        self.check_alive()
        return {pid: Resources(pid) for pid in self.pids()}

    async def settled(self, before, seconds=30):
        """Waits until no process has more threads or descriptors than `before` says. The event loop
        goes on meanwhile: it is what closes connections."""
        time = stopwatch()
        while True:
            now = self.resources()
            assert now.keys() == before.keys(), f"other processes: {before} {now}"
            if all(now[pid].threads <= before[pid].threads
                   and now[pid].descriptors <= before[pid].descriptors for pid in now):
                return
            assert time() < seconds, f"threads and descriptors after {seconds} s: {before}, now {now}"
            await asyncio.sleep(0.1)

    def __exit__(self, kind, *unused):
        if kind is not None:
            print(self.logs())
        self.close()

    def close(self):
        for process in reversed(self.processes):
            process.end()
        shutil.rmtree(self.folder, ignore_errors=True)


def stopwatch():
    begin = time.monotonic()
    return lambda: time.monotonic() - begin

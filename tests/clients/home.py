"""Three machines on this one that serve a model together, and llama-server beside them.

    with Home(model) as home:
        home.serve(model, "--split", "10,10,10")
        ... requests to BASE_URL with KEY ...

Each machine is a data folder with a process of its own; all speak over loopback, TLS between them as
always. Everything lies in one temporary folder and goes with the test, every process ends by its id.
Environment: SALVAGE_BINARY; SALVAGE_CLIENTS_LOGS keeps what the processes wrote in that folder.
"""
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import tempfile
import urllib.request

from processes import Process, wait_until

BINARY = os.environ.get("SALVAGE_BINARY", "")
API_PORT = 18300
NODE_PORTS = (18301, 18302, 18303)
STAGE_PORTS = ("17560-17563", "17564-17567", "17568-17571")
LLAMA_PORT = 18310
BASE_URL = f"http://127.0.0.1:{API_PORT}"
LLAMA_URL = f"http://127.0.0.1:{LLAMA_PORT}"
KEY = "sk-of-these-tests"
CODE = re.compile(r"slv1\.[0-9A-Za-z-]+")
# One conversation has so many tokens; so many are answered at once.
CONTEXT = 1024
SEQUENCES = 4
START_S = 60
LOAD_S = 120
PAUSE_S = 0.05


def model_file(variable):
    path = os.environ.get(variable, "")
    assert os.path.isfile(path), f"{variable} must name a model's file: tools/run_tests.sh clients sets it"
    return path


class Machine:
    """One data folder and the process that works in it."""

    def __init__(self, home, number):
        self.name = f"machine-{number + 1}"
        self.folder = home.folder / self.name
        self.port, self.stage_ports = NODE_PORTS[number], STAGE_PORTS[number]
        self.folder.mkdir()
        self.environment = {"PATH": os.environ.get("PATH", "/usr/bin:/bin"), "HOME": str(self.folder),
                            "SALVAGE_CACHE": str(self.folder / "cache"),
                            "XDG_RUNTIME_DIR": str(self.folder)}
        self.process = None

    def start(self, *arguments):
        command = [BINARY, *arguments, "--data", self.folder / "data", "--name", self.name,
                   "--port", self.port, "--stage-ports", self.stage_ports]
        self.process = Process(command, command, self.environment, self.folder / "log")
        wait_until(self.answers, START_S, lambda: f"{self.name} is ready: {self.process.describe()}",
                   PAUSE_S)

    def answers(self):
        assert self.process.running(), f"ended at once: {self.process.describe()}"
        status = self.call("status", "--json", check=False)
        return status and json.loads(status)["connected"]

    def call(self, *arguments, check=True, seconds=LOAD_S):
        """What a command beside the process writes, or None if it may fail and did."""
        command = [BINARY, *map(str, arguments), "--data", str(self.folder / "data")]
        done = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, env=self.environment, timeout=seconds, check=False,
                              encoding="utf-8")
        assert done.returncode == 0 or not check, f"{command}: {done.stderr}"
        return done.stdout if done.returncode == 0 else None


class Home:
    """The cluster. serve() may be called again with another model."""

    def __init__(self):
        assert os.path.isfile(BINARY), "SALVAGE_BINARY must name the program"
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="salvage-clients-"))
        self.machines = [Machine(self, number) for number in range(len(NODE_PORTS))]
        self.first = self.machines[0]
        self.name = None  # of the model that is served
        self.peer = None

    def __enter__(self):
        try:
            self.first.start("up", "--download-port", "0", "--listen", f"127.0.0.1:{API_PORT}",
                             "--api-key", KEY)
            for machine in self.machines[1:]:
                machine.start("join", CODE.search(self.first.call("invite"))[0])
        except BaseException:
            self.__exit__(True)
            raise
        return self

    def __exit__(self, failed, *unused):
        processes = [machine.process for machine in self.machines if machine.process] + (
            [self.peer] if self.peer else [])
        for process in reversed(processes):
            process.send(signal.SIGINT)
        for process in reversed(processes):
            if failed:
                print(process.describe(20), flush=True)
            process.end()
        keep = os.environ.get("SALVAGE_CLIENTS_LOGS")
        if keep:
            for path in self.folder.glob("*/log.*"):
                pathlib.Path(keep).mkdir(parents=True, exist_ok=True)
                shutil.copy(path, pathlib.Path(keep, f"{path.parent.name}{path.suffix}"))
        shutil.rmtree(self.folder, ignore_errors=True)

    def serve(self, model, *arguments):
        """Loads the model over all three machines, in place of the one before."""
        if self.name:
            self.first.call("unload", self.name)
        self.first.call("load", model, "--threads", 1, "--ctx", CONTEXT, "--sequences", SEQUENCES,
                        *arguments)
        rows = json.loads(self.first.call("ps", "--json"))["deployments"]
        row = next(row for row in rows if row["state"] == "ready")
        nodes = {stage["name"] for stage in row["stages"]}
        assert len(nodes) == len(self.machines), f"not on three machines: {nodes}"
        self.name = row["name"]
        return self

    def serve_beside(self, program, model, *arguments):
        """llama-server with the same model, context and cache; one thread, as each stage has."""
        folder = self.folder / "llama-server"
        folder.mkdir()
        command = [program, "-m", model, "--alias", self.name, "--host", "127.0.0.1", "--port", LLAMA_PORT,
                   "--api-key", KEY, "--ctx-size", CONTEXT * SEQUENCES, "--parallel", SEQUENCES,
                   "--no-kv-unified", "--flash-attn", "on", "--cache-type-k", "q8_0",
                   "--cache-type-v", "q8_0", "--threads", 1, "--fit", "off", "--offline", *arguments]
        self.peer = Process(command, command, {"PATH": os.environ["PATH"], "HOME": str(folder)},
                            folder / "log")
        wait_until(self.peer_answers, START_S, lambda: f"llama-server: {self.peer.describe()}", PAUSE_S)
        return self

    def peer_answers(self):
        assert self.peer.running(), f"ended at once: {self.peer.describe()}"
        try:
            with urllib.request.urlopen(f"{LLAMA_URL}/health", timeout=5) as answer:
                return answer.status == 200
        except OSError:
            return False

    def environment(self):
        """For test programs: where to ask, and how to look at the cluster."""
        return {**os.environ, "SALVAGE_CLIENTS_URL": BASE_URL, "SALVAGE_CLIENTS_KEY": KEY,
                "SALVAGE_CLIENTS_MODEL": self.name, "SALVAGE_CLIENTS_CONTEXT": str(CONTEXT),
                "SALVAGE_CLIENTS_DATA": str(self.first.folder / "data")}

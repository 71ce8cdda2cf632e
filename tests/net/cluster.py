"""The program on the hosts of a test network: machines that start, join, load and answer.

    with Cluster(3) as cluster:
        first, second, third = cluster.up_and_join()
        first.load(MODEL)
        print(first.run(MODEL, "Once upon a time", tokens=16)["text"])

A Machine is one host with one data folder; start() runs `salvage up` or `salvage join` on it as a
process, everything else is a command beside that. Commands talk to the running process over its
admin socket, as a person's would. Limits are generous, for quotas and a busy machine: what is slow
because it waits for something is found by the scenarios' own, tighter bounds.
"""
import json
import os
import pathlib
import re
import signal

from netns import Net
from processes import wait_until

BINARY = os.environ.get("SALVAGE_BINARY", "")
MODEL = os.environ.get("SALVAGE_MODEL_SMOLLM2", "")
PORT = 7420
STAGE_PORTS = range(7421, 7437)
DOWNLOAD_PORT = 7419
START_S = 30
COMMAND_S = 90
LOAD_S = 120
LOST_S = 6.0  # docs/cluster.md: a silent machine is lost after at most so long
PAUSE_S = 0.1  # between two commands that look for something
CODE = re.compile(r"slv1\.[0-9A-Za-z-]+")


def command_line(pid):
    try:
        return pathlib.Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    except (FileNotFoundError, ProcessLookupError):
        return [b""]


def is_salvage(pid):
    return os.path.basename(command_line(pid)[0]) == b"salvage"


class Machine:
    """One host, its data folder, and the salvage process that runs on it, if any."""

    def __init__(self, host):
        self.host = host
        self.name = host.name
        self.process = None
        self.is_coordinator = False

    # --- the process ---

    def up(self, *arguments):
        """`salvage up`; returns when commands are answered."""
        self.is_coordinator = True
        return self._start("up", *arguments)

    def join(self, code=None, *arguments):
        """`salvage join`, with a code or as the member that it is."""
        self.is_coordinator = False
        return self._start("join", *([code] if code else []), *arguments)

    def _start(self, verb, *arguments):
        assert self.process is None or not self.process.running(), f"{self.name} runs already"
        self.process = self.host.run([BINARY, verb, *arguments], name=verb)
        return self.process

    def ready(self, seconds=START_S):
        """Waits until the process answers commands (and, if it joined, is connected)."""
        def answers():
            assert self.process.running(), f"ended at once: {self.process.describe()}"
            status = self.command("status", "--json", check=False)
            return status.code == 0 and (self.is_coordinator or json.loads(status.out)["connected"])
        wait_until(answers, seconds, lambda: f"{self.name} is ready: {self.process.describe()}",
                   PAUSE_S)
        return self

    def joins(self, code, *arguments):
        """Joins and is ready."""
        self.join(code, *arguments)
        return self.ready()

    def fails_to_join(self, code, *parts, seconds=START_S):
        """The join must end by itself, not with 0, and say all of `parts`."""
        self.join(code)
        done = self.process.wait(seconds)
        assert done.code == 1, repr(done)
        for part in parts:
            assert part in done.err, f"{part!r} is not in: {done!r}"
        return done

    def stop(self):
        """As Ctrl-C does; has to be gone within 2 s, and with it all that it started."""
        self.process.send(signal.SIGINT)
        wait_until(lambda: not self.process.running(), 2 + self.slack(), f"{self.name} has ended")
        assert self.process.code in (0, 130), self.process.describe()
        self.all_gone()

    def kill(self):
        """kill -9; its workers must not live on."""
        self.process.kill()
        self.all_gone()

    def all_gone(self):
        """Nothing of salvage's is left on the host."""
        def left():
            return [pid for pid in self.host.pids() if is_salvage(pid)]
        wait_until(lambda: not left(), 3 + self.slack(),
                   lambda: f"processes of {self.name} have ended: {left()}")

    def slack(self):
        """A host with a quota does everything later."""
        return 4 if self.host.has_quota else 0

    def restart(self):
        """Starts it again as what it was."""
        self._start("up" if self.is_coordinator else "join")
        return self.ready()

    # --- commands ---

    def command(self, *arguments, check=True, seconds=COMMAND_S):
        done = self.host.call([BINARY, *arguments], seconds, name=str(arguments[0]))
        assert not check or done.code == 0, repr(done)
        return done

    def ask(self, *arguments, seconds=COMMAND_S):
        """A reading command's JSON."""
        return json.loads(self.command(*arguments, "--json", seconds=seconds).out)

    def invite(self, *arguments):
        """A new join code."""
        return CODE.search(self.command("invite", *arguments).out)[0]

    def nodes(self):
        """The cluster's machines by name, as this one sees them."""
        return {row["name"]: row for row in self.ask("nodes")["nodes"]}

    def states(self):
        return {name: row["state"] for name, row in self.nodes().items()}

    def sees(self, seconds=START_S, **states):
        """Waits until `nodes` shows these machines in these states: sees(h1="lost")."""
        wait_until(lambda: states.items() <= self.states().items(), seconds,
                   lambda: f"{self.name} sees {states}, not {self.states()}", PAUSE_S)
        return self

    def reaches(self, coordinator, seconds=40):
        """Waits until this machine's link leads to the coordinator's present address."""
        def there():
            status = self.ask("status")
            return status["connected"] and coordinator.host.address in status["coordinator_address"]
        wait_until(there, seconds, lambda: f"{self.name} found {coordinator.host.address}: "
                   f"{self.process.describe()}", PAUSE_S)

    def load(self, *arguments, seconds=LOAD_S):
        """Loads MODEL. One thread a stage: on one machine, more would wait for each other."""
        return self.command("load", MODEL, "--threads", 1, *arguments, seconds=seconds)

    def begin_to_load(self, *arguments):
        """The same without waiting for its end: a process."""
        return self.host.run([BINARY, "load", MODEL, "--threads", 1, *arguments], name="load")

    def deployment(self):
        """The one deployment as `ps` shows it, or None."""
        rows = self.ask("ps")["deployments"]
        return rows[0] if rows else None

    def is_loaded(self, after=0, seconds=LOAD_S):
        """Waits until the one deployment is ready, with a plan after this one; returns it."""
        def ready():
            row = self.deployment()
            return row if row and row["state"] == "ready" and row["epoch"] > after else None
        return wait_until(ready, seconds, lambda: f"loaded: {self.deployment()}", PAUSE_S)

    def run(self, prompt, tokens, *arguments, seconds=COMMAND_S):
        """The answer as JSON: text, token_ids, ..., nodes, logits_hash if asked for."""
        done = self.command("run", MODEL, prompt, "-n", tokens, "--temp", "0", "--json",
                            *arguments, seconds=seconds)
        return json.loads(done.out)

    # --- what a machine has ---

    def received_bytes(self):
        """Over all of its cards since they exist."""
        rows = self.host.call(["cat", "/proc/net/dev"]).out.splitlines()[2:]
        return sum(int(row.split(":")[1].split()[0]) for row in rows if row.split(":")[0].strip() != "lo")

    def stored_bytes(self):
        files = [path for path in (self.host.data / "models").rglob("*") if path.is_file()]
        return sum(path.stat().st_blocks * 512 for path in files)

    def workers(self):
        """Process ids of its stage workers."""
        return [pid for pid in self.host.pids() if is_salvage(pid) and b"stage" in command_line(pid)]


class Cluster:
    """A network whose hosts run salvage. Ends everything, and shows logs if the body failed."""

    def __init__(self, host_count):
        assert os.path.isfile(BINARY), "SALVAGE_BINARY must name the program"
        assert os.path.isfile(MODEL), "SALVAGE_MODEL_SMOLLM2 must name a model's file"
        self.net = Net(host_count)
        self.machines = [Machine(host) for host in self.net.hosts]

    def add(self, host):
        self.machines.append(Machine(host))
        return self.machines[-1]

    def up_and_join(self, *machines):
        """The first starts a cluster, the others join it; returns them."""
        first, *others = machines or self.machines
        first.up("--name", first.name)
        first.ready()
        for machine in others:
            machine.joins(first.invite(), "--name", machine.name)
        first.sees(**{machine.name: "online" for machine in (first, *others)})
        return (first, *others)

    def show_logs(self):
        for machine in self.machines:
            for process in machine.host.processes[-3:]:
                print(f"[{machine.name}] {process.describe(25)}")

    def __enter__(self):
        return self

    def __exit__(self, kind, *unused):
        try:
            if kind is not None and issubclass(kind, (AssertionError, KeyError)):
                self.show_logs()
        finally:
            self.net.close()

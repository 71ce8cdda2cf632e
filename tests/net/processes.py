"""Processes of a test: each writes to a log of its own, every wait has a limit, each ends by its id."""
import contextlib
import fcntl
import os
import pathlib
import signal
import subprocess
import time

PAUSE_S = 0.02  # between two looks at something that is waited for


class Unavailable(Exception):
    """This machine lacks what a test needs; the message says what."""


def system(*command, given=None):
    """Runs a tool of the system that must succeed; returns what it wrote."""
    done = subprocess.run(list(map(str, command)), input=given, stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, timeout=30, check=False, encoding="utf-8")
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(map(str, command))}: {done.stderr.strip()}\n{given or ''}")
    return done.stdout


def wait_until(condition, seconds, what, pause=PAUSE_S):
    """The first true value of condition(); AssertionError naming `what` once the time is over."""
    begin = time.monotonic()
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() - begin > seconds:
            raise AssertionError(f"not within {seconds} s: {what() if callable(what) else what}")
        time.sleep(pause)


@contextlib.contextmanager
def exclusive(path, seconds):
    """Only one process of the machine is in here with this file at a time. Not to be nested."""
    def locked():
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return True
        except BlockingIOError:
            return False
    with open(path, "ab") as file:
        wait_until(locked, seconds, f"nobody else holds {path}")
        yield


def stat_fields(pid):
    """Fields of /proc/PID/stat from the state on, or None if there is no such process."""
    try:
        text = pathlib.Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except (FileNotFoundError, ProcessLookupError):
        return None
    return text.rsplit(")", 1)[1].split()


def start_time(pid):
    """When a process began, in ticks since boot: with its id it names a process for good; or None."""
    fields = stat_fields(pid)
    return int(fields[19]) if fields else None


def is_running(pid):
    fields = stat_fields(pid)
    return fields is not None and fields[0] not in "ZX"


def end_by_id(pids, seconds=5):
    """Kills these processes and returns those that are still there after so long."""
    for pid in pids:
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
    begin = time.monotonic()
    left = list(pids)
    while left and time.monotonic() - begin < seconds:
        left = [pid for pid in left if is_running(pid)]
        time.sleep(0.005)
    return left


class Finished:
    """How a command ended: code, out, err."""

    def __init__(self, command, code, out, err):
        self.command, self.code, self.out, self.err = command, code, out, err

    def __repr__(self):
        return f"{self.command}: exit code {self.code}\n--- out\n{self.out}\n--- err\n{self.err}"


class Process:
    """A running command. `command` is what a reader should see, `argv` what is really started."""

    def __init__(self, command, argv, env, log, cwd=None):
        self.command = " ".join(map(str, command))
        self.log = pathlib.Path(log)
        self.out_path = self.log.with_suffix(".out")
        self.err_path = self.log.with_suffix(".err")
        with open(self.out_path, "wb") as out, open(self.err_path, "wb") as err:
            self._process = subprocess.Popen(  # pylint: disable=consider-using-with
                list(map(str, argv)), stdin=subprocess.PIPE, stdout=out, stderr=err, env=env,
                cwd=cwd, start_new_session=True)
        self.pid = self._process.pid

    @property
    def out(self):
        return self.out_path.read_text(encoding="utf-8", errors="replace")

    @property
    def err(self):
        return self.err_path.read_text(encoding="utf-8", errors="replace")

    def running(self):
        return self._process.poll() is None

    @property
    def code(self):
        """The exit code, negative for a signal, None while it runs."""
        return self._process.poll()

    def say(self, data):
        """Gives it standard input and ends that."""
        self._process.stdin.write(data)
        self._process.stdin.close()

    def send(self, number):
        if self.running():
            os.kill(self.pid, number)

    def wait(self, seconds):
        """A Finished once it has ended by itself."""
        try:
            self._process.wait(seconds)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"still running after {seconds} s: {self.describe()}") from None
        return Finished(self.command, self.code, self.out, self.err)

    def expect(self, text, seconds):
        """Waits until it has written `text` to one of its streams, and fails early if it ends."""
        def seen():
            ended = not self.running()
            if text in self.out or text in self.err:
                return True
            assert not ended, f"ended without saying {text!r}: {self.describe()}"
            return False
        wait_until(seen, seconds, lambda: f"{text!r} from {self.describe()}")
        return self

    def describe(self, lines=15):
        """The command and the last lines that it wrote, for a message."""
        out = self.out.splitlines()[-lines:]
        err = self.err.splitlines()[-lines:]
        return "\n".join([f"{self.command} (process {self.pid}, exit code {self.code})",
                          *[f"  out| {line}" for line in out], *[f"  err| {line}" for line in err]])

    def end(self, seconds=5):
        """Asks it to end, and kills it if it doesn't. Returns its exit code."""
        for number, patience in ((signal.SIGTERM, seconds), (signal.SIGKILL, 5)):
            if self.running():
                self.send(signal.SIGCONT)
                self.send(number)
                try:
                    self._process.wait(patience)
                except subprocess.TimeoutExpired:
                    pass
        self._close_input()
        assert not self.running(), f"cannot be ended: {self.describe()}"
        return self.code

    def kill(self):
        """kill -9."""
        self.send(signal.SIGKILL)
        self._process.wait(5)
        self._close_input()

    def _close_input(self):
        try:
            self._process.stdin.close()
        except BrokenPipeError:
            pass

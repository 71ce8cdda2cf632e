"""What the tests of the built program share: how to run it, watch its processes, and make files for it.

Environment: SALVAGE_BINARY, SALVAGE_MODEL_SMOLLM2, SALVAGE_MODEL_QWEN (a test that needs one of them
fails without it).
Every process is ended by its id, every wait has a limit, and everything is written under one
temporary folder that goes with the test program.
"""
import os
import pathlib
import select
import shutil
import signal
import struct
import subprocess
import tempfile
import time
import unittest

BINARY = os.environ.get("SALVAGE_BINARY", "")
WAIT_S = 90  # for what takes a second on an idle machine
WORK = pathlib.Path(tempfile.mkdtemp(prefix="salvage-test-"))
RUNTIME = WORK / "run"  # where the program puts its run folders
ENVIRONMENT = {
    "PATH": os.environ.get("PATH", "/usr/bin:/bin"),
    "HOME": str(WORK),
    "SALVAGE_CACHE": str(WORK / "cache"),
    "XDG_RUNTIME_DIR": str(RUNTIME),
}


def start_module():
    """For setUpModule(): the folders that ENVIRONMENT names."""
    RUNTIME.mkdir(exist_ok=True)


def end_module():
    """For tearDownModule()."""
    shutil.rmtree(WORK, ignore_errors=True)


def model(variable="SALVAGE_MODEL_SMOLLM2"):
    path = os.environ.get(variable, "")
    if not os.path.isfile(path):
        raise AssertionError(f"{variable} must name a model's file: tools/run_tests.sh e2e sets it")
    return path


class Finished:
    """A run that ended: its exit code and what it wrote."""

    def __init__(self, done):
        self.code = done.returncode
        self.out_bytes = done.stdout
        self.out = done.stdout.decode("utf-8")  # fails the test if it isn't whole characters
        self.err = done.stderr.decode("utf-8", "replace")


def salvage(*arguments, stdin=b"", env=None, timeout=WAIT_S):
    command = [BINARY, *map(str, arguments)]
    done = subprocess.run(command, input=stdin, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          env={**ENVIRONMENT, **(env or {})}, timeout=timeout, check=False)
    return Finished(done)


def process_state(pid):
    """(state letter, parent) of a process, or None."""
    try:
        text = pathlib.Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return None
    fields = text.rsplit(")", 1)[1].split()
    return fields[0], int(fields[1])


def runs(pid):
    state = process_state(pid)
    return state is not None and state[0] not in "ZX"


def children(pid):
    numbers = [int(name) for name in os.listdir("/proc") if name.isdigit()]
    return sorted(number for number in numbers if (process_state(number) or ("", 0))[1] == pid)


def wait_until(condition, seconds):
    """Seconds that it took, or None."""
    begin = time.monotonic()
    while time.monotonic() - begin < seconds:
        if condition():
            return time.monotonic() - begin
        time.sleep(0.005)
    return None


def run_folders():
    return sorted(path.name for path in RUNTIME.iterdir())


class Answering:
    """`salvage run` in the middle of a long answer: several bytes of it have been read."""

    def __init__(self, *arguments, stages=3, tokens=4000):
        command = [BINARY, "run", model(), "Once upon a time", "--temp", "0", "-n", str(tokens),
                   "--stages", str(stages), "--ctx", "4096", "--threads", "1", *arguments]
        self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                        stderr=subprocess.PIPE, env=ENVIRONMENT)
        self.pid = self.process.pid
        self.workers = []

    def __enter__(self):
        begin, text = time.monotonic(), b""
        while len(text) < 20:
            if not select.select([self.process.stdout], [], [], 1)[0]:
                if time.monotonic() - begin > WAIT_S:
                    self.__exit__()
                    raise AssertionError("no answer came")
                continue
            part = os.read(self.process.stdout.fileno(), 20)
            if not part:
                raise AssertionError(f"it ended early: {self.process.stderr.read().decode()}")
            text += part
        self.workers = children(self.pid)
        return self

    def __exit__(self, *unused):
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait(WAIT_S)
        for pipe in (self.process.stdout, self.process.stderr):
            pipe.close()

    def ended(self, seconds=WAIT_S):
        """Exit code and standard error, once it ended by itself."""
        _, err = self.process.communicate(timeout=seconds)
        return self.process.returncode, err.decode("utf-8", "replace")

    def send(self, number):
        os.kill(self.pid, number)

    def workers_left(self):
        return [pid for pid in self.workers if runs(pid)]


class Test(unittest.TestCase):
    def assert_fails(self, finished, *parts, code=1):
        """It failed with one line on standard error that holds all of `parts`, and no output."""
        self.assertEqual(finished.code, code, finished.err)
        self.assertEqual(finished.out, "")
        for part in parts:
            self.assertIn(part, finished.err)
        if code == 1:
            self.assertEqual(len(finished.err.strip().splitlines()), 1, finished.err)
            self.assertTrue(finished.err.startswith("salvage: "), finished.err)


def continued(pid):
    """Lets a stopped process go on, for cleaning up; it may be gone."""
    try:
        os.kill(pid, signal.SIGCONT)
    except ProcessLookupError:
        pass


U32, F32, STRING, ARRAY = 4, 6, 8, 9


def gguf_string(text):
    data = text.encode()
    return struct.pack("<Q", len(data)) + data


def gguf_value(kind, value):
    if kind == STRING:
        return gguf_string(value)
    if kind == ARRAY:
        item, values = value
        head = struct.pack("<IQ", item, len(values))
        return head + b"".join(gguf_value(item, one) for one in values)
    return struct.pack("<I" if kind == U32 else "<f", value)


def tiny_gguf(path, architecture="llama", layers=4, **changes):
    """A model of some kilobytes: right in form, nonsense in content.

    Changes: general_type, tokenizer (its kind; None: a file without one), extra (more metadata).
    """
    tokenizer = changes.get("tokenizer", "gpt2")
    width = 32
    metadata = [
        ("general.architecture", STRING, architecture), ("general.name", STRING, "tiny"),
        (f"{architecture}.block_count", U32, layers), (f"{architecture}.context_length", U32, 256),
        (f"{architecture}.embedding_length", U32, width),
        (f"{architecture}.feed_forward_length", U32, 2 * width),
        (f"{architecture}.attention.head_count", U32, 2),
        (f"{architecture}.attention.head_count_kv", U32, 1),
        (f"{architecture}.attention.layer_norm_rms_epsilon", F32, 1e-5),
        (f"{architecture}.rope.dimension_count", U32, 16),
    ]
    if tokenizer:
        metadata.append(("tokenizer.ggml.model", STRING, tokenizer))
    if tokenizer == "gpt2":
        metadata += [
            ("tokenizer.ggml.tokens", ARRAY, (STRING, ["a", "b", "c", "ab", "ba", "abc", "d", "e"])),
            ("tokenizer.chat_template", STRING, "{{ messages }}")]
    if "general_type" in changes:
        metadata.append(("general.type", STRING, changes["general_type"]))
    metadata += changes.get("extra", [])
    shapes = [("token_embd.weight", (width, 8)), ("output_norm.weight", (width,)),
              ("output.weight", (width, 8))]
    for i in range(layers):
        shapes += [(f"blk.{i}.attn_norm.weight", (width,)), (f"blk.{i}.attn_q.weight", (width, width)),
                   (f"blk.{i}.attn_k.weight", (width, 16)), (f"blk.{i}.attn_v.weight", (width, 16)),
                   (f"blk.{i}.attn_output.weight", (width, width)),
                   (f"blk.{i}.ffn_norm.weight", (width,)), (f"blk.{i}.ffn_gate.weight", (width, 64)),
                   (f"blk.{i}.ffn_up.weight", (width, 64)), (f"blk.{i}.ffn_down.weight", (64, width))]
    head = struct.pack("<4sIQQ", b"GGUF", 3, len(shapes), len(metadata))
    for key, kind, value in metadata:
        head += gguf_string(key) + struct.pack("<I", kind) + gguf_value(kind, value)
    data = b""
    for number, (name, shape) in enumerate(shapes):
        values = struct.pack("<f", number / 64) * (shape[0] * (shape[1] if len(shape) > 1 else 1))
        head += gguf_string(name) + struct.pack("<I", len(shape))
        head += struct.pack(f"<{len(shape)}Q", *shape) + struct.pack("<IQ", 0, len(data))
        data += values + b"\0" * (-len(values) % 32)
    pathlib.Path(path).write_bytes(head + b"\0" * (-len(head) % 32) + data)
    return str(path)

"""A machine with nothing on it: a root file system for a host of the test network.

In it: a shell, coreutils, tar, gzip and curl, each with the shared libraries that it needs, and the C
library whole, as on every Linux; all copied from this machine, and /proc, /sys and four devices. No
compiler, no Python, no library but those, nothing of this project, nobody's home folder. Another tree can
be its base instead, for example an older Debian's: SALVAGE_CLEAN_ROOT names it; it has to have these
programs itself.
"""
import os
import pathlib
import re
import shutil
import subprocess

PROGRAMS = ["sh", "cat", "chmod", "cp", "env", "gzip", "ln", "ls", "mkdir", "mv", "rm", "sha256sum", "tar",
            "curl"]
# Of the C library, whether those programs use it or not.
LIBC = ["libpthread.so.0", "libdl.so.2", "libm.so.6", "librt.so.1"]
DEVICES = ["null", "zero", "random", "urandom"]
ENTER = """set -e
root=$1
shift
mount -t proc proc "$root/proc"
mount -t sysfs sysfs "$root/sys"
for one in null zero random urandom; do mount --bind /dev/$one "$root/dev/$one"; done
exec chroot "$root" /usr/bin/env -i HOME=/me PATH=/me/.local/bin:/usr/bin:/bin "$@"
"""


def libraries_of(program):
    """Absolute paths of the shared libraries, the loader among them."""
    listed = subprocess.run(["ldd", program], capture_output=True, text=True, check=True).stdout
    return re.findall(r"(/\S+) \(0x", listed)


def put(root, path):
    """Copies a file to the same place below root, with the links of merged folders resolved."""
    source = pathlib.Path(path)
    target = root / os.path.realpath(source.parent).lstrip("/") / source.name
    if not target.exists():
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(source.resolve(), target)


def fill(root):
    for folder in ("usr/bin", "usr/lib", "usr/lib64"):
        (root / folder).mkdir(parents=True)
    for link in ("bin", "lib", "lib64"):
        (root / link).symlink_to(f"usr/{link}")
    for name in PROGRAMS:
        program = shutil.which(name)
        put(root, program)
        for library in libraries_of(program):
            put(root, library)
            if pathlib.Path(library).name == "libc.so.6":
                for part in LIBC:
                    put(root, pathlib.Path(library).with_name(part))


class CleanRoot:
    """Of one host; it lies in the host's folder and goes with it."""

    def __init__(self, host):
        self.host = host
        self.path = host.folder / "root"
        base = os.environ.get("SALVAGE_CLEAN_ROOT")
        if base:
            shutil.copytree(base, self.path, symlinks=True)
        else:
            self.path.mkdir()
            fill(self.path)
        for folder in ("proc", "sys", "dev", "tmp", "me", "etc"):
            (self.path / folder).mkdir(exist_ok=True)
        for name in DEVICES:
            (self.path / "dev" / name).touch()
        (self.path / "etc/passwd").write_text("root:x:0:0:root:/me:/bin/sh\n")

    @property
    def home(self):
        return self.path / "me"

    def give(self, path, name):
        """As from a memory stick: into the home folder."""
        try:
            os.link(path, self.home / name)
        except OSError:
            shutil.copyfile(path, self.home / name)

    def argv(self, line):
        """Runs a shell's line in it, in the home folder."""
        return ["unshare", "--mount", "sh", "-c", ENTER, "sh", str(self.path), "sh", "-c", f"cd; {line}"]

    def run(self, line, name):
        return self.host.run(self.argv(line), name=name)

    def call(self, line, seconds, name="line"):
        return self.host.call(self.argv(line), seconds, name=name)

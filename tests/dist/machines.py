"""Machines that this one isn't: an older C library, an older processor.

OldRoot is a root file system with nothing in it but a C library (the pinned libc6 package), the portable
directory and a model. Programs run in it behind chroot, in a mount and process namespace of their own,
so that nothing of them is left when they end; or through qemu as a given processor.
"""
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

WAIT_S = 120
QEMU_WAIT_S = 400
QEMU = "qemu-x86_64-static"
HERE = pathlib.Path(__file__).resolve().parent
REPO = HERE.parent.parent


class Finished:
    def __init__(self, done):
        self.code = done.returncode
        self.out = done.stdout.decode("utf-8")
        self.err = done.stderr.decode("utf-8", "replace")


def run(command, env, timeout):
    """Salvage's workers end with the process that started them, also if that is killed."""
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, env=env, timeout=timeout,
                          check=False)
    return Finished(done)


def hindrance():
    """Why these machines can't be had here, in a sentence; None if they can."""
    if shutil.which(QEMU) is None:
        return f"{QEMU} is missing: tools/install_deps.sh test installs it."
    probe = subprocess.run(["unshare", "--mount", "--pid", "--fork", "--kill-child", "chroot", "/", "true"],
                           capture_output=True, text=True, check=False)
    if probe.returncode != 0:
        return f"A root file system can't be entered here ({probe.stderr.strip()}): run this as root."
    return None


class OldRoot:
    def __init__(self, dist, libc_package, model):
        self.path = pathlib.Path(tempfile.mkdtemp(prefix="salvage-dist-"))
        subprocess.run(["dpkg-deb", "-x", libc_package, str(self.path)], check=True)
        # Without a root of its own, as qemu has it, a link that begins with / would lead out of here.
        loader = self.path / "lib64" / "ld-linux-x86-64.so.2"
        target = os.readlink(loader)
        loader.unlink()
        loader.symlink_to(f"..{target}")
        for name in ("proc", "dev", "tmp", "opt"):
            (self.path / name).mkdir(exist_ok=True)
        (self.path / "dev" / "null").touch()
        shutil.copytree(dist, self.path / "opt" / "salvage")
        self.model = self.path / "opt" / "model.gguf"
        try:
            os.link(model, self.model)
        except OSError:
            shutil.copyfile(model, self.model)
        self._preload = None

    def remove(self):
        shutil.rmtree(self.path, ignore_errors=True)

    def run(self, *command, timeout=WAIT_S):
        """In it, as a machine of its own: paths are its paths."""
        inside = 'mount --bind /dev/null "$1/dev/null" && root=$1 && shift && exec chroot "$root" "$@"'
        return run(["unshare", "--mount", "--pid", "--fork", "--kill-child",
                    f"--mount-proc={self.path}/proc", "sh", "-c", inside, "sh", str(self.path),
                    *map(str, command)],
                   {"PATH": os.environ["PATH"], "HOME": "/tmp", "SALVAGE_CACHE": "/tmp/cache"}, timeout)

    def environment(self):
        """For what runs on this machine: everything that it writes is in the root's tmp."""
        scratch = str(self.path / "tmp")
        return {"PATH": os.environ["PATH"], "HOME": scratch, "SALVAGE_CACHE": scratch + "/cache",
                "XDG_RUNTIME_DIR": scratch}

    def run_as(self, processor, program, *arguments, timeout=QEMU_WAIT_S):
        """On another processor, with this root's C library. Paths are those of this machine."""
        command = [QEMU, "-cpu", processor, "-L", str(self.path), "-E", f"LD_PRELOAD={self._through_qemu()}",
                   str(program), *map(str, arguments)]
        return run(command, {**self.environment(), "DIST_QEMU": shutil.which(QEMU),
                             "DIST_QEMU_CPU": processor, "DIST_QEMU_ROOT": str(self.path)}, timeout)

    def _through_qemu(self):
        if self._preload is None:
            self._preload = self.path / "tmp" / "through_qemu.so"
            root = pathlib.Path(os.environ["SALVAGE_SYSROOT"]) / "root"
            subprocess.run(["gcc", f"--sysroot={root}", f"-B{root}/usr/lib/x86_64-linux-gnu", "-std=c11",
                            "-O2", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC",
                            str(HERE / "through_qemu.c"), "-o", str(self._preload)], check=True)
        return self._preload


if __name__ == "__main__":
    if sys.argv[1:] != ["--check"]:
        sys.exit("usage: machines.py --check")
    sys.exit(hindrance())

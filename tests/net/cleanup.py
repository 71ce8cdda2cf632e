"""What a run made, and how it goes away: by the run itself, by its guard, or by the next run.

Everything has a name that begins with `salvage-net.PID.START.`, the id and start time of the process that
made it: names of a process that is gone are orphans. Several runs may live beside each other; whoever
removes another's things, or looks for orphans, holds machine_lock().
"""
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

import quotas
from processes import end_by_id, exclusive, start_time, system, wait_until

PREFIX = "salvage-net."
NAMES = pathlib.Path("/run/netns")        # where iproute2 keeps namespaces by name
OVERLAYS = pathlib.Path("/etc/netns")     # files that `ip netns exec` lays over /etc
LOCK = pathlib.Path("/run/salvage-net.lock")
LOCK_S = 60  # for somebody else's removal of what a killed run left


def machine_lock():
    """To be held around a look for what others left. Not around the making of a Net, which takes it."""
    return exclusive(LOCK, LOCK_S)


def own_prefix():
    return f"{PREFIX}{os.getpid()}.{start_time(os.getpid())}."


def is_orphaned(name):
    """Does this name belong to a run whose process is gone?"""
    parts = name.removeprefix(PREFIX).split(".")
    if not name.startswith(PREFIX) or len(parts) < 3 or not (parts[0] + parts[1]).isdigit():
        return False
    return start_time(int(parts[0])) != int(parts[1])


def names_in(folder):
    return sorted(os.listdir(folder)) if folder.is_dir() else []


def mounts_below(prefix):
    """Mount points under a work folder of this prefix, the innermost first."""
    lines = pathlib.Path("/proc/self/mounts").read_text(encoding="utf-8").splitlines()
    below = str(pathlib.Path(tempfile.gettempdir(), prefix))
    return sorted((line.split()[1] for line in lines if line.split()[1].startswith(below)), reverse=True)


def processes_of(prefix):
    """All in these namespaces, and those on their way there: the folders in their environment tell."""
    found = set()
    for name in [one for one in names_in(NAMES) if one.startswith(prefix)]:
        found |= {int(pid) for pid in system("ip", "netns", "pids", name).split()}
    mark = f"HOME={tempfile.gettempdir()}/{prefix}".encode()
    for pid in [int(name) for name in os.listdir("/proc") if name.isdigit()]:
        try:
            if mark in pathlib.Path(f"/proc/{pid}/environ").read_bytes():
                found.add(pid)
        except OSError:
            pass  # it has ended, or is no business of ours
    return sorted(found)


def end_processes(prefix):
    """Until none is left: one that was about to start another may have done so."""
    for _ in range(20):
        pids = processes_of(prefix)
        if not pids:
            return
        end_by_id(pids)
    print(f"warning: processes {pids} cannot be ended", file=sys.stderr)


def remove_namespaces(prefix):
    for name in [one for one in names_in(NAMES) if one.startswith(prefix)]:
        system("ip", "netns", "del", name)
    for name in [one for one in names_in(OVERLAYS) if one.startswith(prefix)]:
        shutil.rmtree(OVERLAYS / name, ignore_errors=True)


def is_removed(folder):
    try:
        folder.rmdir()
    except FileNotFoundError:
        pass
    except OSError:
        return False
    return True


def remove_groups(prefix):
    for group in [root / name for root in quotas.ROOTS for name in names_in(root) if name.startswith(prefix)]:
        children = [one for one in group.iterdir() if one.is_dir()]
        for folder in [*children, group]:
            # A killed process leaves its group a moment after it ended.
            wait_until(lambda path=folder: is_removed(path), 5, f"{folder} is empty")


def remove_everything_of(prefix):
    """All that a run made, whatever state it is in. Every step may be repeated."""
    end_processes(prefix)
    remove_namespaces(prefix)
    for mount in mounts_below(prefix):
        subprocess.run(["umount", "--lazy", mount], stderr=subprocess.DEVNULL, check=False)
    remove_groups(prefix)
    for folder in pathlib.Path(tempfile.gettempdir()).glob(prefix + "*"):
        shutil.rmtree(folder, ignore_errors=True)


def leftovers(prefix=PREFIX):
    """What exists of runs with this prefix, for messages and tests."""
    folders = [NAMES, OVERLAYS, *quotas.ROOTS, pathlib.Path(tempfile.gettempdir())]
    return [str(folder / name) for folder in folders for name in names_in(folder)
            if name.startswith(prefix)]


def remove_orphans():
    """Under machine_lock()."""
    found = {name for path in leftovers() for name in [os.path.basename(path)] if is_orphaned(name)}
    for prefix in sorted({".".join(name.split(".")[:3]) + "." for name in found}):
        remove_everything_of(prefix)


def guard_command(prefix):
    return [sys.executable, "-B", __file__, "--guard", prefix]


def guard(prefix):
    """Waits for the end of standard input, which is the end of the process that holds the other side."""
    sys.stdin.buffer.read()
    with machine_lock():
        remove_everything_of(prefix)


if __name__ == "__main__":
    if len(sys.argv) != 3 or sys.argv[1] != "--guard" or not sys.argv[2].startswith(PREFIX):
        sys.exit("usage: cleanup.py --guard PREFIX, as netns.py starts it")
    guard(sys.argv[2])

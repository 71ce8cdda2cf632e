"""Shares of a core, by control groups: of version 2 where the machine has its `cpu` there, else of version 1.

    groups = find()                          None: say why_none()
    folder = groups.limit("group", "host", 50)
    ... a process writes its id to folder / "cgroup.procs" ...
    groups.lift(folder)

All groups of a run lie in one that bears the run's name; cleanup.py removes it.
"""
import pathlib

PERIOD_US = 20_000  # short: a slow machine is slow all the time, not in turns
VERSION_1 = pathlib.Path("/sys/fs/cgroup/cpu")
VERSION_2 = [pathlib.Path("/sys/fs/cgroup"), pathlib.Path("/sys/fs/cgroup/unified")]
ROOTS = [VERSION_1, *VERSION_2]


def _words(path):
    try:
        return path.read_text(encoding="utf-8").split()
    except OSError:
        return []


class Version1:
    """A tree of groups for `cpu` alone: a child may be limited as it is."""

    def __init__(self, root):
        self.root = root

    def why_not(self):
        # Which files a root has depends on the kernel's version.
        there = any((self.root / one).exists() for one in ("cpu.cfs_quota_us", "cpu.stat", "cpu.shares"))
        return None if there else f"no control groups of version 1 for cpu in {self.root}"

    def limit(self, group, host, percent):
        folder = self.root / group / host
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "cpu.cfs_period_us").write_text(str(PERIOD_US))
        (folder / "cpu.cfs_quota_us").write_text(str(PERIOD_US * percent // 100))
        return folder

    def lift(self, folder):
        (folder / "cpu.cfs_quota_us").write_text("-1")


class Version2:
    """One tree for everything: a group's children are limited in `cpu` only if the group hands it on."""

    def __init__(self, root):
        self.root = root

    def why_not(self):
        if "cpu" not in _words(self.root / "cgroup.controllers"):
            return f"no control groups of version 2 for cpu in {self.root}"
        try:
            self._hand_on(self.root)
        except OSError as error:
            # In a container: its own root has processes, and then may hand on nothing.
            return f"cpu isn't handed on by {self.root} ({error.strerror})"
        return None

    def limit(self, group, host, percent):
        self._hand_on(self.root)
        (self.root / group).mkdir(exist_ok=True)
        self._hand_on(self.root / group)
        folder = self.root / group / host
        folder.mkdir(exist_ok=True)
        (folder / "cpu.max").write_text(f"{PERIOD_US * percent // 100} {PERIOD_US}")
        return folder

    def lift(self, folder):
        (folder / "cpu.max").write_text(f"max {PERIOD_US}")

    def _hand_on(self, folder):
        control = folder / "cgroup.subtree_control"
        if "cpu" not in _words(control):
            control.write_text("+cpu")


def _candidates(version1, version2):
    return [*map(Version2, version2), Version1(version1)]


def find(version1=VERSION_1, version2=tuple(VERSION_2)):
    """The first kind that works here, or None."""
    return next((one for one in _candidates(version1, version2) if one.why_not() is None), None)


def why_none(version1=VERSION_1, version2=tuple(VERSION_2)):
    """A sentence for when find() gives None."""
    reasons = [one.why_not() for one in _candidates(version1, version2)]
    return "CPU quotas need control groups: " + "; ".join(reason for reason in reasons if reason)

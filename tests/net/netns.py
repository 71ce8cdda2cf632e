"""A small network on one machine: hosts that are network namespaces, joined by a bridge.

    with Net(3) as net:
        first, second, third = net.hosts
        server = first.run(["python3", "-m", "http.server"])
        net.hosts[1].slow_down(50)                # half a core
        net.hosts[2].limit_rate(100)              # Mbit/s, both ways

Each host has one interface eth0 (198.18.x.10 up, fd00:51:x::10 up), a name that the others know, its own
home and data folders, and its own processes. Nothing of a host can be reached from outside, nor the
other way round. Needs root, iproute2; nft for faults.py.

Everything that is made has a name with this process's id and start time in it, so that what a killed
run left behind is known as such: a guard process removes it when its parent dies, and the next Net
does if even the guard was killed.

    netns.py --check    says in one sentence why namespaces can't be made here, if so
"""
import ipaddress
import itertools
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

from probes import answer_of, probe_command
from processes import Process, end_by_id, start_time, wait_until

PREFIX = "salvage-net."
NAMES = pathlib.Path("/run/netns")        # where iproute2 keeps namespaces by name
OVERLAYS = pathlib.Path("/etc/netns")     # files that `ip netns exec` lays over /etc
QUOTA_ROOT = pathlib.Path("/sys/fs/cgroup/cpu")
QUOTA_PERIOD_US = 20_000                  # short: a slow machine is slow all the time, not in turns
LAN_MTU = 1500
_serial = itertools.count()


class Unavailable(Exception):
    """This machine lacks what a test needs; the message says what."""


def system(*command, given=None):
    """Runs a tool of the system that must succeed; returns what it wrote."""
    done = subprocess.run(list(map(str, command)), input=given, stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, timeout=30, check=False, encoding="utf-8")
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(map(str, command))}: {done.stderr.strip()}\n{given or ''}")
    return done.stdout


def ip_batch(netns, lines):
    """Several `ip` commands in one process, inside a namespace."""
    system("ip", "-n", netns, "-batch", "-", given="\n".join(lines) + "\n")


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


def remove_everything_of(prefix):
    """All that a run made, whatever state it is in. Every step may be repeated."""
    end_processes(prefix)
    remove_namespaces(prefix)
    for mount in mounts_below(prefix):
        subprocess.run(["umount", "--lazy", mount], stderr=subprocess.DEVNULL, check=False)
    for group in [one for one in names_in(QUOTA_ROOT) if one.startswith(prefix)]:
        children = [one for one in (QUOTA_ROOT / group).iterdir() if one.is_dir()]
        for folder in [*children, QUOTA_ROOT / group]:
            # A killed process leaves its group a moment after it ended.
            wait_until(lambda path=folder: is_removed(path), 5, f"{folder} is empty")
    for folder in pathlib.Path(tempfile.gettempdir()).glob(prefix + "*"):
        shutil.rmtree(folder, ignore_errors=True)


def leftovers(prefix=PREFIX):
    """What exists of runs with this prefix, for messages and tests."""
    folders = [NAMES, OVERLAYS, QUOTA_ROOT, pathlib.Path(tempfile.gettempdir())]
    return [str(folder / name) for folder in folders for name in names_in(folder)
            if name.startswith(prefix)]


def remove_orphans():
    found = {name for path in leftovers() for name in [os.path.basename(path)] if is_orphaned(name)}
    for prefix in sorted({".".join(name.split(".")[:3]) + "." for name in found}):
        remove_everything_of(prefix)


def why_impossible():
    """One sentence if namespaces can't be made here, else None."""
    if os.geteuid() != 0:
        return "network namespaces need root: run this as root, for example with sudo."
    if not shutil.which("ip") or not shutil.which("tc"):
        return "iproute2 is missing: run tools/install_deps.sh test."
    name = own_prefix() + "check"
    try:
        system("ip", "netns", "add", name)
        try:
            ip_batch(name, ["link add br0 type bridge", "link add a0 type veth peer name a1"])
        finally:
            system("ip", "netns", "del", name)
    except RuntimeError as error:
        return f"this kernel or container allows no network namespaces: {str(error).splitlines()[0]}."
    return None


def quotas_possible():
    """Only the older interface is used: in the newer one, a child group takes rights from its parent."""
    return (QUOTA_ROOT / "cpu.cfs_quota_us").exists() or (QUOTA_ROOT / "cpu.stat").exists()


class Interface:
    """One network card of a host: its name there, its address on the LAN, its port on the bridge."""

    def __init__(self, host, name, lan, number):
        self.host, self.name, self.lan, self.number = host, name, lan, number
        self.port = f"{host.name}-{name}"[:15]  # the kernel's limit for a name
        self.address = lan.address(number)
        self.address6 = lan.address6(number)

    def add_commands(self):
        return [f"addr add {self.address}/24 dev {self.name}",
                f"addr add {self.address6}/64 dev {self.name} nodad"]


class Lan:
    """A bridge in a namespace of its own."""

    def __init__(self, prefix, number):
        self.number = number
        self.netns = f"{prefix}lan{number}"
        system("ip", "netns", "add", self.netns)
        ip_batch(self.netns, ["link add br0 type bridge stp_state 0 forward_delay 0 mcast_snooping 0",
                              "link set br0 up"])

    def address(self, number):
        return f"198.18.{self.number}.{number}"

    def address6(self, number):
        return str(ipaddress.ip_address(f"fd00:51:{self.number}::{number}"))


class Host:
    """One machine of the network. Made by Net."""

    def __init__(self, net, name, number):
        self.net, self.name, self.number = net, name, number
        self.netns = net.prefix + name
        self.folder = net.folder / name
        self.home, self.data, self.logs = (self.folder / one for one in ("home", "data", "logs"))
        self.interfaces = []
        self.processes = []
        self.clock_offset_s = 0
        self._quota_group = None
        self._log_numbers = itertools.count()
        for folder in (self.home, self.data, self.logs):
            folder.mkdir(parents=True)
        system("ip", "netns", "add", self.netns)
        # Link-local addresses are there at once: nobody else could have them.
        self.call(["sh", "-c", "for one in all default; do"
                   " echo 0 >/proc/sys/net/ipv6/conf/$one/accept_dad; done"])
        ip_batch(self.netns, ["link set lo up"])

    @property
    def address(self):
        return self.interfaces[0].address

    @property
    def address6(self):
        return self.interfaces[0].address6

    def add_interface(self, name, lan, number=None):
        """A cable to a bridge. The first interface also gets the multicast routes."""
        card = Interface(self, name, lan, number or self.number)
        system("ip", "link", "add", name, "mtu", LAN_MTU, "netns", self.netns, "type", "veth",
               "peer", "name", card.port, "mtu", LAN_MTU, "netns", lan.netns)
        self._bring_up(card)
        return card

    def adopt_interface(self, name, port, lan):
        """An interface that exists already (the relay's): `port` lies in this host's namespace, too."""
        card = Interface(self, name, lan, self.number)
        card.port = port
        ip_batch(self.netns, [f"link set {port} netns {lan.netns}"])
        self._bring_up(card)
        return card

    def _bring_up(self, card):
        ip_batch(card.lan.netns, [f"link set {card.port} master br0 up"])
        ip_batch(self.netns, [*card.add_commands(), f"link set {card.name} up"])
        if not self.interfaces:
            ip_batch(self.netns, [f"route add 224.0.0.0/4 dev {card.name}"])
        self.interfaces.append(card)

    def remove_interface(self, card):
        ip_batch(self.netns, [f"link del {card.name}"])
        self.interfaces.remove(card)

    def change_address(self, number, card=None):
        """As when DHCP gives another one: the old addresses are gone at once."""
        card = card or self.interfaces[0]
        ip_batch(self.netns, [f"addr flush dev {card.name} scope global"])
        card.number, card.address = number, card.lan.address(number)
        card.address6 = card.lan.address6(number)
        ip_batch(self.netns, card.add_commands())
        if card is self.interfaces[0]:
            ip_batch(self.netns, [f"route replace 224.0.0.0/4 dev {card.name}"])
        self.net.write_names()

    def link(self, up, card=None):
        """Pulls the cable at the switch, or puts it back: the host itself sees its carrier go."""
        card = card or self.interfaces[0]
        ip_batch(card.lan.netns, [f"link set {card.port} {'up' if up else 'down'}"])

    def limit_rate(self, mbit, card=None):
        """Mbit/s in each direction; None takes the limit away."""
        card = card or self.interfaces[0]
        for netns, device in ((self.netns, card.name), (card.lan.netns, card.port)):
            if mbit is None:
                system("tc", "-n", netns, "qdisc", "del", "dev", device, "root")
            else:
                # A burst of 5 ms; at most 25 ms wait (300 kB at 100 Mbit/s), as in a cheap switch.
                burst = max(16_000, int(mbit * 1e6 / 8 * 0.005))
                system("tc", "-n", netns, "qdisc", "replace", "dev", device, "root", "tbf",
                       "rate", f"{mbit}mbit", "burst", burst, "latency", "25ms")

    def slow_down(self, percent_of_core):
        """All processes of this host that start from now on share so much of one core."""
        if not quotas_possible():
            raise Unavailable("CPU quotas need a cgroup of version 1 under /sys/fs/cgroup/cpu")
        group = QUOTA_ROOT / f"{self.net.prefix}cpu" / self.name
        group.mkdir(parents=True, exist_ok=True)
        (group / "cpu.cfs_period_us").write_text(str(QUOTA_PERIOD_US))
        (group / "cpu.cfs_quota_us").write_text(str(QUOTA_PERIOD_US * percent_of_core // 100))
        self._quota_group = group

    def lift_quota(self):
        if self._quota_group:
            (self._quota_group / "cpu.cfs_quota_us").write_text("-1")
            self._quota_group = None

    @property
    def has_quota(self):
        return self._quota_group is not None

    def environment(self, extra=None):
        env = {"PATH": os.environ.get("PATH", "/usr/sbin:/usr/bin:/sbin:/bin"), "HOME": str(self.home),
               "SALVAGE_HOME": str(self.data), "SALVAGE_CACHE": str(self.folder / "cache"),
               "XDG_RUNTIME_DIR": str(self.folder / "run"), "TMPDIR": str(self.folder), "LANG": "C"}
        if self.clock_offset_s:
            library = os.environ.get("SALVAGE_CLOCK_SHIFT", "")
            if not os.path.isfile(library):
                raise Unavailable("SALVAGE_CLOCK_SHIFT must name the library that the build makes")
            env |= {"LD_PRELOAD": library, "SALVAGE_CLOCK_OFFSET_S": str(self.clock_offset_s)}
        return env | (extra or {})

    def run(self, command, name=None, env=None):
        """Starts a command on this host. Its log is named after `name`, or after the command."""
        (self.folder / "run").mkdir(exist_ok=True, mode=0o700)
        name = name or pathlib.Path(str(command[0])).name
        log = self.logs / f"{next(self._log_numbers):03}-{name}"
        # sh: into the quota's group, then a hostname of its own, then the command in its place.
        group = self._quota_group or ""
        argv = ["sh", "-c", '[ -z "$0" ] || echo $$ >"$0/cgroup.procs"; exec "$@"', group,
                "ip", "netns", "exec", self.netns, "unshare", "--uts", "sh", "-c",
                'echo "$0" >/proc/sys/kernel/hostname; exec "$@"', self.name, *command]
        process = Process(command, argv, self.environment(env), log, cwd=self.folder)
        self.processes.append(process)
        return process

    def call(self, command, seconds=30, name=None, env=None, given=b""):
        """Runs a command to its end and returns what it wrote and its exit code."""
        process = self.run(command, name, env)
        try:
            process.say(given)
            return process.wait(seconds)
        finally:
            process.end()
            self.processes.remove(process)

    def probe(self, *arguments, seconds=60):
        """One of probes.py, on this host, to its end; returns its JSON line."""
        return answer_of(self.call(probe_command(*arguments), seconds))

    def pids(self):
        """All processes of this host, also those that its processes started."""
        return [int(pid) for pid in system("ip", "netns", "pids", self.netns).split()]


class Net:
    """So many hosts on one bridge. A context manager; everything is gone at its end."""

    def __init__(self, host_count, names=None):
        why = why_impossible()
        if why:
            raise Unavailable(why)
        remove_orphans()
        self.prefix = f"{own_prefix()}{next(_serial)}."
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix=self.prefix))
        self.hosts, self.lans = [], []
        self._guard = subprocess.Popen(  # pylint: disable=consider-using-with
            [sys.executable, "-B", __file__, "--guard", self.prefix], stdin=subprocess.PIPE,
            start_new_session=True)
        try:
            self.lans.append(Lan(self.prefix, 0))
            for index in range(host_count):
                self.add_host(names[index] if names else f"h{index}")
        except BaseException:
            self.close()
            raise

    def add_host(self, name, connected=True):
        """A further machine; `connected` = False leaves it without a cable (delay.py lays one)."""
        host = Host(self, name, 10 + len(self.hosts))
        self.hosts.append(host)
        if connected:
            host.add_interface("eth0", self.lans[0])
        self.write_names()
        return host

    def add_lan(self):
        """A second bridge with addresses of its own."""
        self.lans.append(Lan(self.prefix, len(self.lans)))
        return self.lans[-1]

    def write_names(self):
        """Every host knows the others by name. For processes that start from now on."""
        lines = ["127.0.0.1 localhost", "::1 localhost"]
        for host in self.hosts:
            if host.interfaces:
                lines += [f"{host.address} {host.name}", f"{host.address6} {host.name} {host.name}-v6"]
        for host in self.hosts:
            folder = OVERLAYS / host.netns
            folder.mkdir(parents=True, exist_ok=True)
            (folder / "hosts").write_text("\n".join(lines) + "\n")

    def pids(self):
        return {host.name: host.pids() for host in self.hosts}

    def close(self):
        logs = os.environ.get("SALVAGE_NET_LOGS")
        try:
            for host in self.hosts:
                for process in host.processes:
                    process.end()
        finally:
            if logs:
                shutil.copytree(self.folder, logs, dirs_exist_ok=True, symlinks=True,
                                ignore=lambda folder, names: set(names) & {"data", "cache", "run"})
            remove_everything_of(self.prefix)
            self._guard.stdin.close()
            self._guard.wait(30)

    def __enter__(self):
        return self

    def __exit__(self, *unused):
        self.close()


def guard(prefix):
    """Waits for the end of standard input, which is the end of the process that holds the other side."""
    sys.stdin.buffer.read()
    remove_everything_of(prefix)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--guard"] and len(sys.argv) == 3 and sys.argv[2].startswith(PREFIX):
        guard(sys.argv[2])
    elif sys.argv[1:] == ["--check"]:
        sys.exit(why_impossible())
    else:
        sys.exit(__doc__)

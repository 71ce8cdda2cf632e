"""A small network on one machine: hosts that are network namespaces, joined by a bridge.

    with Net(3) as net:
        first, second, third = net.hosts
        server = first.run(["python3", "-m", "http.server"])
        net.hosts[1].slow_down(50)                # half a core
        net.hosts[2].limit_rate(100)              # Mbit/s, both ways

Each host has one interface eth0 (198.18.x.10 up, fd00:51:x::10 up), a name that the others know, its own
home and data folders, and its own processes. Nothing of a host can be reached from outside, nor the
other way round. Needs root, iproute2; nft for faults.py.

Nets of several processes live beside each other; none sees another. What a killed run left behind is
removed by its guard process, or by the next Net if even that was killed: cleanup.py.

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

import quotas
from cleanup import (OVERLAYS, guard_command, machine_lock, own_prefix, remove_everything_of,
                     remove_orphans)
from probes import answer_of, probe_command
from processes import Process, Unavailable, system

LAN_MTU = 1500
_serial = itertools.count()


def ip_batch(netns, lines):
    """Several `ip` commands in one process, inside a namespace."""
    system("ip", "-n", netns, "-batch", "-", given="\n".join(lines) + "\n")


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
        self._groups = self._quota_group = None
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
        self._groups = quotas.find()
        if self._groups is None:
            raise Unavailable(quotas.why_none())
        self.enter_group(self._groups.limit(f"{self.net.prefix}cpu", self.name, percent_of_core))

    def enter_group(self, folder):
        """All processes from now on belong to this control group; None: to the one that this process has."""
        self._quota_group = folder

    def lift_quota(self):
        if self._quota_group:
            self._groups.lift(self._quota_group)
            self.enter_group(None)

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
        with machine_lock():
            why = why_impossible()
            if why:
                raise Unavailable(why)
            remove_orphans()
        self.prefix = f"{own_prefix()}{next(_serial)}."
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix=self.prefix))
        self.hosts, self.lans = [], []
        self._guard = subprocess.Popen(  # pylint: disable=consider-using-with
            guard_command(self.prefix), stdin=subprocess.PIPE, start_new_session=True)
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
            for process in [one for host in self.hosts for one in host.processes]:
                process.kill()
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


if __name__ == "__main__":
    if sys.argv[1:] != ["--check"]:
        sys.exit(__doc__)
    sys.exit(why_impossible())

"""What goes wrong between machines and on them: cuts, losses, delay, a full disk.

Cuts and losses are made at the bridge, between two ports: they catch every packet, whatever its
address or family, and can be one-sided. The delay comes from the project's relay (relay/relay.cc).
"""
import itertools
import os
import shutil
import subprocess

from netns import Unavailable, system

TABLE = "faults"
_names = itertools.count()


def _nft(lan, text):
    if not shutil.which("nft"):
        raise Unavailable("nft is missing: run tools/install_deps.sh test")
    system("ip", "netns", "exec", lan.netns, "nft", "-f", "-", given=text)


def _add_rules(lan, rules):
    chain = f"add table bridge {TABLE}\nadd chain bridge {TABLE} forward " \
            "{ type filter hook forward priority 0; }\n"
    _nft(lan, chain + "".join(f"add rule bridge {TABLE} forward {rule}\n" for rule in rules))


def _pairs(some, others):
    for one, other in itertools.product(some, others):
        for card in one.interfaces:
            for peer in other.interfaces:
                if card.lan is peer.lan:
                    yield card.lan, card.port, peer.port


def cut(some, others, one_way=False):
    """Nothing from `some` hosts reaches `others` any more, nor back unless `one_way`."""
    for lan, port, peer in list(_pairs(some, others)):
        rules = [f'iifname "{port}" oifname "{peer}" drop']
        if not one_way:
            rules.append(f'iifname "{peer}" oifname "{port}" drop')
        _add_rules(lan, rules)


def lose(host, per_mille):
    """So many of 1,000 packets to and from this host are lost, by chance."""
    for card in host.interfaces:
        chance = f"numgen random mod 1000 < {per_mille} drop"
        _add_rules(card.lan, [f'iifname "{card.port}" {chance}', f'oifname "{card.port}" {chance}'])


def heal(net):
    """Takes all cuts and losses away."""
    for lan in net.lans:
        _nft(lan, f"add table bridge {TABLE}\ndelete table bridge {TABLE}\n")


def connect_with_delay(host, lan, one_way_us, jitter_us=0, seed=1):
    """Gives a host without a cable one that takes so long in each direction. Returns the relay."""
    relay = os.environ.get("SALVAGE_RELAY", "")
    if not os.path.isfile(relay):
        raise Unavailable("SALVAGE_RELAY must name the relay that the build makes")
    port = f"{host.name}-delay"[:15]
    process = host.run([relay, "--near", "eth0", "--far", port, "--delay-us", one_way_us,
                        "--jitter-us", jitter_us, "--seed", seed])
    process.expect("ready", 10)
    host.adopt_interface("eth0", port, lan)
    host.net.write_names()
    return process


class SmallDisk:
    """A host's folder on a file system of this size, while the context lasts."""

    def __init__(self, folder, mib):
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        system("mount", "-t", "tmpfs", "-o", f"size={mib}m,mode=700", f"small{next(_names)}", folder)

    def resize(self, mib):
        system("mount", "-o", f"remount,size={mib}m", self.folder)

    def __enter__(self):
        return self

    def __exit__(self, *unused):
        subprocess.run(["umount", "--lazy", str(self.folder)], check=True)

#!/usr/bin/env python3
"""Who belongs to a cluster, and how they get there: machines that join, leave, are removed or refused.

    cluster_test.py                      all of them
    cluster_test.py join_and_run ...     these
    cluster_test.py --list               their names

Method, here and in the other *_test.py: a scenario makes its own network with real processes on it, does
to it what happens in a house, and looks at what people see: commands, exit codes, answers. Each has a
limit after which it fails; none waits without one. What a scenario measures is printed.
"""
import os
import shutil
import sys
import time

import faults
import quotas
from answers import TOKENS_LONG, answers_right, layers_of, one_machine
from cluster import BINARY, PORT, Cluster
from processes import wait_until
from scenarios import check, equal, main, scenario

VERSION_PEER = os.environ.get("SALVAGE_VERSION_PEER", "")
MIB = 1 << 20


@scenario(240, quarters=2)
def join_and_run():
    """Four unlike machines: quotas, one slow cable, one long one; three splits; 256 tokens each."""
    with Cluster(3) as cluster:
        far = cluster.net.add_host("h3", connected=False)
        relay = faults.connect_with_delay(far, cluster.net.lans[0], 5000)
        cluster.add(far)
        first, half, slow, distant = cluster.machines
        one_machine(first, TOKENS_LONG)
        slow.host.limit_rate(100)
        if quotas.find():
            for machine, percent in ((first, 100), (half, 50), (slow, 25)):
                machine.host.slow_down(percent)
        cluster.up_and_join()
        rows = first.nodes()
        equal(sorted(rows), ["h0", "h1", "h2", "h3"], "names")
        for row in rows.values():
            check(row["address"] and row["link"], f"address and link type of {row}")
        first.load("--split", "12,8,6,4", seconds=180)
        answer = answers_right(first, TOKENS_LONG)
        equal(layers_of(answer), [12, 8, 6, 4], "layers as asked for")
        equal(answer["nodes"], ["h0", "h1", "h2", "h3"], "nodes in the order of the split")
        before = sum(machine.received_bytes() for machine in cluster.machines)
        first.load("--split", "10,10,6,4", seconds=180)
        moved = sum(machine.received_bytes() for machine in cluster.machines) - before
        check(moved < 40 * MIB, f"a changed split moved {moved / MIB:.0f} MiB")
        answers_right(first, TOKENS_LONG)
        first.load(seconds=180)
        check(len(answers_right(first, TOKENS_LONG)["stages"]) >= 2, "in proportion to memory, over several")
        check(relay.running(), "the relay has ended")


@scenario(60)
def leave_and_rejoin():
    with Cluster(2) as cluster:
        first, second = cluster.up_and_join()
        identity = first.nodes()["h1"]["id"]
        second.command("leave")
        wait_until(lambda: not second.process.running(), 10, "who has left ends")
        first.sees(h1="left")
        second.join()
        done = second.process.wait(20)
        check(done.code == 1 and "join code" in done.err, f"says how to come back: {done!r}")
        second.joins(first.invite())
        first.sees(h1="online")
        equal(first.nodes()["h1"]["id"], identity, "the identity stays")


@scenario(90)
def remove_a_machine():
    """A removed key is refused everywhere within a second, on links that live as well."""
    with Cluster(3) as cluster:
        first, second, third = cluster.up_and_join()
        first.load("--split", "10,10,10")
        first.command("remove", "h2")
        begin = time.monotonic()
        wait_until(lambda: not established(third, (first, second)), 3, "live links have ended")
        print(f"links ended {time.monotonic() - begin:.2f} s after the command")
        for machine in (first, second):
            wait_until(lambda one=machine: one.states().get("h2", "removed") == "removed", 5,
                       "both know it")
        third.process.end()
        third.join().expect("no longer, a member", 20)
        third.process.end()
        third.fails_to_join(first.invite(), "salvage leave --forget")
        third.command("leave", "--forget")
        third.joins(first.invite())
        first.sees(h1="online")


def established(machine, others):
    """TCP connections between a machine and others, from its kernel's table."""
    rows = machine.host.call(["cat", "/proc/net/tcp", "/proc/net/tcp6"]).out.splitlines()
    addresses = {"".join(reversed([f"{int(part):02X}" for part in other.host.address.split(".")]))
                 for other in others}
    return [row for row in rows if len(row.split()) > 3 and row.split()[3] == "01"
            and any(address in row.split()[2] for address in addresses)]


@scenario(90)
def codes_that_are_not_good():
    with Cluster(3) as cluster:
        first, second, third = cluster.machines
        first.up()
        first.ready()
        code = first.invite()
        typo = code[:-2] + ("q" if code[-2] != "q" else "r") + code[-1]
        second.fails_to_join(typo, "code")
        second.fails_to_join("slv1.abc", "code")
        expired = first.invite("--ttl", "1s")
        used = first.invite()
        second.joins(used)
        third.fails_to_join(used, "used")
        time.sleep(1.2)
        third.fails_to_join(expired, "expired")
        twice = first.invite("--uses", "2")
        third.joins(twice)
        first.sees(h0="online", h1="online", h2="online")
        # Nothing of the failed tries is left.
        equal(len(first.nodes()), 3, "members")
        first.stop()
        lonely = cluster.add(cluster.net.add_host("lonely"))
        lonely.fails_to_join(code, first.host.address, seconds=40)


@scenario(60)
def man_in_the_middle_on_the_join():
    """Another machine answers at the coordinator's address: it must never see the secret."""
    with Cluster(3) as cluster:
        first, attacker, joiner = cluster.machines
        first.up()
        first.ready()
        code = first.invite()
        address = first.host.address
        first.stop()
        first.host.change_address(200)
        attacker.host.change_address(int(address.split(".")[-1]))
        attacker.up("--name", "evil")
        attacker.ready()
        joiner.fails_to_join(code, "fingerprint", seconds=40)
        equal(list(attacker.states()), ["evil"], "members of the attacker's cluster")
        check("wrong secret" not in attacker.process.err, "a secret was sent")


@scenario(60)
def two_clusters_on_one_lan():
    with Cluster(4) as cluster:
        first, second, other, mate = cluster.machines
        cluster.up_and_join(first, second)
        cluster.up_and_join(other, mate)
        equal(sorted(first.states()), ["h0", "h1"], "the first cluster")
        equal(sorted(other.states()), ["h2", "h3"], "the second cluster")
        # A member of the one is a stranger to the other, code or not.
        mate.stop()
        mate.fails_to_join(first.invite(), "salvage leave")
        mate.joins(None)
        other.sees(h3="online")
        # Each finds its own coordinator again when both have moved.
        for machine, number in ((first, 70), (other, 71)):
            machine.host.change_address(number)
        for machine, coordinator in ((second, first), (mate, other)):
            machine.reaches(coordinator)
        first.sees(h0="online", h1="online")
        other.sees(h2="online", h3="online")


@scenario(60)
def without_ipv4():
    with Cluster(2) as cluster:
        first, second = cluster.machines
        for machine in (first, second):
            machine.host.call(["ip", "-4", "addr", "flush", "dev", "eth0"])
        cluster.up_and_join()
        check("[fd00" in first.nodes()["h1"]["address"], f"IPv6 is in use: {first.nodes()}")
        first.load("--split", "15,15")
        answers_right(first)


@scenario(60)
def cable_before_wifi():
    with Cluster(2) as cluster:
        first, second = cluster.machines
        for machine in (first, second):
            machine.host.add_interface("wlan0", cluster.net.lans[0], machine.host.number + 50)
        cluster.up_and_join()
        row = first.nodes()["h1"]
        equal(row["link"], "wired", f"the link in use of {row}")
        check(second.host.interfaces[0].address in row["address"], f"the cable's address: {row}")


@scenario(60)
def cloned_identity():
    with Cluster(3) as cluster:
        first, second, clone = cluster.machines
        cluster.up_and_join(first, second)
        second.stop()
        shutil.copytree(second.host.data, clone.host.data, dirs_exist_ok=True)
        second.restart()
        clone.join()
        done = clone.process.wait(30)
        check(done.code == 1 and "salvage leave --forget" in done.err, f"told what to do: {done!r}")
        first.sees(h1="online")
        clone.command("leave", "--forget")
        clone.joins(first.invite())
        equal(len([one for one in first.states().values() if one == "online"]), 3, "machines online")


@scenario(90, quarters=2)
def clocks_off_by_a_day():
    with Cluster(3) as cluster:
        first, behind, ahead = cluster.machines
        behind.host.clock_offset_s, ahead.host.clock_offset_s = -86_400, 86_400
        cluster.up_and_join()
        first.load("--split", "10,10,10")
        answers_right(first)
        ahead.stop()
        ahead.host.clock_offset_s = -5 * 365 * 86_400
        ahead.restart()
        first.is_loaded()
        answers_right(first)


@scenario(60)
def a_second_up_on_the_same_state_is_refused():
    with Cluster(1) as cluster:
        first = cluster.machines[0]
        first.up()
        first.ready()
        second = first.host.run([BINARY, "up", "--port", 7520], name="second-up").wait(20)
        check(second.code == 1 and str(first.process.pid) in second.err, f"named: {second!r}")


@scenario(120)
def one_wire_version_behind():
    with Cluster(3) as cluster:
        first, second, third = cluster.machines
        first.up()
        first.ready()
        current = first.nodes()["h0"]["facts"]["wire_version"]
        second.joins(first.invite(), "--wire-version", current - 1)
        first.load("--split", "15,15")
        answers_right(first)


@scenario(90)
def two_wire_versions_apart():
    """Refused by name of both: who wants to join, a member at every door, and we by who is ahead."""
    with Cluster(4) as cluster:
        first, second, third, ahead = cluster.machines
        cluster.up_and_join(first, second, third)
        facts = first.nodes()["h0"]["facts"]
        oldest, newest = facts["wire_version_min"], facts["wire_version"]
        code = first.invite()
        second.stop()
        doors = [("join", code),
                 ("member", second.host.data, "node", f"tls:{first.host.address}:{PORT}"),
                 ("member", second.host.data, "weights", f"tls:{third.host.address}:{PORT}")]
        for theirs in ((max(0, oldest - 2), oldest - 1), (newest + 1, newest + 2)):
            both = "{} to {}, this program {} to {}".format(*theirs, oldest, newest)
            for door in doors:
                done = second.host.call([VERSION_PEER, *door, *theirs])
                check(f"refused: the peer speaks wire versions {both}" in done.out, f"{door[0]}: {done!r}")
            for machine in (first, third):
                check(both in machine.process.err, f"said here as well: {machine.process.describe()}")
        # Nothing came of it: the machine is still a member, the code still good.
        second.restart()
        first.sees(h1="online")
        other = ahead.host.run([VERSION_PEER, "coordinator", ahead.host.address, PORT,
                                newest + 1, newest + 2])
        other.expect("slv1.", 10)
        third.stop()
        third.command("leave", "--forget")
        third.fails_to_join(other.out.strip(), f"{oldest} to {newest}", f"{newest + 1} to {newest + 2}")
        third.joins(code)


if __name__ == "__main__":
    main(sys.argv[1:], __doc__)

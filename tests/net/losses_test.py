#!/usr/bin/env python3
"""Machines that move, end and fall silent, alone and in the middle of an answer. See cluster_test.py."""
import os
import re
import signal
import sys
import time

from answers import PROMPT, answer_under_way, answers_right
from cluster import LOST_S, MODEL, Cluster
from processes import wait_until
from scenarios import check, equal, main, scenario

MIB = 1 << 20
SLACK_S = 2  # for a busy machine that does all this at once


@scenario(120)
def machines_that_move():
    """A changed address of a node, then of the coordinator: found again by its beacon."""
    with Cluster(2) as cluster:
        first, second = cluster.up_and_join()
        first.load("--split", "15,15")
        second.host.change_address(88)
        begin = time.monotonic()
        wait_until(lambda: second.host.address in first.nodes()["h1"].get("address", ""), 40,
                   lambda: f"the new address is in use: {first.nodes()['h1']}")
        print(f"a node's new address is in use after {time.monotonic() - begin:.1f} s")
        first.is_loaded()
        answers_right(first)
        first.host.change_address(99)
        begin = time.monotonic()
        second.reaches(first)
        print(f"the coordinator's after {time.monotonic() - begin:.1f} s")
        first.sees(h1="online")
        first.is_loaded()
        answers_right(first)


@scenario(240, quarters=2)
def restarts_in_every_order():
    """Whoever is killed in the middle of an answer, and in whatever order they come back.

    The answer ends with an error, the model is loaded again by itself, and no weights move for it.
    """
    with Cluster(3) as cluster:
        first, second, third = cluster.up_and_join()
        first.load("--split", "10,10,10")
        answers_right(first)
        for order in ((second,), (third,), (first,), (first, second, third), (third, first, second)):
            before = {machine.name: machine.received_bytes() for machine in cluster.machines}
            answering = answer_under_way(first)
            for machine in order:
                machine.kill()
            ends_by_name(answering, [] if first in order else order, LOST_S)
            for machine in order:
                machine.restart() if machine is first else machine.join()
            for machine in order:
                machine.ready()
            first.is_loaded()
            answers_right(first)
            for machine in cluster.machines:
                moved = machine.received_bytes() - before[machine.name]
                check(moved < 20 * MIB, f"weights moved again to {machine.name}: {moved / MIB:.0f} MiB")


def ends_by_name(answering, machines, seconds):
    """The answer ends with an error that names these machines, after at most so long."""
    begin = time.monotonic()
    done = answering.wait(seconds + SLACK_S)
    said = done.err.rpartition("\nsalvage: ")[2]  # before it stands the table of machines
    print(f"the answer ended after {time.monotonic() - begin:.1f} s: {said.strip()}")
    equal(done.code, 1, f"an error: {done!r}")
    for machine in machines:
        check(re.search(rf"(?<![\w/]){machine.name}(?![\w/])", said), f"{machine.name} is named: {done!r}")


@scenario(150)
def a_silent_machine_is_lost():
    """In the middle of an answer: the answer ends in the stated time, and everybody says who is lost."""
    with Cluster(3) as cluster:
        first, second, third = cluster.up_and_join()
        equal(first.ask("nodes")["lost_after_ms"], LOST_S * 1000, "the stated time")
        first.load("--split", "10,10,10")
        for what, machine, silence, speech in (
                ("a pulled cable", second, lambda: second.host.link(False), lambda: second.host.link(True)),
                ("a stopped process", third, lambda: third.process.send(signal.SIGSTOP),
                 lambda: third.process.send(signal.SIGCONT)),
                ("no power", second, lambda: lose_power(second), lambda: regain_power(second))):
            answering = answer_under_way(first)
            begin = time.monotonic()
            silence()
            ends_by_name(answering, [machine], LOST_S)
            for other in [one for one in cluster.machines if one is not machine]:
                other.sees(**{machine.name: "lost"}, seconds=LOST_S + SLACK_S - (time.monotonic() - begin))
            print(f"{what}: lost after {time.monotonic() - begin:.1f} s")
            done = first.command("run", MODEL, PROMPT, "-n", 4, check=False)
            check(done.code == 0 or machine.name in done.err, f"it is named: {done!r}")
            speech()
            first.sees(**{machine.name: "online"}, seconds=60)
            first.is_loaded()
            answers_right(first)


def lose_power(machine):
    """Nothing of it says goodbye, the kernel included."""
    machine.host.link(False)
    machine.kill()


def regain_power(machine):
    machine.host.link(True)
    machine.join()


@scenario(90, quarters=2)
def a_dead_worker_is_restarted():
    """A worker dies in the middle of an answer, the last one and the first one."""
    with Cluster(2) as cluster:
        first, second = cluster.up_and_join()
        first.load("--split", "15,15")
        for machine, number in ((second, signal.SIGABRT), (first, signal.SIGKILL)):
            epoch = first.deployment()["epoch"]
            answering = answer_under_way(first)
            for pid in machine.workers():
                os.kill(pid, number)
            ends_by_name(answering, [machine], 0)
            first.is_loaded(after=epoch)
            answers_right(first)


if __name__ == "__main__":
    main(sys.argv[1:], __doc__)

#!/usr/bin/env python3
"""Which ports are open, and a minute of attacks on each. See cluster_test.py for the method."""
import sys
import time

from answers import PROMPT, TOKENS, answers_right
from cluster import DOWNLOAD_PORT, PORT, STAGE_PORTS, Cluster
from portable import packed
from probes import answer_of, probe_command
from scenarios import check, equal, main, scenario

ATTACK_S = 60
CROWD = 1000
ANSWER_EVERY_S = 6


def attacks_on(attacker, machine, ports):
    """On every port at once: random bytes, a crowd that says nothing, a crowd that begins to."""
    address = machine.host.address
    return [attacker.host.run(probe_command(*kind)) for port in ports for kind in (
        ("garbage", address, port, ATTACK_S, port), ("idle", address, port, CROWD, ATTACK_S),
        ("half", address, port, 100, ATTACK_S))]


def attacks_on_beacons(attacker):
    """They listen to groups, not to addresses of their own."""
    return [attacker.host.run(probe_command("datagrams", group, PORT, ATTACK_S, 1))
            for group in ("239.255.74.20", "ff02::7420%eth0")]


def all_over(attacks, seconds):
    """Waits for the end of the attacks, but not longer than this."""
    end = time.monotonic() + seconds
    for attack in attacks:
        try:
            attack.wait(max(0.01, end - time.monotonic()))
        except AssertionError:
            return False
    return True


@scenario(240, quarters=2)
def ports_and_attackers():
    """Only the documented ports are open; noise and a thousand idle connections cost only themselves."""
    with Cluster(4) as cluster:
        first, second, attacker, newcomer = cluster.machines
        first.up("--name", first.name, "--portable", packed())
        first.ready()
        second.joins(first.invite(), "--name", second.name)
        code = first.invite()
        first.load("--split", "15,15")
        right = answers_right(first)
        attacks = attacks_on_beacons(attacker)
        # Only a machine's own coordinator leads to the first stage: a Unix socket.
        for machine, expected in ((first, {DOWNLOAD_PORT, PORT}), (second, {PORT, STAGE_PORTS[0]})):
            ports = attacker.host.probe("scan", machine.host.address, 1, 65536)["open"]
            equal(set(ports), expected, f"open on {machine.name}")
            udp = machine.host.probe("listening")["udp"]
            equal({port for _, port in udp}, {PORT}, f"UDP on {machine.name}")
            attacks += attacks_on(attacker, machine, ports)
        answers = 0
        while not all_over(attacks, ANSWER_EVERY_S):
            answer = first.run(PROMPT, TOKENS)
            equal(answer["token_ids"], right["token_ids"], "the answer under attack")
            equal(first.states(), {"h0": "online", "h1": "online"}, "states under attack")
            answers += 1
        check(answers >= 3, f"answers under attack: {answers}")
        for attack in attacks:
            said = answer_of(attack.wait(1))
            print(*attack.command.split()[3:-1], said)
            check(not said.get("refused"), f"the port has stayed open: {attack.command}: {said}")
            check(said.get("sent", CROWD) >= 10 * ATTACK_S, f"bytes were sent: {attack.command}: {said}")
        for machine in (first, second):
            lines = len(machine.process.err.splitlines())
            print(f"{machine.name} has logged {lines} lines")
            check(lines < 5 * ATTACK_S, f"attackers fill the log of {machine.name}: {lines} lines")
        # The code's address is wrong by now, so beacons have to be heard, too.
        first.host.change_address(77)
        newcomer.joins(code)
        first.sees(h0="online", h1="online")
        first.is_loaded()
        answers_right(first)


if __name__ == "__main__":
    main(sys.argv[1:], __doc__)

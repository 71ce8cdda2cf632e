"""Scenarios of a cluster: real processes on the hosts of a test network, one function each.

    cluster_test.py                      all of them
    cluster_test.py join_and_run ...     these
    cluster_test.py --list               their names

Method: a scenario makes its own network, does to it what happens in a house, and looks at what people
see: commands, exit codes, answers. Answers are compared token by token with one machine's. Each has a
limit after which it fails; none waits without one. What a scenario measures is printed.
"""
import json
import shutil
import signal
import statistics
import sys
import time
import traceback

import faults
from cluster import (BINARY, DOWNLOAD_PORT, LOST_S, MODEL, PORT, STAGE_PORTS, Cluster)
from netns import Unavailable, quotas_possible
from probes import answer_of, probe_command
from processes import wait_until

PROMPT = "Once upon a time there was a machine that"
TOKENS = 24       # enough to see that an answer is right
TOKENS_LONG = 256
MIB = 1 << 20
SCENARIOS = {}
_reference = {}


def scenario(limit_s):
    def register(function):
        SCENARIOS[function.__name__] = (limit_s, function)
        return function
    return register


def check(condition, message):
    if not condition:
        raise AssertionError(message)


def equal(is_, wanted, what):
    check(is_ == wanted, f"{what}: {is_!r} instead of {wanted!r}")


def one_machine(machine, tokens):
    """What a single machine answers, without any cluster."""
    if tokens not in _reference:
        _reference[tokens] = machine.run(PROMPT, tokens, "--local", "--logits-hash", "--threads", 1,
                                         seconds=120)
    return _reference[tokens]


def answers_right(machine, tokens=TOKENS):
    """The loaded model's answer over the cluster is one machine's, bit for bit."""
    right = one_machine(machine, tokens)
    answer = machine.run(PROMPT, tokens, "--logits-hash", seconds=180)
    equal(answer["token_ids"], right["token_ids"], f"{tokens} tokens over {answer['nodes']}")
    equal(answer["logits_hash"], right["logits_hash"], "the hash of all logits")
    return answer


def layers_of(answer):
    """Layer counts by stage."""
    return [stage["layers"][1] - stage["layers"][0] for stage in answer["stages"]]


# --- joining ---

@scenario(240)
def join_and_run():
    """Four unlike machines: quotas, one slow cable, one long one; three splits; 256 tokens each."""
    with Cluster(3) as cluster:
        far = cluster.net.add_host("h3", connected=False)
        relay = faults.connect_with_delay(far, cluster.net.lans[0], 5000)
        cluster.add(far)
        first, half, slow, distant = cluster.machines
        one_machine(first, TOKENS_LONG)
        slow.host.limit_rate(100)
        if quotas_possible():
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
        answers_right(first)
        first.load(seconds=180)
        check(len(answers_right(first)["stages"]) >= 2, "in proportion to memory, over several")
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


@scenario(90)
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


# --- addresses, restarts, losses ---

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


@scenario(240)
def restarts_in_every_order():
    """Whoever is killed, and in whatever order they come back: the model is loaded again by itself."""
    with Cluster(3) as cluster:
        first, second, third = cluster.up_and_join()
        first.load("--split", "10,10,10")
        answers_right(first)
        for order in ((second,), (third,), (first,), (first, second, third), (third, first, second)):
            before = {machine.name: machine.received_bytes() for machine in cluster.machines}
            for machine in order:
                machine.kill()
            for machine in order:
                machine.restart() if machine is first else machine.join()
            for machine in order:
                machine.ready()
            first.is_loaded()
            answers_right(first)
            for machine in cluster.machines:
                moved = machine.received_bytes() - before[machine.name]
                check(moved < 20 * MIB, f"weights moved again to {machine.name}: {moved / MIB:.0f} MiB")


@scenario(90)
def a_silent_machine_is_lost():
    """Within the stated time, said by everybody; and back when it speaks again."""
    with Cluster(3) as cluster:
        first, second, third = cluster.up_and_join()
        first.load("--split", "10,10,10")
        for name, silence, speech in (
                ("a pulled cable", lambda: third.host.link(False), lambda: third.host.link(True)),
                ("a stopped process", lambda: third.process.send(signal.SIGSTOP),
                 lambda: third.process.send(signal.SIGCONT))):
            silence()
            begin = time.monotonic()
            for machine in (first, second):
                machine.sees(h2="lost", seconds=LOST_S + 3)
            print(f"{name}: lost after {time.monotonic() - begin:.1f} s")
            done = first.command("run", MODEL, PROMPT, "-n", 4, check=False, seconds=90)
            check(done.code == 0 or "h2" in done.err, f"it is named: {done!r}")
            speech()
            first.sees(h2="online", seconds=60)
            first.is_loaded()
            answers_right(first)


@scenario(90)
def a_dead_worker_is_restarted():
    with Cluster(2) as cluster:
        first, second = cluster.up_and_join()
        first.load("--split", "15,15")
        epoch = first.deployment()["epoch"]
        answering = first.host.run([BINARY, "run", MODEL, PROMPT, "-n", 2000, "--temp", "0"], name="run")
        wait_until(lambda: len(answering.out) > 20, 30, "an answer is under way")
        for pid in second.workers():
            second.host.call(["kill", "-ABRT", pid])
        done = answering.wait(30)
        check(done.code == 1 and "h1" in done.err, f"the machine is named: {done!r}")
        first.is_loaded()
        check(first.deployment()["epoch"] > epoch, "a new plan has a higher number")
        answers_right(first)


@scenario(60)
def a_second_up_on_the_same_state_is_refused():
    with Cluster(1) as cluster:
        first = cluster.machines[0]
        first.up()
        first.ready()
        second = first.host.run([BINARY, "up", "--port", 7520], name="second-up").wait(20)
        check(second.code == 1 and str(first.process.pid) in second.err, f"named: {second!r}")


# --- getting weights there ---

@scenario(120)
def a_disk_too_small_and_a_disk_that_fills_up():
    with Cluster(2) as cluster:
        first, second = cluster.machines
        with faults.SmallDisk(second.host.data, 12) as disk:
            cluster.up_and_join()
            done = first.command("load", MODEL, "--split", "10,20", check=False)
            check(done.code == 1 and "h1" in done.err and "disk" in done.err, f"says so: {done!r}")
            check(second.stored_bytes() < 2 * MIB, "nothing was fetched that cannot fit")
            disk.resize(160)
            wait_until(lambda: first.nodes()["h1"]["facts"]["disk_free_bytes"] > 100 * MIB, 30,
                       "the new size is known")
            # Enough at the start, then somebody else takes the rest.
            second.host.limit_rate(100)
            begin = second.received_bytes()
            loading = first.begin_to_load("--split", "10,20")
            wait_until(lambda: second.received_bytes() - begin > 5 * MIB, 30, "the fetch is under way")
            filler = second.host.data / "filler"
            fill(filler)
            wait_until(lambda: loading.code is not None or "space" in second.process.err, 40,
                       lambda: f"the full disk is said: {second.process.describe()}")
            first.sees(h1="online")
            filler.unlink()
            first.is_loaded()
            loading.end()
            answers_right(first)
            second.process.end()


def fill(path):
    """Takes all that a file system has."""
    with open(path, "wb", buffering=0) as file:
        try:
            while True:
                file.write(bytes(MIB))
        except OSError:
            pass


@scenario(120)
def a_fetch_cut_at_nine_tenths_goes_on_there():
    with Cluster(2) as cluster:
        first, second = cluster.up_and_join()
        second.host.limit_rate(50)
        begin_bytes = second.received_bytes()
        loading = first.begin_to_load("--split", "1,29")
        size = wanted_bytes(first, "h1")
        wait_until(lambda: second.received_bytes() - begin_bytes > 0.9 * size, 60, "nine tenths are there")
        second.host.link(False)
        time.sleep(LOST_S + 1)
        second.host.link(True)
        first.is_loaded()
        loading.end()
        moved = second.received_bytes() - begin_bytes
        print(f"{size / MIB:.0f} MiB wanted, {moved / MIB:.0f} MiB moved")
        check(moved < 1.15 * size, f"{moved} bytes moved for {size}")
        answers_right(first)


def wanted_bytes(machine, name):
    """What a fetch to this machine will move, as soon as `ps` knows it."""
    def total():
        stages = (machine.deployment() or {}).get("stages", [])
        return next((one["fetch_bytes"] for one in stages if one["name"] == name), 0)
    return wait_until(total, 30, "the size of the fetch is known")


@scenario(120)
def a_source_is_lost_during_a_fetch():
    """A third machine fetches from two that both have the layers; one of them is killed."""
    with Cluster(3) as cluster:
        first, second, third = cluster.up_and_join()
        first.load("--pin", "h0=1", "--pin", "h1=29")
        third.host.limit_rate(40)
        loading = first.begin_to_load("--pin", "h0=1", "--pin", "h2=29")
        begin = third.received_bytes()
        wait_until(lambda: third.received_bytes() - begin > 10 * MIB, 40, "the fetch is under way")
        second.kill()
        first.is_loaded()
        check(loading.wait(60).code == 0, loading.describe())
        equal(answers_right(first)["nodes"], ["h0", "h2"], "the machines of the new plan")


@scenario(120)
def the_coordinator_is_killed_during_a_load():
    with Cluster(2) as cluster:
        first, second = cluster.up_and_join()
        second.host.limit_rate(50)
        begin = second.received_bytes()
        first.begin_to_load("--split", "5,25")
        wait_until(lambda: second.received_bytes() - begin > 5 * MIB, 40, "the fetch is under way")
        first.kill()
        first.restart()
        first.is_loaded()
        answers_right(first)
        check(second.received_bytes() - begin < 110 * MIB, "the fetch went on where it was")


@scenario(90)
def a_damaged_layer_is_found_and_fetched_again():
    with Cluster(2) as cluster:
        first, second = cluster.up_and_join()
        first.load("--split", "10,20")
        answers_right(first)
        second.stop()
        shard = max((second.host.data / "models").rglob("shards/*.gguf"),
                    key=lambda one: one.stat().st_size)
        with open(shard, "r+b") as file:
            file.seek(shard.stat().st_size // 2)
            byte = file.read(1)
            file.seek(-1, 1)
            file.write(bytes([byte[0] ^ 1]))
        second.restart()
        first.is_loaded()
        check("layer" in second.process.err and "damaged" in second.process.err,
              f"the damaged layer is named: {second.process.describe()}")
        answers_right(first)
        name = first.deployment()["name"]
        done = second.command("verify", name, check=False)
        equal(done.code, 0, f"verify after the repair: {done!r}")


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


# --- ports and attackers ---

@scenario(180)
def ports_and_attackers():
    """Only the documented ports are open; noise and a thousand idle connections cost only themselves."""
    seconds = 8
    with Cluster(3) as cluster:
        first, second, attacker = cluster.machines
        cluster.up_and_join(first, second)
        first.load("--split", "15,15")
        right = answers_right(first)
        documented = {PORT, DOWNLOAD_PORT, *STAGE_PORTS}
        for machine in (first, second):
            ports = attacker.host.probe("scan", machine.host.address, 1, 65536)["open"]
            print(f"{machine.name}: {ports}")
            check(PORT in ports and set(ports) <= documented, f"open on {machine.name}: {ports}")
            udp = machine.host.probe("listening")["udp"]
            check({port for _, port in udp} <= {PORT}, f"UDP on {machine.name}: {udp}")
            for port in ports:
                attacks = [attacker.host.run(probe_command(*arguments)) for arguments in (
                    ("garbage", machine.host.address, port, seconds, 1),
                    ("idle", machine.host.address, port, 1000, seconds),
                    ("half", machine.host.address, port, 100, seconds))]
                answer = first.run(PROMPT, TOKENS, seconds=90)
                equal(answer["token_ids"], right["token_ids"], "the answer under attack")
                print(port, [answer_of(attack.wait(60)) for attack in attacks])
            equal(first.states(), {"h0": "online", "h1": "online"}, "states after the attacks")
        first.command("invite")
        cluster.net.hosts[2].probe("garbage", first.host.address, PORT, 1, 2)
        attacker.joins(first.invite())


# --- speed ---

def decode_rate(machine, *arguments):
    return machine.run(PROMPT, 64, *arguments)["decode_tokens_per_second"]


@scenario(240)
def speed_over_a_link():
    """100 Mbit/s with TLS against the same stages on one host, measured in turns."""
    with Cluster(2) as cluster:
        first, second = cluster.machines
        second.host.limit_rate(100)
        cluster.up_and_join()
        begin, bytes_before = time.monotonic(), second.received_bytes()
        first.load("--split", "1,29")
        moved = second.received_bytes() - bytes_before
        print(f"load over 100 Mbit/s: {moved / MIB:.0f} MiB in {time.monotonic() - begin:.1f} s")
        first.load("--split", "15,15")
        local, remote = [], []
        while len(local) < 4 or (len(local) < 10 and not keeps_up(remote, local)):
            remote.append(decode_rate(first))
            local.append(decode_rate(first, "--local", "--split", "15,15", "--threads", 1))
        print(f"decode in tokens/s: {rounded(local)} on loopback, {rounded(remote)} over the link: "
              f"{max(remote) / max(local):.2f}")
        check(keeps_up(remote, local), f"{max(remote):.1f} of {max(local):.1f} tokens/s")


def keeps_up(rates, wanted):
    """At least 0.9 of them, by the best of each or by their middles: the machine has other work too."""
    return any(of(rates) > 0.9 * of(wanted) for of in (max, statistics.median)) if rates else False


def rounded(rates):
    return [round(rate, 1) for rate in rates]


@scenario(180)
def weights_take_an_idle_link_whole():
    with Cluster(3) as cluster:
        first, second, third = cluster.up_and_join()
        for machine in (second, third):
            machine.host.limit_rate(100)
        begin_bytes, rates = third.received_bytes(), []
        first.begin_to_load("--pin", "h0=1", "--pin", "h2=29")
        wait_until(lambda: third.received_bytes() - begin_bytes > 5 * MIB, 30, "the fetch is under way")
        for _ in range(3):
            before, begin = third.received_bytes(), time.monotonic()
            time.sleep(1)
            rates.append((third.received_bytes() - before) * 8e-6 / (time.monotonic() - begin))
        print(f"a fetch on an idle link of 100 Mbit/s: {[round(one) for one in rates]} Mbit/s")
        check(max(rates) > 80, f"Mbit/s: {rates}")
        first.is_loaded()
        answers_right(first)


@scenario(240)
def weights_yield_to_answers():
    """The coordinator's one cable carries an answer's steps and another model's weights."""
    with Cluster(3) as cluster:
        first, second, third = cluster.up_and_join()
        first.load("--split", "15,15")
        first.host.limit_rate(100)
        idle = [decode_rate(first) for _ in range(4)]
        other = another_model(first.host.folder / "another.gguf")
        begin_bytes = third.received_bytes()
        loading = first.host.run([BINARY, "load", other, "--threads", 1, "--pin", "h0=1",
                                  "--pin", "h2=29"], name="load")
        wait_until(lambda: third.received_bytes() - begin_bytes > 3 * MIB, 40, "the fetch is under way")
        busy, total = [], 80 * MIB
        while third.received_bytes() - begin_bytes < total and len(busy) < 30:
            busy.append(decode_rate(first))
        print(f"decode in tokens/s: {rounded(idle)} alone, {rounded(busy)} beside a fetch")
        check(len(busy) >= 2, "the fetch was over before anything was measured")
        check(keeps_up(busy[:-1], idle), f"{max(busy[:-1]):.1f} of {max(idle):.1f} tokens/s")
        check(loading.wait(120).code == 0, loading.describe())


def another_model(path):
    """MODEL with some bits changed, so that all of its layers are new to the cluster."""
    data = bytearray(open(MODEL, "rb").read())
    for at in range(len(data) // 4, len(data), 50_000):
        data[at] ^= 1
    path.write_bytes(data)
    return path


def run(name):
    limit_s, function = SCENARIOS[name]
    begin = time.monotonic()
    print(f"== {name}: at most {limit_s} s", flush=True)

    def on_alarm(*_):
        raise AssertionError(f"{name} took longer than {limit_s} s")
    signal.signal(signal.SIGALRM, on_alarm)
    signal.alarm(limit_s)
    try:
        function()
        print(f"-- {name}: ok, {time.monotonic() - begin:.1f} s", flush=True)
        return True
    except Unavailable:
        raise
    except Exception:  # pylint: disable=broad-except
        traceback.print_exc()
        print(f"-- {name}: FAILED after {time.monotonic() - begin:.1f} s", flush=True)
        return False
    finally:
        signal.alarm(0)


def main(names):
    if names == ["--list"]:
        print("\n".join(SCENARIOS))
        return
    unknown = [name for name in names if name not in SCENARIOS]
    if unknown:
        sys.exit(f"error: no scenario {', '.join(unknown)}; there are: {', '.join(SCENARIOS)}")
    try:
        results = {name: run(name) for name in names or SCENARIOS}
    except Unavailable as error:
        sys.exit(f"error: {error}")
    failed = [name for name, ok in results.items() if not ok]
    print(json.dumps({"scenarios": len(results), "failed": failed}))
    sys.exit(bool(failed))


if __name__ == "__main__":
    main(sys.argv[1:])

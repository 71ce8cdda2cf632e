#!/usr/bin/env python3
"""How fast, against what this machine can: measured alone. See cluster_test.py for the method."""
import statistics
import sys
import time

from answers import PROMPT, answers_right
from cluster import BINARY, MODEL, Cluster
from processes import wait_until
from scenarios import check, main, scenario

MIB = 1 << 20


@scenario(420, alone=True)
def over_a_cable_of_100_mbit():
    """One cluster, one slow cable at the coordinator, and all that is promised about it."""
    with Cluster(3) as cluster:
        first, second, third = cluster.up_and_join()
        first.host.limit_rate(100)
        a_fetch_takes_an_idle_link_whole(first, second)
        answers_keep_up_with_loopback(first)
        weights_yield_to_answers(first, third)


def decode_rate(machine, *arguments):
    return machine.run(PROMPT, 64, *arguments)["decode_tokens_per_second"]


def keeps_up(rates, wanted):
    """At least 0.9 of them, by the best of each or by their middles: the machine has other work too."""
    return any(of(rates) > 0.9 * of(wanted) for of in (max, statistics.median)) if rates else False


def rounded(rates):
    return [round(rate, 1) for rate in rates]


def a_fetch_takes_an_idle_link_whole(first, second):
    """At least 80 %, by the best of three seconds."""
    begin_bytes, rates = second.received_bytes(), []
    begin = time.monotonic()
    loading = first.begin_to_load("--split", "1,29,0")
    wait_until(lambda: second.received_bytes() - begin_bytes > 5 * MIB, 30, "the fetch is under way")
    for _ in range(3):
        bytes_before, second_begin = second.received_bytes(), time.monotonic()
        time.sleep(1)
        rates.append((second.received_bytes() - bytes_before) * 8e-6 / (time.monotonic() - second_begin))
    check(loading.wait(60).code == 0, loading.describe())
    moved = second.received_bytes() - begin_bytes
    print(f"a fetch on an idle link of 100 Mbit/s: {[round(one) for one in rates]} Mbit/s; "
          f"loaded with {moved / MIB:.0f} MiB in {time.monotonic() - begin:.1f} s")
    check(max(rates) > 80, f"Mbit/s: {rates}")


def answers_keep_up_with_loopback(first):
    """With TLS against the same stages on one host, measured in turns."""
    first.load("--split", "15,15,0")
    answers_right(first)
    local, remote = [], []
    while len(local) < 4 or (len(local) < 10 and not keeps_up(remote, local)):
        remote.append(decode_rate(first))
        local.append(decode_rate(first, "--local", "--split", "15,15", "--threads", 1))
    print(f"decode in tokens/s: {rounded(local)} on loopback, {rounded(remote)} over the link: "
          f"{max(remote) / max(local):.2f}")
    check(keeps_up(remote, local), f"{max(remote):.1f} of {max(local):.1f} tokens/s")


def weights_yield_to_answers(first, third):
    """The coordinator's one cable carries an answer's steps and another model's weights."""
    idle = [decode_rate(first) for _ in range(4)]
    other = another_model(first.host.folder / "another.gguf")
    begin_bytes = third.received_bytes()
    loading = first.host.run([BINARY, "load", other, "--threads", 1, "--pin", "h0=1", "--pin", "h2=29"],
                             name="load")
    wait_until(lambda: third.received_bytes() - begin_bytes > 3 * MIB, 40, "the fetch is under way")
    busy, total = [], 80 * MIB
    while third.received_bytes() - begin_bytes < total and (len(busy) < 4 or not keeps_up(busy, idle)):
        busy.append(decode_rate(first))
    print(f"decode in tokens/s: {rounded(idle)} alone, {rounded(busy)} beside a fetch")
    check(third.received_bytes() - begin_bytes < total, "the fetch was over before enough was measured")
    check(keeps_up(busy, idle), f"{max(busy):.1f} of {max(idle):.1f} tokens/s")
    check(loading.wait(120).code == 0, loading.describe())


def another_model(path):
    """MODEL with some bits changed, so that all of its layers are new to the cluster."""
    data = bytearray(open(MODEL, "rb").read())
    for at in range(len(data) // 4, len(data), 50_000):
        data[at] ^= 1
    path.write_bytes(data)
    return path


if __name__ == "__main__":
    main(sys.argv[1:], __doc__)

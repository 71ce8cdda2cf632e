#!/usr/bin/env python3
"""Weights on their way and on disks: cut, damaged, without room. See cluster_test.py for the method."""
import os
import signal
import sys

import faults
from answers import PROMPT, TOKENS, answers_right
from cluster import LOST_S, MODEL, Cluster
from processes import wait_until
from scenarios import check, equal, main, scenario

MIB = 1 << 20


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
        second.host.limit_rate(100)
        begin_bytes = second.received_bytes()
        loading = first.begin_to_load("--split", "1,29")
        size = wanted_bytes(first, "h1")
        wait_until(lambda: second.received_bytes() - begin_bytes > 0.9 * size, 60, "nine tenths are there")
        second.host.link(False)
        first.sees(h1="lost", seconds=LOST_S + 2)
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
        third.host.limit_rate(80)
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
        second.host.limit_rate(100)
        begin = second.received_bytes()
        first.begin_to_load("--split", "5,25")
        wait_until(lambda: second.received_bytes() - begin > 5 * MIB, 40, "the fetch is under way")
        first.kill()
        first.restart()
        first.is_loaded()
        answers_right(first)
        check(second.received_bytes() - begin < 110 * MIB, "the fetch went on where it was")


def largest_shard(machine):
    shards = (machine.host.data / "models").rglob("shards/*.gguf")
    return max(shards, key=lambda one: one.stat().st_size)


@scenario(90)
def a_damaged_layer_is_found_and_fetched_again():
    with Cluster(2) as cluster:
        first, second = cluster.up_and_join()
        first.load("--split", "10,20")
        answers_right(first)
        second.stop()
        shard = largest_shard(second)
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
        check_verify(second, first.deployment()["name"], 0, "0 damaged parts")


@scenario(90)
def files_are_truncated_while_a_model_is_loaded():
    """A shard in use, then spare copies: no answer is wrong, both are found, named, fetched again."""
    with Cluster(2) as cluster:
        first, second = cluster.up_and_join()
        first.load("--split", "10,20")
        answers_right(first)
        name, epoch = first.deployment()["name"], first.deployment()["epoch"]
        cut_in_half([largest_shard(second)])
        done = first.command("run", MODEL, PROMPT, "-n", TOKENS, check=False)
        check(done.code == 0 or "on h1" in done.err, f"an answer, or the machine is named: {done!r}")
        for pid in second.workers():
            os.kill(pid, signal.SIGKILL)
        first.is_loaded(after=epoch)
        check('piece_damaged piece="layer 29' in second.process.err, second.process.describe())
        answers_right(first)
        check_verify(second, name, 0, "0 damaged parts")
        spares = wait_until(lambda: whole_pieces(second, 10), 30, "h1 has spare copies of h0's layers")
        cut_in_half(spares)
        check_verify(second, name, 1, "damaged: layer 9 ")
        first.load("--split", "5,25")
        answers_right(first)
        check_verify(second, name, 0, "0 damaged parts")


def cut_in_half(files):
    for file in files:
        os.truncate(file, file.stat().st_size // 2)


def whole_pieces(machine, count):
    """The raw pieces that a machine has, once they are so many."""
    found = [one for one in (machine.host.data / "models").rglob("pieces/*") if not one.suffix]
    return found if len(found) >= count else None


def check_verify(machine, name, code, text):
    done = machine.command("verify", name, check=False)
    check(done.code == code and text in done.out, f"verify says {text!r}: {done!r}")


if __name__ == "__main__":
    main(sys.argv[1:], __doc__)

#!/usr/bin/env python3
"""What a machine that only joined brings and says, and what the coordinator shows of links. See
cluster_test.py for the method."""
import json
import shlex
import shutil
import signal
import sys
import time

import faults
from answers import PROMPT, TOKENS, answer_under_way, answers_right, one_machine
from cluster import LOST_S, MODEL, Cluster
from processes import wait_until
from scenarios import check, equal, main, scenario

MIB = 1 << 20
AT_ONCE_S = 3   # less than the deadline of a silent machine, with room for a slow test machine
DISK_MIB = 80    # of the coordinator: less than the model's file


def sent_bytes(machine):
    rows = machine.host.call(["cat", "/proc/net/dev"]).out.splitlines()[2:]
    return sum(int(row.split(":")[1].split()[8]) for row in rows if row.split(":")[0].strip() != "lo")


@scenario(120)
def a_file_on_a_machine_that_only_joined():
    """Made known there, loaded by name on a coordinator whose disk is smaller than the file."""
    with Cluster(3) as cluster:
        first, second, third = cluster.machines
        right = one_machine(second)
        with faults.SmallDisk(first.host.data, DISK_MIB):
            cluster.up_and_join()
            file = shutil.copy(MODEL, second.host.folder / "brought along.gguf")
            check(file.stat().st_size > DISK_MIB * MIB, "the coordinator's disk is too small for it")
            done = second.command("load", file, "--threads", 1, "--pin", "h0=4", "--pin", "h2=26")
            check("hashing" in done.err, f"progress is shown: {done!r}")
            check("h0" in done.out and first.host.address in done.out, f"names the coordinator: {done!r}")
            command = shlex.split(done.out.splitlines()[-1])
            equal(command[:3], ["salvage", "load", "brought along"], "what is to be run there")
            before = sent_bytes(first), third.received_bytes()
            first.command(*command[1:])
            sent, received = sent_bytes(first) - before[0], third.received_bytes() - before[1]
            print(f"h0 sent {sent / MIB:.1f} MiB, h2 received {received / MIB:.1f} MiB, "
                  f"h0 stores {first.stored_bytes() / MIB:.1f} MiB")
            check(received > 30 * MIB and sent < 3 * MIB, "pieces come from the machine with the file")
            row = next(row for row in first.ask("models")["models"] if row["name"] == "brought along")
            check(row["complete"] and row["loaded"], f"known as a whole: {row}")
            answer = json.loads(first.command("run", "brought along", PROMPT, "-n", TOKENS, "--temp", "0",
                                              "--json", "--logits-hash").out)
            equal(answer["nodes"], ["h0", "h2"], "who answers")
            equal(answer["token_ids"], right["token_ids"], "the answer")
            equal(answer["logits_hash"], right["logits_hash"], "the hash of all logits")
            known_again(first, second, file)
            first.process.end()


def known_again(first, second, file):
    """The machine with the file is restarted: nothing is hashed again, nothing is told twice."""
    second.stop()
    second.restart()
    first.sees(h1="online")
    done = second.command("load", file)
    check("hashing" not in done.err and "salvage load 'brought along'" in done.out, f"at once: {done!r}")
    done = second.command("load", "brought along", check=False)
    check(done.code == 1 and "h0" in done.err, f"only the coordinator's user loads: {done!r}")


@scenario(90, quarters=1)
def a_goodbye_is_believed_at_once():
    """Ctrl-C and SIGTERM make a machine offline, not lost; without a word it is lost as ever."""
    with Cluster(3) as cluster:
        first, second, third = cluster.up_and_join()
        for way in (signal.SIGINT, signal.SIGTERM):
            second.process.send(way)
            begin = time.monotonic()
            for machine in (first, third):
                machine.sees(h1="offline", seconds=AT_ONCE_S)
            print(f"{way.name}: offline after {time.monotonic() - begin:.2f} s")
            wait_until(lambda: not second.process.running(), 2, "it has ended")
            second.all_gone()
            second.restart()
            first.sees(h1="online")
        check("h1 was shut down" in first.process.out, first.process.describe())
        check("h1 is lost" not in first.process.out, first.process.describe())
        second.kill()
        first.sees(h1="lost", seconds=AT_ONCE_S)
        second.restart()
        first.sees(h1="online")
        second.host.link(False)
        second.process.send(signal.SIGTERM)
        wait_until(lambda: not second.process.running(), 3, "nobody hears it, and it ends all the same")
        first.sees(h1="lost", seconds=LOST_S + 3)


@scenario(90, quarters=3)
def links_show_what_went_over_them():
    """Bytes and load of each link in `ps`; layers and work in the log; unloaded by its path."""
    with Cluster(2) as cluster:
        first, second = cluster.machines
        second.host.limit_rate(100)
        first.up("--name", "h0", "--log-level", "info")
        first.ready()
        second.joins(first.invite(), "--name", "h1")
        first.load("--split", "15,15")
        answers_right(first)
        links = wait_until(lambda: counted_alike(first), 10, lambda: f"both ends agree: {first.deployment()}")
        equal([(one["from_stage"], one["to_stage"]) for one in links], [(None, 0), (0, 1), (1, None)],
              "one more than stages")
        equal([(one["from"], one["to"]) for one in links], [("h0", "h0"), ("h0", "h1"), ("h1", "h0")], "ends")
        row_bytes = 576 * 4  # of a hidden state of SmolLM2
        check(links[1]["bytes_sent"] > TOKENS * row_bytes, f"hidden states: {links[1]}")
        answering = answer_under_way(first)
        busy = wait_until(lambda: loaded_link(first), 20, lambda: f"a load is shown: {first.deployment()}")
        print(f"under way: {busy}")
        text = first.command("ps").out
        check("coordinator, h0" in text and "stage 1, h1" in text, text)
        answering.end()
        first.command("unload", MODEL)
        wait_until(lambda: first.deployment()["state"] == "unloaded", 20, "it is unloaded")
        for event in ("event=stage_ready", "event=stage_served"):
            lines = [line for line in first.process.err.splitlines() if event in line]
            check(any("stage=1" in line and "node=h1" in line for line in lines), f"{event}: {lines}")
        check("level=info" not in second.process.err, "the default is warnings: " + second.process.describe())
        for machine in (first, second):
            check("stage_ended" not in machine.process.err, "nothing failed: " + machine.process.describe())


def counted_alike(machine):
    """The links, once what was sent is what has arrived."""
    links = machine.deployment()["links"]
    return links if links and all(one["bytes_sent"] == one["bytes_arrived"] for one in links) else None


def loaded_link(machine):
    """The link between the machines, once it has a load."""
    links = machine.deployment()["links"]
    return links[1] if len(links) == 3 and links[1].get("load", 0) > 0 else None


if __name__ == "__main__":
    main(sys.argv[1:], __doc__)

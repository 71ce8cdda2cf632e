#!/usr/bin/env python3
"""The download of the program from the coordinator, and everybody who should not get it.

    tests/net/download_test.py [NAME...]    these only

Goal: the printed line works on another machine and joins it; without an open code there is no port, and
with one there is nothing but the archive, whoever asks and however many; who stands in between with another
key is refused before anything is fetched. Method: the real program on hosts of the test network, curl and
probes.py as the strangers; the archive is the program of this build, packed as `make dist` packs it.

Environment: SALVAGE_BINARY, and SALVAGE_MODEL_SMOLLM2 as for cluster_test.py.
"""
import json
import os
import re
import sys
import time

from cluster import DOWNLOAD_PORT, Cluster, is_salvage
from portable import packed
from probes import probe_command
from processes import wait_until
from scenarios import check, main, scenario

LIMIT_S = 90
CLOSES_S = 8  # the port, after the last code is used up or has ended
LINE = re.compile(r"^ +(sh -c '.*')$", re.MULTILINE)
PATH = re.compile(r"https://\$a(/salvage/([0-9a-f]{16})/([0-9a-f]{32})/salvage\.tar\.gz)")
SSL_PIN_MISMATCH = 90  # curl's exit code


class Scene(Cluster):
    """A coordinator with an archive, and machines that have nothing."""

    def __init__(self, host_count=2):
        super().__init__(host_count)
        self.archive = packed()
        self.first, *self.others = self.machines

    def up(self, *arguments):
        self.first.up("--name", "first", "--portable", self.archive, *arguments)
        self.first.ready()
        return self

    def line(self, *arguments):
        """Of a new code: (the line, its path)."""
        out = self.first.command("invite", *arguments).out
        line = LINE.search(out)
        check(line, f"a line is printed: {out}")
        return line[1], PATH.search(line[1])[1]

    def curl(self, path, *arguments, machine=None, seconds=30):
        """(curl's exit code, HTTP status, bytes) of one request to the coordinator."""
        url = f"https://{self.first.host.address}:{DOWNLOAD_PORT}{path}"
        done = (machine or self.others[0]).host.call(
            ["curl", "-gsSk", "--path-as-is", "--max-time", 20, "-o", "/dev/null", "-w",
             "%{http_code} %{size_download}", *arguments, url], seconds, name="curl")
        status, size = (done.out.split() + ["0", "0"])[:2]
        return done.code, int(status), int(size)

    def gets(self, path, *arguments):
        size = self.archive.stat().st_size
        check(self.curl(path, *arguments) == (0, 200, size), "who has the token gets the archive")

    def is_listening(self):
        listening = self.first.host.probe("listening")["tcp"]
        return DOWNLOAD_PORT in [port for _, port in listening]


@scenario(LIMIT_S)
def the_line_joins_a_machine_and_then_the_port_is_closed():
    with Scene() as scene:
        scene.up()
        check(scene.is_listening(), "`up` of a new cluster has an open code")
        line = LINE.search(scene.first.process.out)
        check(line, f"`up` prints a line: {scene.first.process.describe()}")
        second = scene.others[0]
        joining = second.host.run(["sh", "-c", line[1]], name="line")
        scene.first.sees(**{"h1": "online"})
        check("salvage.tar.gz: OK" in joining.out, joining.describe())
        program = second.host.home / ".local/bin/salvage"
        check(second.host.call([program, "--version"]).code == 0, "the program is linked")
        wait_until(lambda: not scene.is_listening(), CLOSES_S, "the port closes")
        check(scene.curl(PATH.search(line[1])[1])[0] == 7, "nobody listens")
        scene.line()
        check(scene.is_listening(), "a new code opens it again")


@scenario(LIMIT_S)
def who_has_no_token_gets_nothing():
    with Scene() as scene:
        scene.up()
        _, path = scene.line("--uses", 2)
        _, invite, token = PATH.search(f"https://$a{path}").groups()
        scene.gets(path)
        wrong = [f"/salvage/{invite}/{'0' * 32}/salvage.tar.gz", f"/salvage/{invite}/salvage.tar.gz",
                 f"/salvage/{'0' * 16}/{token}/salvage.tar.gz", "/", "/salvage/", "/state.db", f"{path}/",
                 f"/salvage/{invite}/{token}/../../../etc/passwd", "/../../etc/passwd", "/%2e%2e/etc/passwd",
                 f"/salvage/{invite}/{token}/state.db", "//etc/passwd"]
        for one in wrong:
            check(scene.curl(one)[:2] == (0, 404), f"{one} is a 404: {scene.curl(one)}")
        check(scene.curl(path, "-X", "POST", "-d", "x")[1] == 404, "POST is a 404")
        code, status, size = scene.curl(path, "-H", "X: " + "y" * 60_000)
        check(size < 1000 and status != 200, f"a huge header ends the request: {code, status, size}")
        check(scene.curl(path, "--tls-max", "1.2")[0] == 35, "TLS 1.2 is refused")
        size = scene.archive.stat().st_size
        check(scene.curl(path, "-r", f"{size - 5}-") == (0, 206, 5), "a rest can be had")
        said = scene.first.process.out + scene.first.process.err
        check("has fetched salvage" in said and "event=refused" in said, f"accesses are said: {said}")
        check(token not in said, "tokens are not logged")


@scenario(LIMIT_S)
def a_code_that_was_used_has_ended_or_was_taken_back_opens_nothing():
    with Scene(3) as scene:
        scene.up()
        _, keeper = scene.line("--ttl", "1h")  # keeps the port open
        line, used = scene.line()
        code = re.search(r"slv1\.[0-9A-Za-z-]+", line)[0]
        scene.gets(used)
        scene.others[0].joins(code)
        check(scene.curl(used)[1] == 404, "a used code is a 404")
        _, short = scene.line("--ttl", "4s")
        scene.gets(short)
        wait_until(lambda: scene.curl(short)[1] == 404, 10, "a code that has ended is a 404", 0.2)
        _, revoked = scene.line()
        scene.first.command("invite", "--revoke", revoked.split("/")[2])
        check(scene.curl(revoked)[1] == 404, "a code that was taken back is a 404")
        scene.gets(keeper)


@scenario(LIMIT_S)
def the_token_lets_nobody_join():
    with Scene() as scene:
        scene.up()
        line, path = scene.line()
        code = re.search(r"slv1\.[0-9A-Za-z-]+", line)[0]
        token = path.split("/")[3]
        check(token not in code and len(token) == 32, "the token is not the secret")
        scene.others[0].fails_to_join(f"slv1.{token}", "join code")


@scenario(LIMIT_S)
def somebody_in_between_is_refused_before_anything_is_fetched():
    """The other machine answers at the address with a coordinator's service, but another key."""
    with Scene(3) as scene:
        scene.up()
        impostor, victim = scene.others
        impostor.up("--name", "impostor", "--portable", scene.archive)
        impostor.ready()
        line, _ = scene.line()
        turned = line.replace(scene.first.host.address, impostor.host.address)
        turned = turned.replace(scene.first.host.address6, impostor.host.address6)
        done = victim.host.call(["sh", "-c", turned], 60, name="line")
        check(done.code == SSL_PIN_MISMATCH, f"curl finds another key: {done!r}")
        check("public key" in done.err, f"and says so: {done!r}")
        fetched = [path for path in victim.host.home.rglob("*") if path.is_file()]
        check(not fetched, f"nothing was written: {fetched}")
        check("event=refused" not in impostor.process.err, "the token was not even sent")


@scenario(LIMIT_S)
def crowds_and_garbage_keep_nobody_out():
    with Scene(3) as scene:
        scene.up()
        _, path = scene.line("--uses", 2)
        address, attacker = scene.first.host.address, scene.others[1]
        for kind, count in (("idle", 1000), ("half", 300)):
            crowd = attacker.host.run(probe_command(kind, address, DOWNLOAD_PORT, count, 20), name=kind)
            crowd.expect("holding", 30)
            begin = time.monotonic()
            scene.gets(path)
            print(f"   {count} {kind}: the archive took {time.monotonic() - begin:.2f} s", flush=True)
            crowd.end()
        noise = attacker.host.run(probe_command("garbage", address, DOWNLOAD_PORT, 8, 7), name="garbage")
        scene.gets(path)
        done = noise.wait(30)
        check(json.loads(done.out.splitlines()[-1])["sent"] > 10, f"garbage was sent: {done!r}")
        scene.gets(path)
        threads = len(os.listdir(f"/proc/{program_of(scene.first)}/task"))
        check(threads < 64, f"threads are given back: {threads}")


def program_of(machine):
    """The process id of the program that runs on a machine."""
    return next(pid for pid in machine.host.pids() if is_salvage(pid))


@scenario(LIMIT_S)
def without_an_archive_or_with_a_taken_port_the_rest_works_and_it_is_said():
    with Scene() as scene:
        scene.up("--download-port", 0)
        out = scene.first.command("invite").out
        check(not LINE.search(out) and "--download-port 0" in out, out)
        check(not scene.is_listening(), "nobody listens")
        asked = scene.first.ask("invite")
        check(asked["no_download"] and "download_line" not in asked, f"in JSON as well: {asked}")
        scene.first.stop()
        scene.first.up("--portable", scene.archive, "--download-port", 7420)
        scene.first.ready()
        check("7420" in scene.first.ask("invite")["no_download"], "a port that is taken is named")
        scene.others[0].joins(scene.first.invite())


if __name__ == "__main__":
    main(sys.argv[1:], __doc__, prepare=packed)  # not on the time of the first

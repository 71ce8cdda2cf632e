"""Discovery between machines: the coordinator is found on every kind of LAN that a house has.

Method: the module by itself (beacon_tool.cc) on hosts of the test network; nothing of a cluster runs.
"""
import os
import sys
import time
import unittest

import faults
from netns import Net, Unavailable
from processes import wait_until

TOOL = os.environ.get("SALVAGE_BEACON_TOOL", "")
INTERVAL_S = 5  # src/discovery/rhythm.h


class Discovery(unittest.TestCase):
    def setUp(self):
        self.net = Net(2)
        self.addCleanup(self.net.close)
        self.first, self.second = self.net.hosts
        self.cluster = self.make_cluster("cluster")

    def make_cluster(self, name):
        folder = self.net.folder / name
        folder.mkdir()
        done = self.first.call([TOOL, "make", folder])
        self.assertEqual(done.code, 0, done)
        return folder

    def send(self, host, cluster=None, *addresses):
        addresses = addresses or (host.address, host.address6)
        return host.run([TOOL, "send", cluster or self.cluster, *addresses]).expect("ready", 10)

    def hear(self, host, *arguments):
        return host.run([TOOL, "hear", self.cluster, *arguments]).expect("ready", 10)

    def sighting(self, process, seconds, matches=lambda line: True):
        """The first line of this kind that it has printed, in words."""
        def found():
            lines = process.out.splitlines()[1:]
            return next((line.split() for line in lines if matches(line)), None)
        return wait_until(found, seconds, lambda: f"a sighting: {process.describe()}")

    def test_who_listens_hears_and_who_asks_need_not_wait(self):
        ear = self.hear(self.second)
        self.send(self.first)
        words = self.sighting(ear, 2)
        self.assertEqual(words[:2], [self.first.address, self.first.address6])
        self.assertEqual(words[-1], "eth0")
        begin = time.monotonic()
        late = self.hear(self.second, "--ask")
        self.sighting(late, 2)
        self.assertLess(time.monotonic() - begin, 2)

    def test_one_family_alone_is_enough(self):
        for family, mine in (("-6", self.first.address), ("-4", self.first.address6)):
            with self.subTest(without=family):
                for host in (self.first, self.second):
                    host.call(["ip", family, "addr", "flush", "dev", "eth0"])
                ear = self.hear(self.second)
                mouth = self.send(self.first)
                self.assertIn(mine, self.sighting(ear, 2))
                mouth.end()
                ear.end()
                # Down and up again: with it comes a new link-local address.
                for host in (self.first, self.second):
                    host.call(["ip", "link", "set", "eth0", "down"])
                    host.call(["ip", "link", "set", "eth0", "up"])
                    host.change_address(host.number)

    def test_a_new_address_comes_with_the_datagram_even_if_the_beacon_does_not_know_it(self):
        ear = self.hear(self.second)
        self.send(self.first, None, "198.18.0.250")
        self.first.change_address(123)
        self.sighting(ear, INTERVAL_S + 3,
                      lambda line: line.split()[:2] == ["198.18.0.250", self.first.address])

    def test_a_card_that_is_plugged_in_later_is_used_too(self):
        lan = self.net.add_lan()
        third = self.net.add_host("third", connected=False)
        third.add_interface("eth0", lan)
        self.send(self.first)
        ear = self.hear(third)
        self.first.add_interface("eth1", lan)
        self.sighting(ear, INTERVAL_S + 3)

    def test_a_pulled_cable_that_comes_back_is_heard_again(self):
        self.send(self.first)
        self.first.link(False)
        ear = self.hear(self.second, "--ask")
        time.sleep(1)
        self.assertEqual(len(ear.out.splitlines()), 1, ear.describe())
        self.first.link(True)
        self.sighting(ear, INTERVAL_S + 3)

    def test_other_clusters_and_strangers_are_not_heard(self):
        stranger = self.make_cluster("stranger")
        ear = self.hear(self.second)
        self.send(self.first, stranger)
        # Our own cluster's name with a stranger's key.
        forged = self.make_cluster("forged")
        (forged / "authority").write_text((self.cluster / "authority").read_text())
        self.send(self.first, forged)
        noise = "SLVB\x01\x01" + "x" * 500
        for _ in range(10):
            self.first.probe("shout", "239.255.74.20", 7420, noise)
        time.sleep(0.5)
        self.assertEqual(len(ear.out.splitlines()), 1, ear.describe())
        self.assertTrue(ear.running())
        self.send(self.first)
        self.sighting(ear, 2)

    def test_half_of_all_packets_lost_is_no_matter(self):
        faults.lose(self.second, 500)
        self.send(self.first)
        ear = self.hear(self.second)
        self.sighting(ear, 6 * INTERVAL_S)

    def test_addresses_are_ranked_as_their_links_are(self):
        self.first.add_interface("wlan0", self.net.lans[0], 60)
        lines = self.first.call([TOOL, "addresses"]).out.splitlines()
        rows = [line.split() for line in lines]
        self.assertEqual([row[1:3] for row in rows if not row[0].startswith("fe80")],
                         [["eth0", "wired"]] * 2 + [["wlan0", "wifi"]] * 2 + [["lo", "loopback"]] * 2)
        self.assertEqual(rows[0][0], self.first.address)
        self.first.link(False)
        wait_until(lambda: "eth0" not in self.first.call([TOOL, "addresses"]).out, 5,
                   "a card without carrier is left out")


if __name__ == "__main__":
    if not os.path.isfile(TOOL):
        sys.exit("error: SALVAGE_BEACON_TOOL must name the tool that the build makes")
    try:
        unittest.main(verbosity=2)
    except Unavailable as error:
        sys.exit(f"error: {error}")

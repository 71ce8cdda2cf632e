"""The test network itself: does it do what its tests believe? limits_selftest.py measures its limits,
cleanup_selftest.py kills its runs.

Method: small probes inside the hosts look at what a fault claims to do: cuts, losses, clocks, disks.
"""
import errno
import signal
import sys
import time
import unittest

import faults
from netns import Net
from probes import answer_of
from processes import wait_until
from selftest_tools import PORT, connects, listening, run_tests


def setUpModule():
    global net  # pylint: disable=global-statement
    net = Net(3)


def tearDownModule():
    net.close()


class Hosts(unittest.TestCase):
    def test_they_reach_each_other_by_both_families_and_by_name(self):
        first, second = net.hosts[:2]
        for address in (second.address, second.address6, second.name):
            self.assertTrue(connects(first, address), address)
        done = first.call(["ping", "-c", "2", "-i", "0.2", "-W", "1", second.name])
        self.assertEqual(done.code, 0, done)

    def test_each_has_its_own_name_folders_and_loopback(self):
        first, second = net.hosts[:2]
        self.assertEqual(first.call(["cat", "/proc/sys/kernel/hostname"]).out.strip(), "h0")
        self.assertNotEqual(first.home, second.home)
        server = listening(first, "sink", PORT)
        self.assertTrue(connects(first, "127.0.0.1", PORT))
        server.end()
        script = ("import socket\ns=socket.create_server(('127.0.0.1',5001))\n"
                  "print('up',flush=True)\ns.accept()")
        server = first.run([sys.executable, "-c", script]).expect("up", 5)
        self.assertEqual(second.probe("scan", first.address, 5000, 5003), {"open": []})
        self.assertEqual(first.probe("scan", "127.0.0.1", 5000, 5003), {"open": [5001]})
        server.end()

    def test_nothing_leads_out_and_two_nets_do_not_meet(self):
        host = net.hosts[0]
        routes = host.call(["ip", "route"]).out + host.call(["ip", "-6", "route"]).out
        self.assertNotIn("default", routes)
        with Net(1) as other:
            self.assertEqual(other.hosts[0].address, host.address)
            server = listening(host, "hear", "239.255.74.20", 7420, 0.5)
            other.hosts[0].probe("shout", "239.255.74.20", 7420, "hello")
            self.assertEqual(answer_of(server.wait(5)), {"heard": []})

    def test_multicast_reaches_everybody_in_both_families(self):
        for group in ("239.255.74.20", "ff02::7420"):
            ears = [listening(host, "hear", group, 7420, 5, 1) for host in net.hosts[1:]]
            net.hosts[0].probe("shout", group, 7420, "hello")
            for ear in ears:
                self.assertEqual(answer_of(ear.wait(10)), {"heard": ["hello"]}, group)

    def test_a_process_is_watched_and_ended_by_its_id(self):
        host = net.hosts[0]
        process = host.run(["sh", "-c", "echo out; echo err >&2; exec sleep 60"])
        process.expect("out", 5).expect("err", 5)
        self.assertIn(process.pid, host.pids())
        self.assertEqual(process.end(), -signal.SIGTERM)
        self.assertNotIn(process.pid, host.pids())
        with self.assertRaisesRegex(AssertionError, "ended without saying"):
            host.run(["echo", "x"]).expect("y", 5)
        with self.assertRaisesRegex(AssertionError, "not within 0.1 s: rain"):
            wait_until(lambda: False, 0.1, "rain")

    def test_a_port_scan_finds_what_listens_and_nothing_else(self):
        first, second = net.hosts[:2]
        servers = [listening(first, "sink", port) for port in (7, 5000, 65535)]
        begin = time.monotonic()
        self.assertEqual(second.probe("scan", first.address, 1, 65536), {"open": [7, 5000, 65535]})
        self.assertLess(time.monotonic() - begin, 20)
        for server in servers:
            server.end()
        server = listening(first, "echo", 5000, 1)
        self.assertEqual(first.probe("listening"), {"tcp": [], "udp": [["::", 5000]]})
        server.end()

    def test_attackers_do_what_they_say(self):
        first, second = net.hosts[:2]
        script = ("import socket\ns=socket.create_server(('',5000),backlog=400)\nprint('up',flush=True)\n"
                  "held=[]\nwhile True: held.append(s.accept())")
        server = first.run([sys.executable, "-c", script]).expect("up", 5)
        held = second.probe("idle", first.address, PORT, 300, 1)
        self.assertEqual(held, {"opened": 300, "refused": 0, "ended_by_peer": 0})
        sent = second.probe("garbage", first.address, PORT, 0.5, 1)
        self.assertGreater(sent["sent"], 1)
        server.end()


class Faults(unittest.TestCase):
    def tearDown(self):
        faults.heal(net)

    def test_a_cable_pulled_and_put_back(self):
        first, second = net.hosts[:2]
        second.link(False)
        self.assertIn("NO-CARRIER", second.call(["ip", "link", "show", "eth0"]).out)
        self.assertFalse(connects(first, second.address))
        second.link(True)
        wait_until(lambda: connects(first, second.address), 5, "the cable works again")

    def test_a_changed_address_replaces_the_old_one(self):
        first, second = net.hosts[:2]
        old, old6 = second.address, second.address6
        second.change_address(77)
        self.assertNotEqual(second.address, old)
        for address in (second.address, second.address6, second.name):
            self.assertTrue(connects(first, address), address)
        for address in (old, old6):
            self.assertFalse(connects(first, address), address)
        self.assertTrue(connects(second, first.address))
        second.change_address(second.number)
        self.assertEqual(second.address, old)

    def test_a_cut_parts_two_sides_and_heals(self):
        first, second, third = net.hosts
        faults.cut([first], [second])
        for address in (second.address, second.address6):
            self.assertFalse(connects(first, address))
        self.assertTrue(connects(first, third.address))
        self.assertTrue(connects(second, third.address))
        faults.heal(net)
        wait_until(lambda: connects(first, second.address), 5, "the cut has healed")

    def test_a_cut_may_be_one_sided(self):
        first, second = net.hosts[:2]
        faults.cut([first], [second], one_way=True)
        # Each hears itself, too.
        ears = [listening(first, "hear", "239.255.74.20", 7420, 5, 2),
                listening(second, "hear", "239.255.74.20", 7420, 6)]
        first.probe("shout", "239.255.74.20", 7420, "from first")
        second.probe("shout", "239.255.74.20", 7420, "from second")
        heard = [answer_of(ear.wait(10))["heard"] for ear in ears]
        self.assertEqual(heard, [["from first", "from second"], ["from second"]])

    def test_losses_are_about_as_many_as_asked_for(self):
        first, second = net.hosts[:2]
        self.assertTrue(connects(first, second.address))  # they know each other's cards by now
        faults.lose(second, 300)
        done = first.call(["ping", "-c", "200", "-i", "0.002", "-W", "0.2", "-q", second.address])
        lost = float(done.out.split("% packet loss")[0].split()[-1])
        # A reply needs both ways: 1 - 0.7 x 0.7 = 51 %.
        self.assertGreater(lost, 35, done)
        self.assertLess(lost, 67, done)

    def test_a_second_card_on_the_same_lan_and_on_another(self):
        first, second = net.hosts[:2]
        wifi = second.add_interface("wlan0", net.lans[0], number=60)
        self.assertTrue(connects(first, wifi.address))
        second.remove_interface(wifi)
        self.assertFalse(connects(first, wifi.address))
        lan = net.add_lan()
        cards = [host.add_interface("eth1", lan) for host in (first, second)]
        first.link(False)
        self.assertTrue(connects(first, cards[1].address))
        self.assertFalse(connects(first, second.address))
        first.link(True)
        for host, card in zip((first, second), cards):
            host.remove_interface(card)

    def test_a_clock_off_by_a_day_moves_nothing_but_the_date(self):
        host = net.hosts[0]
        self.addCleanup(setattr, host, "clock_offset_s", 0)
        host.clock_offset_s = 86_400
        wrong = host.probe("clock")
        host.clock_offset_s = -86_400
        date = int(host.call(["date", "+%s"]).out)
        self.assertAlmostEqual(wrong["wall"] - time.time(), 86_400, delta=10)
        self.assertAlmostEqual(date - time.time(), -86_400, delta=10)
        self.assertAlmostEqual(wrong["monotonic"], time.monotonic(), delta=10)

    def test_a_small_disk_fills_up_and_can_grow(self):
        host = net.hosts[0]
        with faults.SmallDisk(host.data, 1) as disk:
            with self.assertRaises(OSError) as full:
                (host.data / "big").write_bytes(b"x" * (2 << 20))
            self.assertEqual(full.exception.errno, errno.ENOSPC)
            disk.resize(4)
            (host.data / "big").write_bytes(b"x" * (2 << 20))
        self.assertFalse((host.data / "big").exists())


if __name__ == "__main__":
    run_tests()

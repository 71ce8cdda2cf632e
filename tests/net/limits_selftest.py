"""The limits of the test network: rates, shares of a core, delays. Measured, so nothing else may run."""
import pathlib
import sys
import tempfile
import unittest

import faults
import quotas
from cleanup import leftovers
from netns import Net
from probes import answer_of
from processes import wait_until
from selftest_tools import MEASURE_S, connected_names, listening, mbit, round_trips, run_tests


def setUpModule():
    global net  # pylint: disable=global-statement
    net = Net(3)


def tearDownModule():
    net.close()


def share_of(host, wanted):
    """The best of some: others may want this core, too."""
    best = 0.0
    for _ in range(3):
        best = max(best, host.probe("spin", MEASURE_S)["share"])
        if best > 0.9 * wanted:
            break
    return best


class Limits(unittest.TestCase):
    def test_a_rate_holds_in_both_directions(self):
        first, second = net.hosts[:2]
        free = mbit(first, second)
        self.assertGreater(free, 300, "without a limit the network must not be the slow part")
        for rate in (100, 20):
            second.limit_rate(rate)
            there, back = mbit(first, second), mbit(second, first)
            second.limit_rate(None)
            for measured in (there, back):
                self.assertGreater(measured, 0.85 * rate)
                self.assertLess(measured, 1.1 * rate)

    def test_quotas_give_shares_of_a_core(self):
        host, shares = net.hosts[2], {}
        for percent in (100, 50, 25):
            host.slow_down(percent)
            shares[percent] = share_of(host, percent / 100)
        host.lift_quota()
        free = host.probe("spin", MEASURE_S)["share"]
        print(f"shares of a core: {shares}, {free} without quota", file=sys.stderr)
        for percent, share in shares.items():
            self.assertLess(share, percent / 100 + 0.05)
            self.assertGreater(share, min(percent / 100, free) * 0.7)

    def test_the_relay_takes_its_time_and_no_more(self):
        with Net(1) as slow:
            near = slow.hosts[0]
            far = slow.add_host("far", connected=False)
            relay = faults.connect_with_delay(far, slow.lans[0], 5000)
            took = round_trips(near, far, 50)
            again = near.call(["ping", "-c", "5", "-i", "0.02", "-q", far.name])
            self.assertEqual(again.code, 0, again)
            rates = []
            for rate in (None, 100):
                if rate:
                    far.limit_rate(rate)
                rates += [mbit(near, far), mbit(far, near)]
            ear = listening(far, "hear", "ff02::7420", 7420, 5, 1)
            near.probe("shout", "ff02::7420", 7420, "hello")
            self.assertEqual(answer_of(ear.wait(10)), {"heard": ["hello"]})
            relay.end()
            print(f"relay, 5 ms each way: round trip {took}; {[round(one) for one in rates]} Mbit/s "
                  f"(free there, back; 100 Mbit/s there, back); {relay.err.split(chr(10))[:2]}",
                  file=sys.stderr)
            self.assertGreaterEqual(took["min_ms"], 10)
            self.assertLess(took["min_ms"], 10.5)
            self.assertLess(took["median_ms"], 12)
            for measured in rates[2:]:
                self.assertGreater(measured, 80)
                self.assertLess(measured, 105)
            self.assertNotIn("far", connected_names(near, slow))

    def test_jitter_stays_within_its_range(self):
        with Net(1) as slow:
            far = slow.add_host("far", connected=False)
            faults.connect_with_delay(far, slow.lans[0], 2000, jitter_us=4000, seed=7)
            took = round_trips(slow.hosts[0], far, 60)
            self.assertGreaterEqual(took["min_ms"], 4)
            self.assertGreater(took["max_ms"] - took["min_ms"], 2)
            self.assertLess(took["median_ms"], 13)


class ControlGroups(unittest.TestCase):
    """Both versions as files; which of them this machine has for cpu is tested by shares, above."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = pathlib.Path(folder.name)
        self.none = self.root / "none"

    def give(self, name, text=""):
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return path

    def test_version_2_hands_cpu_on_and_limits_it(self):
        self.give("cgroup.controllers", "cpuset cpu io memory")
        handed = self.give("cgroup.subtree_control", "memory")
        groups = quotas.find(self.none, [self.none, self.root])
        self.assertIsInstance(groups, quotas.Version2)
        folder = groups.limit("run", "h1", 25)
        self.assertEqual(folder, self.root / "run/h1")
        self.assertEqual((folder / "cpu.max").read_text(), "5000 20000")
        for control in (handed, self.root / "run/cgroup.subtree_control"):
            self.assertEqual(control.read_text(), "+cpu")
        groups.lift(folder)
        self.assertEqual((folder / "cpu.max").read_text(), "max 20000")

    def test_version_2_comes_first_only_where_it_has_cpu(self):
        old = self.root / "old"
        self.give("old/cpu.shares", "1024")
        self.give("cgroup.controllers", "hugetlb")
        self.give("cgroup.subtree_control")
        groups = quotas.find(old, [self.root])
        self.assertIsInstance(groups, quotas.Version1)
        folder = groups.limit("run", "h1", 50)
        self.assertEqual((folder / "cpu.cfs_quota_us").read_text(), "10000")
        self.assertEqual((folder / "cpu.cfs_period_us").read_text(), "20000")
        groups.lift(folder)
        self.assertEqual((folder / "cpu.cfs_quota_us").read_text(), "-1")
        self.give("cgroup.controllers", "cpu hugetlb")
        self.assertIsInstance(quotas.find(old, [self.root]), quotas.Version2)

    def test_what_is_missing_is_said(self):
        self.give("cgroup.controllers", "cpu")
        (self.root / "cgroup.subtree_control").mkdir()  # can't be written
        self.assertIsNone(quotas.find(self.none, [self.root]))
        why = quotas.why_none(self.none, [self.root])
        self.assertIn(f"cpu isn't handed on by {self.root}", why)
        self.assertIn(f"no control groups of version 1 for cpu in {self.none}", why)

    def test_a_host_s_processes_live_in_a_real_group_of_version_2(self):
        root = next((one for one in quotas.VERSION_2 if (one / "cgroup.procs").exists()), None)
        if root is None:
            print("this machine has no control groups of version 2", file=sys.stderr)
            return
        with Net(1) as small:
            host, prefix = small.hosts[0], small.prefix
            group = root / f"{prefix}cpu" / host.name
            group.mkdir(parents=True)
            host.enter_group(group)
            process = host.run(["sleep", "60"])
            joined = pathlib.Path(f"/proc/{process.pid}/cgroup")
            wait_until(lambda: f"0::/{prefix}cpu/{host.name}\n" in joined.read_text(encoding="utf-8"), 5,
                       lambda: f"it is in the group: {joined.read_text(encoding='utf-8')}")
            self.assertIn(str(group.parent), leftovers(prefix))
        self.assertEqual(leftovers(prefix), [])


if __name__ == "__main__":
    run_tests()

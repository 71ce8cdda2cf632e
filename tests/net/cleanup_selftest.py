"""Nothing stays of a run, however it ends. Method: runs that are killed with -9, and a look for leftovers."""
import os
import pathlib
import signal
import subprocess
import sys
import unittest

from cleanup import leftovers, machine_lock, own_prefix
from netns import Net
from processes import end_by_id, is_running, wait_until
from selftest_tools import run_tests

HERE = pathlib.Path(__file__).resolve().parent

# A run that is killed in the middle; it says what it made.
VICTIM = """
import sys
sys.path.insert(0, sys.argv[1])
from netns import Net
import faults, quotas
net = Net(2)
if quotas.find():
    net.hosts[0].slow_down(50)
disk = faults.SmallDisk(net.hosts[1].data, 1)
process = net.hosts[0].run(["sh", "-c", "sleep 300 & sleep 300"])
print(net.prefix, net._guard.pid, *net.hosts[0].pids(), flush=True)
sys.stdin.read()
"""


class CleaningUp(unittest.TestCase):
    def victim(self):
        process = subprocess.Popen([sys.executable, "-B", "-c", VICTIM, str(HERE)],
                                   stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.addCleanup(self.bury, process)
        prefix, guard, *pids = process.stdout.readline().decode().split()
        self.assertTrue(leftovers(prefix))
        return process, prefix, int(guard), list(map(int, pids))

    def bury(self, process):
        if process.poll() is None:
            process.kill()
        process.wait(10)
        process.stdin.close()
        process.stdout.close()

    def test_a_net_that_is_closed_leaves_nothing(self):
        with Net(1) as small:
            process = small.hosts[0].run(["sh", "-c", "sleep 300 & sleep 300"])
            wait_until(lambda: len(small.hosts[0].pids()) >= 2, 5, "its child has started")
            pids, prefix = small.hosts[0].pids(), small.prefix
            self.assertIn(process.pid, pids)
        self.assertEqual(leftovers(prefix), [])
        self.assertEqual([pid for pid in pids if is_running(pid)], [])

    def test_the_guard_removes_what_a_killed_run_made(self):
        process, prefix, _, pids = self.victim()
        os.kill(process.pid, signal.SIGKILL)
        wait_until(lambda: not leftovers(prefix), 10, lambda: f"gone: {leftovers(prefix)}")
        wait_until(lambda: not [pid for pid in pids if is_running(pid)], 5, "its processes have ended")

    def test_the_next_run_removes_what_even_the_guard_could_not(self):
        process, prefix, guard, pids = self.victim()
        with machine_lock():  # else another test's Net is the next run
            self.assertEqual(end_by_id([guard]), [])
            self.bury(process)
            self.assertTrue(leftovers(prefix))
        with Net(1):
            self.assertEqual(leftovers(prefix), [])
        self.assertEqual([pid for pid in pids if is_running(pid)], [])

    def test_what_a_living_run_made_is_left_alone(self):
        _, prefix, _, _ = self.victim()
        before = leftovers(prefix)
        with Net(1):
            self.assertTrue(leftovers(own_prefix()), "our own")
        self.assertEqual(leftovers(prefix), before)
        self.assertEqual(leftovers(own_prefix()), [])


if __name__ == "__main__":
    run_tests()

"""Scenarios: functions that are run one after another, each within its limit, and how each went.

    @scenario(60, quarters=2)            at most 60 s; uses half a core, about
    def a_machine_leaves(): ...

    @scenario(240, alone=True)           measures: nothing else may run
    def as_fast_as_loopback(): ...

    main(sys.argv[1:], __doc__)          all of them; those that are named; --list

`--list` prints `name limit quarters alone|beside` a line: CMakeLists.txt makes a test of each from it, so
what is registered here is what runs. The quarters of a core tell ctest how many fit beside each other;
they are measured: each run prints what it took.
"""
import dataclasses
import json
import resource
import signal
import sys
import time
import traceback
import typing

from processes import Unavailable

_registered = {}


@dataclasses.dataclass(frozen=True)
class Scenario:
    function: typing.Callable[[], None]
    limit_s: int
    quarters: int
    alone: bool

    @property
    def name(self):
        return self.function.__name__


def scenario(limit_s, quarters=1, alone=False):
    """Registers a function. `quarters` of a core are what it uses on average."""
    def register(function):
        assert function.__name__ not in _registered, f"two scenarios {function.__name__}"
        _registered[function.__name__] = Scenario(function, limit_s, quarters, alone)
        return function
    return register


def check(condition, message):
    if not condition:
        raise AssertionError(message)


def equal(is_, wanted, what):
    check(is_ == wanted, f"{what}: {is_!r} instead of {wanted!r}")


def cpu_s():
    """Of this process and of all that it has waited for."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(one.ru_utime + one.ru_stime for one in used)


def run(one):
    """Whether it went well. What a scenario measures is in what it prints."""
    begin, cpu_before = time.monotonic(), cpu_s()
    print(f"== {one.name}: at most {one.limit_s} s", flush=True)

    def on_alarm(*_):
        raise AssertionError(f"{one.name} took longer than {one.limit_s} s")
    signal.signal(signal.SIGALRM, on_alarm)
    signal.alarm(one.limit_s)
    try:
        one.function()
        outcome = "ok,"
    except Unavailable:
        raise
    except Exception:  # pylint: disable=broad-except
        traceback.print_exc()
        outcome = "FAILED after"
    finally:
        signal.alarm(0)
    took, cpu = time.monotonic() - begin, cpu_s() - cpu_before
    print(f"-- {one.name}: {outcome} {took:.1f} s, {cpu / took * 4:.1f} quarters of a core", flush=True)
    return outcome == "ok,"


def main(names, usage, prepare=None):
    """The command line of a file of scenarios. `prepare` runs before the first, on nobody's time."""
    if names == ["--list"]:
        for one in _registered.values():
            print(one.name, one.limit_s, one.quarters, "alone" if one.alone else "beside")
        return
    unknown = [name for name in names if name not in _registered]
    if unknown:
        sys.exit(f"{usage}\nerror: no scenario {', '.join(unknown)}; there are: {', '.join(_registered)}")
    try:
        if prepare:
            prepare()
        results = {name: run(_registered[name]) for name in names or _registered}
    except Unavailable as error:
        sys.exit(f"error: {error}")
    failed = [name for name, ok in results.items() if not ok]
    print(json.dumps({"scenarios": len(results), "failed": failed}))
    sys.exit(bool(failed))

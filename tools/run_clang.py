#!/usr/bin/env python3
"""Runs clang over the sources, two files at a time, and remembers what passed.

    tools/run_clang.py tidy BUILD_DIR [FILE...]   clang-tidy over src/ (tests beside the code excepted),
                                                  clang's own warnings and thread safety included
    tools/run_clang.py rest BUILD_DIR             clang's warnings in all other sources
    tools/run_clang.py headers BUILD_DIR          does every header of src/ compile alone?

BUILD_DIR holds compile_commands.json. Nothing is compiled to the end, only read: the g++ builds link and
run the same sources, and so does the clang build of the fuzzers. A file whose preprocessed text
(comments kept, they hold NOLINT), command, tool and settings are those of an earlier success isn't
checked again: what passed is noted under the cache folder, failures never are.
"""
import concurrent.futures
import hashlib
import json
import os
import pathlib
import re
import shlex
import subprocess
import sys
import time

REPO = pathlib.Path(__file__).resolve().parent.parent
CACHE = pathlib.Path(os.environ.get("SALVAGE_CACHE") or pathlib.Path(
    os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache") / "salvage") / "clang"
CLANG = "clang++-14"
TIDY = "clang-tidy-14"
# So many results are kept; older ones go first.
CACHE_ENTRIES_MAX = 5000


def sources_of(path):
    """The sources that a unit compiles: the build puts those of a target together (CMAKE_UNITY_BUILD)."""
    if path.parent.name != "Unity":
        return [path]
    return [pathlib.Path(name) for name in re.findall(r'#include "(.*)"', path.read_text())]


def name_of(path):
    if path.parent.name != "Unity":
        return str(path.relative_to(REPO))
    return f"{path.parent.parent.name.removesuffix('.dir')} ({len(sources_of(path))} files)"


def load_commands(build):
    """unit -> (folder, arguments without output, input and dependency options)"""
    commands = {}
    for entry in json.loads((build / "compile_commands.json").read_text()):
        arguments, skip = [], False
        words = shlex.split(entry["command"])
        if "ccache" in words[0]:
            words = words[1:]
        for word in words[1:]:
            if skip:
                skip = False
            elif word in ("-o", "-MF", "-MT", "-MQ", "-c"):
                skip = True
            elif word not in ("-MD", "-MMD"):
                arguments.append(word)
        commands[pathlib.Path(entry["file"])] = (entry["directory"], arguments)
    return commands


def run(command, folder):
    done = subprocess.run(command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                          errors="replace", check=False)
    return done.returncode, done.stdout, done.stderr


def fingerprint(path, folder, arguments, settings):
    """Hash of all that decides the outcome, or None where the file doesn't even preprocess."""
    code, text, _ = run([CLANG, *arguments, "-E", "-C", "-x", "c++", str(path)], folder)
    if code != 0:
        return None
    whole = "\0".join([settings, *arguments, text])
    return hashlib.sha256(whole.replace(str(REPO), "").encode()).hexdigest()  # wherever the tree lies


def check(job):
    """-> (path, reused, complaint or empty)"""
    path, folder, arguments, command, settings = job
    key = fingerprint(path, folder, arguments, settings)
    if key and (CACHE / key).exists():
        os.utime(CACHE / key)
        return path, True, ""
    code, out, err = run(command, folder)
    if code != 0:
        return path, False, out + (err if "error:" in err or not out.strip() else "")
    if key:
        (CACHE / key).touch()
    return path, False, ""


def for_tidy(source):
    return REPO / "src" in source.parents and not source.name.endswith("_test.cc")


def units_to_tidy(commands):
    """(unit, its sources to look at). A unit that is all ours as a whole; one that holds tests or what the
    build made as well only for those that no other unit has."""
    sources = {unit: sources_of(unit) for unit in sorted(commands)}
    whole = {unit: files for unit, files in sources.items() if all(map(for_tidy, files))}
    yield from whole.items()
    seen = {source for files in whole.values() for source in files}
    for unit, files in sources.items():
        new = [source for source in files if for_tidy(source) and source not in seen]
        if new:
            seen.update(new)
            yield unit, new


def line_filter(sources):
    """The argument that silences what is found elsewhere than in these files and their headers."""
    names = [{"name": str(name)} for source in sources for name in (source, source.with_suffix(".h"))]
    return "--line-filter=" + json.dumps(names)


def tidy_jobs(build, commands, chosen):
    settings = (REPO / ".clang-tidy").read_text() + run([TIDY, "--version"], REPO)[1]
    for path, sources in units_to_tidy(commands):
        if chosen and not chosen.intersection(sources):
            continue
        folder, arguments = commands[path]
        only = [] if sources == sources_of(path) else [line_filter(sources)]
        command = [TIDY, "--quiet", "-p", str(build), *only, str(path)]
        yield path, folder, arguments, command, "\0".join([settings, *only])


def rest_jobs(commands):
    version = run([CLANG, "--version"], REPO)[1]
    for path, (folder, arguments) in sorted(commands.items()):
        if not all(map(for_tidy, sources_of(path))):
            yield path, folder, arguments, [CLANG, *arguments, "-fsyntax-only", str(path)], "rest " + version


def proven_by_source(header):
    """A source that includes its header first has compiled it alone."""
    source = header.with_suffix(".cc")
    if not source.exists():
        return False
    first = re.search(r'^#include\s+["<](.*)[">]', source.read_text(), re.M)
    return bool(first) and first[1] == header.relative_to(REPO / "src").as_posix()


def header_jobs(commands):
    """A header is compiled with the options of a source of its module, else of any source."""
    version = run([CLANG, "--version"], REPO)[1]
    for header in sorted((REPO / "src").rglob("*.h")):
        if proven_by_source(header):
            continue
        module = header.relative_to(REPO / "src").parts[0]
        units = {source: unit for unit in sorted(commands) for source in sources_of(unit)}
        near = sorted(s for s in units if REPO / "src" / module in s.parents) or sorted(units)
        same_folder = [s for s in near if s.parent == header.parent] or near
        folder, arguments = commands[units[same_folder[0]]]
        command = [CLANG, *arguments, "-Wno-pragma-once-outside-header", "-fsyntax-only", "-x", "c++",
                   str(header)]
        yield header, folder, arguments, command, "header " + version


def trim_cache():
    entries = sorted(CACHE.iterdir(), key=lambda p: p.stat().st_mtime, reverse=True)
    for old in entries[CACHE_ENTRIES_MAX:]:
        old.unlink()


def main():
    if len(sys.argv) < 3 or sys.argv[1] not in ("tidy", "rest", "headers"):
        sys.exit(__doc__)
    mode, build = sys.argv[1], pathlib.Path(sys.argv[2]).resolve()
    CACHE.mkdir(parents=True, exist_ok=True)
    commands = load_commands(build)
    chosen = {pathlib.Path(name).resolve() for name in sys.argv[3:]}
    makers = {"tidy": lambda: tidy_jobs(build, commands, chosen), "rest": lambda: rest_jobs(commands),
              "headers": lambda: header_jobs(commands)}
    jobs = list(makers[mode]())
    if not jobs:
        sys.exit(f"error: nothing to check; is {build} configured and are the files named right?")
    failed, reused, began, shown = [], 0, time.monotonic(), 0.0
    with concurrent.futures.ThreadPoolExecutor(max_workers=os.cpu_count()) as pool:
        for number, (path, hit, complaint) in enumerate(pool.map(check, jobs), 1):
            reused += hit
            if complaint:
                failed.append(path)
                print(complaint, flush=True)
            if time.monotonic() - shown > 5:
                shown = time.monotonic()
                print(f"{mode}: {number} of {len(jobs)}, {name_of(path)}", file=sys.stderr)
    trim_cache()
    print(f"{mode}: {len(jobs)} units, {reused} known good, {len(failed)} failed, "
          f"{time.monotonic() - began:.0f} s")
    for path in failed:
        print(f"failed: {name_of(path)}")
    sys.exit(bool(failed))


if __name__ == "__main__":
    main()

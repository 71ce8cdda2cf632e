#!/usr/bin/env python3
"""Writes the pages of docs/reference/ that are made from the program and its sources.

    tools/gen_reference.py BUILD_DIR          writes them
    tools/gen_reference.py --check BUILD_DIR  fails, and shows the difference, if one is stale

cli.md is what `salvage --help` says for each command; errors.md is the one table of error codes, in
src/base/result.h. architectures.md, beside them, is written by `make conformance`.
"""
import difflib
import pathlib
import re
import subprocess
import sys

REPO = pathlib.Path(__file__).resolve().parent.parent
FOLDER = REPO / "docs" / "reference"
MADE = "Made by `tools/gen_reference.py`; change the program, then run `make reference`.\n"


def help_of(binary, *command):
    done = subprocess.run([binary, "--lang", "en", *command, "--help"], stdout=subprocess.PIPE,
                          text=True, check=True, timeout=20)
    return "\n".join(line.rstrip() for line in done.stdout.splitlines()).strip()


def cli_page(binary):
    top = help_of(binary)
    commands = re.findall(r"^  (\w+) ", top, re.M)  # options begin with a dash
    if not commands:
        sys.exit(f"error: {binary} --help lists no commands")
    page = f"# Commands\n\n{MADE}\n```\n{top}\n```\n"
    for command in commands:
        page += f"\n## salvage {command}\n\n```\n{help_of(binary, command)}\n```\n"
    return page


def camel_to_snake(name):
    return re.sub(r"(?<!^)([A-Z])", r"_\1", name).lower()


def errors_page():
    source = (REPO / "src/base/result.h").read_text()
    table = re.search(r"enum class ErrorCode \{\n(.*?)\n\};", source, re.S)[1]
    codes = re.findall(r"^ *k(\w+),(?: *// (.*))?$", table, re.M)
    names = (REPO / "src/base/result.cc").read_text()
    page = f"# Error codes\n\n{MADE}\n"
    page += ("A code says what the caller can do, not where it went wrong; the sentence beside it says\n"
             "that. The names are the same on the wire, in logs and in JSON.\n\n"
             "| code | meaning |\n|---|---|\n")
    for code, meaning in codes:
        name = camel_to_snake(code)
        if f'"{name}"' not in names:
            sys.exit(f"error: error_code_name() doesn't know {name}; is result.h written otherwise?")
        page += f"| `{name}` | {meaning or name.replace('_', ' ').capitalize() + '.'} |\n"
    page += ("\nA command exits with 0 if it did what was asked, 1 if it failed, 2 if it was called\n"
             "wrongly, and 130 if it was interrupted. The error is one sentence on standard error.\n")
    return page


def main():
    arguments = [word for word in sys.argv[1:] if word != "--check"]
    if len(arguments) != 1:
        sys.exit(__doc__)
    binary = (REPO / arguments[0] / "bin" / "salvage").resolve()
    if not binary.exists():
        sys.exit(f"error: {binary} isn't built; run tools/build.sh dev all")
    stale = 0
    for name, text in {"cli.md": cli_page(binary), "errors.md": errors_page()}.items():
        path = FOLDER / name
        before = path.read_text() if path.exists() else ""
        if before == text:
            continue
        stale += 1
        if "--check" in sys.argv:
            sys.stdout.writelines(difflib.unified_diff(
                before.splitlines(True), text.splitlines(True), f"docs/reference/{name}", "the program"))
        else:
            FOLDER.mkdir(exist_ok=True)
            path.write_text(text)
            print(f"written: docs/reference/{name}")
    if stale and "--check" in sys.argv:
        sys.exit(f"error: {stale} pages of docs/reference/ are stale; run `make reference`")
    print("reference: ok")


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""Do the pages say what the program does?

    tools/check_docs.py BUILD_DIR

- Every `make X` and `tools/X` that a page names exists.
- Every `salvage COMMAND --option` in a page's code is one that the built program knows.
- Both READMEs name the same commands; the first of salvage's is `salvage up`, of make's `make demo`.
Titles, lengths and links are tools/tidy's part.
"""
import pathlib
import re
import subprocess
import sys

REPO = pathlib.Path(__file__).resolve().parent.parent
COMMANDS = ("inspect|shard|run|bench|stage|up|join|invite|leave|rename|remove|load|unload|models|rm|verify|gc"
            "|nodes|ps|status")


def pages():
    listed = subprocess.run(["git", "ls-files", "--cached", "--others", "--exclude-standard", "*.md"],
                            cwd=REPO, stdout=subprocess.PIPE, text=True, check=True).stdout
    return {name: (REPO / name).read_text() for name in listed.splitlines() if (REPO / name).is_file()}


def code_of(text):
    """Fenced blocks and `inline code`, which is where commands stand."""
    blocks = re.findall(r"```\w*\n(.*?)```", text, re.S)
    return "\n".join(blocks + re.findall(r"`([^`\n]+)`", re.sub(r"```.*?```", "", text, flags=re.S)))


def check_make(name, code, targets):
    for target in re.findall(r"(?:^|\s)make ([a-z][a-z0-9-]*)", code):
        if target not in targets:
            yield f"{name}: `make {target}` isn't in the Makefile"
    for tool in re.findall(r"(?<![\w/])tools/[\w./]+\w", code):
        if not (REPO / tool).exists():
            yield f"{name}: {tool} doesn't exist"


def help_of(binary, command):
    done = subprocess.run([binary, *command, "--help"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          text=True, check=False, timeout=20)
    return done.stdout if done.returncode == 0 else None


def check_salvage(name, code, binary, known):
    for line in re.findall(rf"(?:^|/|\s)salvage ((?:{COMMANDS})\b[^\n|#;]*)", code):
        words = line.split()
        command = words[0]
        if command not in known:
            known[command] = help_of(binary, [command])
        if known[command] is None:
            yield f"{name}: `salvage {command}` isn't a command"
            continue
        for option in re.findall(r"(?<![\w-])(--?[a-z][a-z-]*)", " ".join(words[1:])):
            if not re.search(rf"(?<![\w-]){re.escape(option)}(?![\w-])", known[command]):
                yield f"{name}: `salvage {command}` has no option {option}"


def check_readmes(all_pages):
    commands = {}
    for name in ("README.md", "README.zh-CN.md"):
        code = code_of(all_pages.get(name, ""))
        found = re.findall(rf"make [a-z-]+|salvage (?:{COMMANDS})\b", code)
        for program, first in (("salvage", "salvage up"), ("make", "make demo")):
            named = [command for command in found if command.startswith(program)]
            if named[:1] != [first]:
                yield f"{name}: the first command of {program} is {named[:1]}, not {first}"
        commands[name] = set(found)
    one, other = commands.values()
    if one != other:
        yield f"README.md and README.zh-CN.md differ in: {', '.join(sorted(one ^ other))}"


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    binary = pathlib.Path(sys.argv[1]) / "bin" / "salvage"
    if not binary.exists():
        sys.exit(f"error: {binary} isn't built; run tools/build.sh dev all")
    targets = set(re.findall(r"^([a-z][a-z0-9-]*):", (REPO / "Makefile").read_text(), re.M))
    all_pages, known, bad = pages(), {}, []
    for name, text in all_pages.items():
        code = code_of(text)
        bad += check_make(name, code, targets)
        bad += check_salvage(name, code, binary.resolve(), known)
    bad += check_readmes(all_pages)
    for complaint in bad:
        print(f"error: {complaint}")
    print(f"docs: {len(all_pages)} pages, {len(bad)} complaints")
    sys.exit(bool(bad))


if __name__ == "__main__":
    main()

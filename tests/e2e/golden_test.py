"""Texts that people and scripts rely on, pinned in tests/golden/cli: help in both languages, inspect.

A difference is either a mistake or meant; if it is meant, write the files anew and read the diff:

    SALVAGE_BINARY=build/dev/bin/salvage tests/e2e/golden_test.py --update
"""
import difflib
import pathlib
import sys
import unittest

from salvage_cli import WORK, end_module, salvage, start_module, tiny_gguf

GOLDEN = pathlib.Path(__file__).resolve().parent.parent / "golden" / "cli"
COMMANDS = ("up", "join", "invite", "leave", "status", "nodes", "ps", "top", "run", "cancel", "load",
            "unload", "models", "verify", "rm", "gc", "inspect", "shard", "rename", "remove", "bench",
            "stage")


def help_text(language):
    pages = [salvage("--lang", language, "--help")]
    pages += [salvage("--lang", language, command, "--help") for command in COMMANDS]
    assert all(page.code == 0 and not page.err for page in pages)
    return "".join(page.out for page in pages)


def inspected(*arguments):
    done = salvage(*arguments, "inspect", tiny_gguf(WORK / "tiny.gguf", "gemma2", 6))
    assert done.code == 0, done.err
    return done.out


def pinned_texts():
    return {
        "help_en.txt": help_text("en"),
        "help_zh.txt": help_text("zh"),
        "inspect_en.txt": inspected("--lang", "en"),
        "inspect_zh.txt": inspected("--lang", "zh"),
        "inspect.json": salvage("inspect", "--json", WORK / "tiny.gguf").out,
    }


def setUpModule():
    start_module()


def tearDownModule():
    end_module()


class Golden(unittest.TestCase):
    def test_texts_are_as_pinned(self):
        texts = pinned_texts()
        self.assertEqual(sorted(texts), sorted(path.name for path in GOLDEN.iterdir()))
        for name, text in texts.items():
            wanted = (GOLDEN / name).read_text(encoding="utf-8")
            diff = "\n".join(difflib.unified_diff(wanted.splitlines(), text.splitlines(),
                                                  f"golden/cli/{name}", "now", lineterm=""))
            self.assertEqual(wanted, text, f"\n{diff}\nIf this is meant: {__file__} --update")


if __name__ == "__main__":
    if sys.argv[1:] == ["--update"]:
        start_module()
        for file_name, current in pinned_texts().items():
            (GOLDEN / file_name).write_text(current, encoding="utf-8")
        end_module()
    else:
        unittest.main(verbosity=2)

"""Feeds tools/tidy one bad snippet a rule, and good ones beside it. Run by `tools/tidy --self-test`."""
import sys

# path, text, the rules that must complain (none: the snippet is good)
GOOD_HEADER = "// What it is for.\n#pragma once\n"
SNIPPETS = [
    ("src/planner/a.cc", "auto t = std::chrono::steady_clock::now();\n", ["clock"]),
    ("src/base/clock.cc", "auto t = std::chrono::steady_clock::now();\n", []),
    ("src/planner/a.cc", "// steady_clock::now() would be wrong here\n", []),
    ("src/planner/a.cc", 'auto s = "std::rand()";\n', []),
    ("src/pipeline/a.cc", "std::this_thread::sleep_for(1ms);\n", ["sleep"]),
    ("src/pipeline/a_test.cc", "usleep(100);\n", ["sleep"]),
    ("src/planner/a.cc", "int x = rand();\n", ["random"]),
    ("src/planner/a.cc", "int x = operand();\n", []),
    ("src/planner/a.cc", 'printf("x");\n', ["print"]),
    ("src/planner/a.cc", "std::cout << 1;\n", ["print"]),
    ("src/app/a.cc", "std::cout << 1;\n", []),
    ("src/planner/a.cc", 'snprintf(buffer, 3, "x");\n', []),
    ("src/model/a.cc", 'auto* x = getenv("HOME");\n', ["getenv"]),
    ("src/planner/a.cc", "std::thread worker(f);\n", ["thread"]),
    ("src/planner/a.cc", "auto n = std::thread::hardware_concurrency();\n", []),
    ("src/pipeline/a.cc", "std::jthread worker(f);\n", []),
    ("src/model/a.cc", "  throw 1;\n", ["throw"]),
    ("src/model/a.cc", "  exit(1);\n", ["exit"]),
    ("src/model/a.cc", "  loop.exit();\n", []),
    ("src/planner/a.cc", "#include <unistd.h>\n", ["os"]),
    ("src/planner/a.cc", "#include <sys/socket.h>\n", ["os"]),
    ("src/base/a.cc", "#include <unistd.h>\n", []),
    ("src/planner/a.cc", "using namespace std;\n", ["using"]),
    ("src/planner/a.cc", "// TODO: later\n", ["todo"]),
    ("src/planner/a.cc", "// TODO(perf): one pass is enough.\n", []),
    ("src/planner/a_test.cc", "TEST(Plan, DISABLED_fits) {}\n", ["disabled"]),
    ("src/planner/a_test.cc", "GTEST_SKIP();\n", ["disabled"]),
    ("src/planner/a.h", GOOD_HEADER, []),
    ("src/planner/a.h", "#pragma once\n// What it is for.\n", []),
    ("src/planner/a.h", "// What it is for.\n", ["pragma"]),
    ("src/planner/a.h", "#pragma once\nint f();\n", ["contract"]),
    ("src/planner/a.h", GOOD_HEADER + "#ifndef A_H\n", ["pragma"]),
    ("src/planner/BadName.h", GOOD_HEADER, ["name"]),
    ("src/planner/a.h", GOOD_HEADER + "int x;\n" * 300, ["file-length"]),
    ("src/planner/a.cc", "int x;\n" * 801, ["file-length"]),
    ("src/planner/a_test.cc", "int x;\n" * 801, []),
    ("src/planner/a_test.cc", "int x;\n" * 1201, ["file-length"]),
    ("src/planner/a.cc", "int f() {\n" + "  g();\n" * 69 + "}\n", ["function-length"]),
    ("src/planner/a.cc", "int f() {\n" + "  g();\n" * 68 + "}\n", []),
    ("src/planner/a.cc", "namespace salvage {\n" + "int g();\n" * 100 + "}\n", []),
    ("src/planner/a.cc", "class A {\n  int f() {\n" + "    g();\n" * 69 + "  }\n};\n", ["function-length"]),
    ("src/planner/a.cc", "class A {\n" + "  int f() { return 1; }\n" * 99 + "};\n", []),
    ("src/planner/a.cc", "const int kTable[f(1)] = {\n" + "1,\n" * 99 + "};\n", []),
    ("src/planner/a.cc", "int f(\n    int x) {\n" + "  g('{', \"{\");\n" * 69 + "}\n", ["function-length"]),
    ("src/planner/a.cc", "//" + " x" * 50 + "\n", ["columns"]),
    ("tests/a.py", "#" + " x" * 54 + "\n", []),
    ("tests/a.py", "#" + " x" * 55 + "\n", ["columns"]),
    ("tools/a.sh", "set -euo pipefail\n", []),
    ("tools/a.sh", "set -e\n", ["shell"]),
    ("docs/a.md", "no title\n", ["title"]),
    ("docs/a.md", "# Title\n[there](b.md) [here](#title)\n", []),
    ("docs/a.md", "# Title\n[nowhere](c.md)\n", ["link"]),
    ("docs/a.md", "# Title\n[no heading](b.md#missing)\n", ["link"]),
    ("docs/a.md", "# Title\n[heading](b.md#two-words)\n", []),
    ("docs/a.md", "# Title\n```\n[code](c.md)\n```\n", []),
    ("README.md", "# Title\n" * 151, ["page-length"]),
    ("src/base/README.md", "# Title\n" * 41, ["page-length"]),
    ("docs/a.md", "# Title\nget it from py" + "pi.org\n", ["registry"]),
    ("docs/a.md", "# Title\nregistry.n" + "pmjs.org\n", ["registry"]),
    ("docs/a.md", "# Title\ncd /ho" + "me/me/src\n", ["path"]),
    ("docs/a.md", "# Title\ncd ~/src; see /usr/bin/make\n", []),
]
PAGES = {"docs/b.md": "# B\n\n## Two words\n"}

# files of a pretended tree, the rules that must complain
TREES = [
    ({"src/base/a.cc": "", "src/base/CMakeLists.txt": "a.cc", "src/base/README.md": ""}, []),
    ({"src/base/a.cc": "", "src/base/CMakeLists.txt": "aa.cc", "src/base/README.md": ""}, ["dead"]),
    ({"src/base/tcp/a.cc": "", "src/base/CMakeLists.txt": "tcp/a.cc", "src/base/README.md": ""}, []),
    ({"src/base/a.h": ""}, ["readme"]),
]


def run(tidy):
    """Ends the process with a sentence at the first rule that is too lax or too strict."""
    for path, text, wanted in SNIPPETS:
        found = [m.split("]")[0][1:] for _, m in tidy.check_file(path, text, (PAGES | {path: text}).get)]
        if sorted(set(found)) != sorted(wanted):
            sys.exit(f"self-test: {path} with {text[:60]!r} brought {found}, wanted {wanted}")
    for files, wanted in TREES:
        found = [m.split("]")[0][1:] for _, _, m in tidy.check_tree(sorted(files), files.get)]
        if found != wanted:
            sys.exit(f"self-test: the tree {sorted(files)} brought {found}, wanted {wanted}")
    tried = {rule for _, _, wanted in SNIPPETS for rule in wanted}
    untried = {ban.name for ban in tidy.BANS} - tried
    if untried:
        sys.exit(f"self-test: no snippet tries {sorted(untried)}")
    print(f"tidy self-test: {len(SNIPPETS) + len(TREES)} cases ok")

#!/usr/bin/env python3
"""Whether a folder can be what `make dist` promises, told from its files alone.

    tools/dist_check.py FOLDER      checks; complains about everything that would break elsewhere
    tools/dist_check.py --self-test  proves that each rule can fail

Rules: no symbol of a C library newer than third_party/glibc.pin names, no other shared library, no
search path, no path of the machine that built it, every CPU variant complete and satisfied by the
program, every licence there. What only running can tell is in tests/dist/.
"""
import pathlib
import re
import subprocess
import sys
import tempfile

REPO = pathlib.Path(__file__).resolve().parent.parent
PROGRAM = "salvage"
# glibc's own, in the names that it has everywhere.
LIBRARIES = {"libc.so.6", "libm.so.6", "libpthread.so.0", "libdl.so.2", "librt.so.1",
             "ld-linux-x86-64.so.2"}
# From the first x86-64 on: what no variant serves would be a machine that can't join.
VARIANTS_MIN = {"x64", "sse42", "sandybridge", "ivybridge", "haswell", "skylakex", "icelake", "zen4",
                "sapphirerapids"}
VARIANT_FUNCTIONS = {"ggml_backend_score", "ggml_backend_init", "ggml_threadpool_new",
                     "ggml_threadpool_free", "ggml_threadpool_pause"}
LICENSES_MIN = {"salvage.txt", "llama.cpp.txt", "libssl-dev.txt", "libstdc++-12-dev.txt",
                "libsqlite3-dev.txt", "libfmt-dev.txt"}
# Folders of people and builds. glibc's and OpenSSL's own paths begin with /usr, /etc and /lib.
MACHINE_PATHS = re.compile(rb"(?<![\w.])/(?:home|root|work|build|tmp/[\w.-]+)/[\w./-]{3,}")


def run(*command):
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def pinned_glibc():
    for line in (REPO / "third_party" / "glibc.pin").read_text().splitlines():
        if line.startswith("version"):
            return tuple(int(part) for part in line.split()[1].split("."))
    raise SystemExit("error: third_party/glibc.pin names no version; put it back.")


def dynamic_symbols(path):
    """(name, version, defined) of each dynamic symbol; version is "" where there is none."""
    for line in run("readelf", "--wide", "--dyn-syms", str(path)).splitlines():
        fields = line.split()
        if len(fields) >= 8 and fields[0].rstrip(":").isdigit():
            name, _, version = fields[7].replace("@@", "@").partition("@")
            weak = fields[4] == "WEAK"
            yield name, version, fields[6] != "UND", weak


def check_versions(path, symbols, limit):
    for name, version, defined, _ in symbols:
        if defined or not version:
            continue
        family, _, number = version.partition("_")
        if family != "GLIBC" or not re.fullmatch(r"[\d.]+", number):
            yield f"{path.name}: {name} is wanted from {version}, which is not glibc's"
        elif tuple(int(part) for part in number.split(".")) > limit:
            wanted = ".".join(map(str, limit))
            yield f"{path.name}: {name} is wanted from {version}, newer than {wanted}"


def check_dynamic(path):
    for line in run("readelf", "--wide", "--dynamic", str(path)).splitlines():
        value = re.search(r"\[(.*)\]", line)
        if "(NEEDED)" in line and value[1] not in LIBRARIES:
            yield f"{path.name}: needs {value[1]}, which isn't there on every machine"
        if "(RPATH)" in line or "(RUNPATH)" in line:
            yield f"{path.name}: looks for libraries in {value[1]}"
        if "(TEXTREL)" in line:
            yield f"{path.name}: has to be changed at load, which hardened systems refuse"


def check_paths(path):
    for found in sorted(set(MACHINE_PATHS.findall(path.read_bytes())))[:5]:
        yield f"{path.name}: has the path {found.decode(errors='replace')} of the machine that built it"


def check_variant(path, symbols, exported):
    defined = {name for name, _, is_defined, _ in symbols if is_defined}
    for name in sorted(VARIANT_FUNCTIONS - defined):
        yield f"{path.name}: has no {name}"
    for name, version, is_defined, weak in symbols:
        if name and not version and not is_defined and not weak and name not in exported:
            yield f"{path.name}: takes {name} from nobody: the program doesn't export it"


def check_files(folder):
    modules = (folder / "bin").glob("libggml-cpu-*.so")
    variants = {path.name[len("libggml-cpu-"):-len(".so")] for path in modules}
    for name in sorted(VARIANTS_MIN - variants):
        yield f"there is no CPU variant {name}"
    licenses = {path.name for path in (folder / "licenses").glob("*.txt") if path.stat().st_size > 0}
    for name in sorted(LICENSES_MIN - licenses):
        yield f"there is no licence {name}"
    if not (folder / "README.txt").is_file():
        yield "there is no README.txt"


def complaints(folder, limit):
    program = folder / "bin" / PROGRAM
    if not program.is_file():
        yield f"there is no bin/{PROGRAM}"
        return
    exported = {name for name, _, defined, _ in dynamic_symbols(program) if defined}
    for path in sorted((folder / "bin").iterdir()):
        symbols = list(dynamic_symbols(path))
        yield from check_versions(path, symbols, limit)
        yield from check_dynamic(path)
        yield from check_paths(path)
        if path != program:
            yield from check_variant(path, symbols, exported)
    yield from check_files(folder)


# What each rule must find in a folder whose program was made wrong on purpose: (source, flags, words).
SELF_TEST = [
    ("int main(void) { return 0; }", ["-Wl,-rpath,/nowhere"], "looks for libraries in /nowhere"),
    ("extern int deflate(void); int main(void) { return deflate(); }", ["-l:libz.so.1"],
     "needs libz.so.1"),
    ('const char *x = "/ho" "me/somebody/salvage/x.c"; int main(void) { return *x; }', [],
     "has the path"),
    ("int main(void) { return 0; }", [], "there is no CPU variant x64"),
    ("int main(void) { return 0; }", [], "there is no licence salvage.txt"),
]


def make_folder(scratch, source, flags):
    folder = pathlib.Path(scratch) / "salvage"
    (folder / "bin").mkdir(parents=True)
    code = pathlib.Path(scratch) / "program.c"
    code.write_text(source)
    run("gcc", str(code), "-o", str(folder / "bin" / PROGRAM), *flags)
    return folder


def self_test():
    for source, flags, words in SELF_TEST:
        with tempfile.TemporaryDirectory() as scratch:
            found = list(complaints(make_folder(scratch, source, flags), pinned_glibc()))
        if not any(words in line for line in found):
            sys.exit(f"self-test: nothing says '{words}'; found: {found}")
    with tempfile.TemporaryDirectory() as scratch:
        folder = make_folder(scratch, SELF_TEST[0][0], [])
        module = pathlib.Path(scratch) / "module.c"
        module.write_text("void nobody_has_this(void); void f(void) { nobody_has_this(); }")
        run("gcc", "-shared", "-fPIC", str(module), "-o", str(folder / "bin" / "libggml-cpu-x64.so"))
        found = list(complaints(folder, (2, 0)))
    for words in ("newer than 2.0", "takes nobody_has_this from nobody", "has no ggml_backend_score"):
        if not any(words in line for line in found):
            sys.exit(f"self-test: nothing says '{words}'; found: {found}")
    print(f"dist_check self-test: {len(SELF_TEST) + 3} cases ok")


def main():
    if sys.argv[1:] == ["--self-test"]:
        self_test()
        return 0
    if len(sys.argv) != 2:
        print(__doc__, file=sys.stderr)
        return 2
    found = list(complaints(pathlib.Path(sys.argv[1]), pinned_glibc()))
    for line in found:
        print(f"error: {line}")
    if not found:
        count = len(list((pathlib.Path(sys.argv[1]) / "bin").iterdir()))
        print(f"portable: {count} files need no more than glibc {'.'.join(map(str, pinned_glibc()))}")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())

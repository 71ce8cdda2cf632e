#!/usr/bin/env bash
# tools/build.sh PRESET TARGET...: llama.cpp if need be, then configures and builds with a preset of
# CMakePresets.json, and shows how far it is.
set -euo pipefail
# shellcheck source=tools/lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

preset=${1:?usage: tools/build.sh PRESET TARGET...}
shift
cd "$repo_dir"
llama_root=$(tools/llama.sh build)
log=build/$preset.log
# Another checkout of the same sources finds what this one compiled.
export CCACHE_BASEDIR=$repo_dir CCACHE_NOHASHDIR=1
mkdir -p build

fail() {
  grep -E -A 8 'error|FAILED|Error' "$log" | head -n 60 >&2 || true
  die "salvage ($preset) did not build; the lines above (whole log: $log) say why."
}

cmake --preset "$preset" "-DSALVAGE_LLAMA_ROOT=$llama_root" >"$log" 2>&1 || fail
NINJA_STATUS="[%f of %t, %p] " ninja -C "build/$preset" -j "$(compile_jobs)" "$@" 2>&1 |
  tee "$log" | follow "salvage ($preset)" '^\[' || fail

page=build/$preset/src/gateway/generated/page_files.cc
if [ -f "$page" ] && head -n 1 "$page" | grep -q '^// no page: '; then
  say "note: salvage ($preset) has no chat page: $(sed -n '1s/^.. no page: //p' "$page");" \
    "install Node.js 20.19 or newer with npm and build again."
fi

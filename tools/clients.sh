#!/usr/bin/env bash
# Installs the official clients of the APIs that salvage speaks, for tests/clients/, into the cache; prints
# their folder: python/ for PYTHONPATH, node_modules/ for Node.
#
# Which versions, and the hash of each file, stands in tests/clients/pins/; nothing else is installed, and
# no package's own scripts are run. pip and npm bring them from wherever they are set up to.
set -euo pipefail
# shellcheck source=tools/lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

pins_dir=$repo_dir/tests/clients/pins

# key: of the pins and of what compiled packages depend on.
key() {
  {
    cat "$pins_dir/requirements.txt" "$pins_dir/package.json" "$pins_dir/package-lock.json"
    python3 -c 'import sysconfig; print(sysconfig.get_platform(), sysconfig.get_python_version())'
    node -p 'process.arch + process.versions.modules'
  } | sha256sum | cut -c 1-12
}

need_tools() {
  local tool
  for tool in python3 node npm; do
    command -v "$tool" >/dev/null ||
      die "$tool is missing, and the official clients can't be tested without it;" \
        "run tools/install_deps.sh test."
  done
  python3 -m pip --version >/dev/null 2>&1 ||
    die "pip is missing, and the official clients can't be tested without it; run tools/install_deps.sh test."
}

# install_in DIR
install_in() {
  say "clients: installing those for Python"
  python3 -m pip install --quiet --disable-pip-version-check --no-warn-conflicts --require-hashes \
    --only-binary :all: --target "$1/python" -r "$pins_dir/requirements.txt" >"$1.log" 2>&1 ||
    failed pip "$1.log"
  say "clients: installing those for Node"
  cp "$pins_dir/package.json" "$pins_dir/package-lock.json" "$1"
  npm ci --prefix "$1" --ignore-scripts --no-audit --no-fund --loglevel=error >"$1.log" 2>&1 ||
    failed npm "$1.log"
}

# failed TOOL LOG
failed() {
  tail -n 5 "$2" >&2
  die "$1 could not install the official clients; the lines above say why; check the network and where $1" \
    "gets its packages from, and run this again."
}

need_tools
folder=$cache_dir/clients-$(key)
if [ ! -d "$folder" ]; then
  make_cache_dir "$cache_dir/dl"
  take_lock clients
  if [ ! -d "$folder" ]; then
    need_disk "$cache_dir" 600 "the official clients"
    fresh=$(mktemp -d "$cache_dir/dl/clients.XXXXXX")
    trap 'rm -rf "$fresh" "$fresh.log"' EXIT
    install_in "$fresh"
    mv "$fresh" "$folder"
    say "clients: done in $SECONDS s"
  fi
fi
echo "$folder"

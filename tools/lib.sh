# shellcheck shell=bash
# What tools/*.sh share: how to speak, where the cache is, one lock, the checks that come before long
# work. Sourced, never run. Progress goes to stderr; stdout is for what the caller asked for.

# shellcheck disable=SC2034  # for the scripts that source this file
repo_dir=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
cache_dir=${SALVAGE_CACHE:-${XDG_CACHE_HOME:-${HOME:-/tmp}/.cache}/salvage}

say() { printf '%s\n' "$*" >&2; }

# die SENTENCE: what went wrong and what to do about it, in one sentence; exit code 1.
die() {
  printf 'error: %s\n' "$*" >&2
  exit 1
}

# pin FILE KEY: the value beside KEY in a pin file.
pin() { awk -v key="$2" '$1 == key { print $2; exit }' "$1"; }

# make_cache_dir DIR: creates DIR, and proves that it can be written to.
make_cache_dir() {
  if ! { mkdir -p "$1" && touch "$1/.writable" && rm -f "$1/.writable"; } 2>/dev/null; then
    die "the cache folder $1 can't be written to; set SALVAGE_CACHE to a folder of yours" \
      "with 2 GB free and run this again."
  fi
}

# take_lock NAME: one process at a time works on NAME; the others wait and say so. Held until exit,
# and by children too: a build whose script was killed stays locked until its compilers are gone.
take_lock() {
  exec 9>"$cache_dir/$1.lock"
  if ! flock -n 9; then
    say "$1: another process is at work on it; waiting for it to finish"
    flock 9
  fi
}

# need_disk DIR MIB WHAT
need_disk() {
  local free
  free=$(df -Pm "$1" | awk 'NR == 2 { print $4 }')
  if [ "$free" -lt "$2" ]; then
    die "$3 needs $2 MiB of disk and $1 has $free MiB; free some," \
      "or set SALVAGE_CACHE to a folder on a larger disk, and run this again."
  fi
}

# memory_mib: what programs may still take. SALVAGE_MEMORY_MIB overrides it (containers, tests).
memory_mib() {
  if [ -n "${SALVAGE_MEMORY_MIB:-}" ]; then
    echo "$SALVAGE_MEMORY_MIB"
  else
    awk '/^MemAvailable:/ { print int($2 / 1024) }' /proc/meminfo
  fi
}

# need_memory MIB WHAT
need_memory() {
  local free
  free=$(memory_mib)
  if [ "$free" -lt "$1" ]; then
    die "$2 needs $1 MiB of free memory and this machine has $free MiB;" \
      "close programs or add swap, and run this again."
  fi
}

# compile_jobs: as many compilers as there are cores and GiB of memory.
compile_jobs() {
  local cores gib
  cores=$(nproc)
  gib=$(($(memory_mib) / 1024))
  if [ "$gib" -lt 1 ]; then gib=1; fi
  echo $((cores < gib ? cores : gib))
}

sha256_of() { sha256sum "$1" | cut -d ' ' -f 1; }

# follow LABEL PATTERN: passes on, of the lines read, the newest that matches, every five seconds, so
# that long work is seen to move, also while one line takes minutes.
follow() {
  local label=$1 pattern=$2 line newest="" shown=-5 status
  while true; do
    status=0
    IFS= read -r -t 5 line || status=$?
    if [ "$status" -ne 0 ] && [ "$status" -le 128 ]; then return 0; fi
    if [[ $status -eq 0 && $line =~ $pattern ]]; then newest=${line//Building C*.dir\//}; fi
    if [ $((SECONDS - shown)) -ge 5 ] && [ -n "$newest" ]; then
      say "$label: ${newest:0:80} (${SECONDS} s)"
      shown=$SECONDS
    fi
  done
}

#!/usr/bin/env bash
# tools/fuzz.sh FOLDER SECONDS [LONGER [NAME...]]: runs every fuzzer of FOLDER for so long, those named for
# LONGER seconds, seeded by fuzz/corpus/<name>/.
#
# First comes the canary, a fuzzer with a planted fault: if it is *not* found, the alarm is broken and
# nothing that the others say counts. An input that breaks a fuzzer is kept under build/crashes.
set -euo pipefail
# shellcheck source=tools/lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
cd "$repo_dir"

usage="usage: tools/fuzz.sh FOLDER SECONDS [LONGER [NAME...]]"
folder=${1:?$usage}
short=${2:?$usage}
longer=${3:-$short}
names_longer=" ${*:4} "
for name in $names_longer; do
  [ -x "$folder/$name" ] || die "there is no $name in $folder; $usage"
done
crashes=build/crashes
mkdir -p "$crashes"
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

# run_fuzzer NAME SECONDS: new inputs go to a scratch folder, the seeds stay as they are.
run_fuzzer() {
  local seeds=()
  mkdir -p "$scratch/$1"
  if [ -d "fuzz/corpus/$1" ]; then seeds=("fuzz/corpus/$1"); fi
  "$folder/$1" -max_total_time="$2" -timeout=10 -rss_limit_mb=2048 -print_final_stats=1 \
    -artifact_prefix="$crashes/$1-" "$scratch/$1" "${seeds[@]}" >"$scratch/$1.log" 2>&1
}

[ -x "$folder/canary_fuzz" ] ||
  die "there is no canary in $folder; fuzz/CMakeLists.txt must build canary_fuzz."
if run_fuzzer canary_fuzz 30; then
  die "the canary's planted fault wasn't found in 30 s: the fuzzers can't be believed; see fuzz/README.md."
fi
rm -f "$crashes"/canary_fuzz-*
echo "canary_fuzz: found, as it must be"

# seconds_for NAME
seconds_for() {
  if [[ $names_longer == *" $1 "* ]]; then echo "$longer"; else echo "$short"; fi
}

# check_fuzzer PATH: one fuzzer, with what came of it on stdout; fails with the reason on stderr.
check_fuzzer() {
  local name=${1##*/} runs seconds
  seconds=$(seconds_for "$name")
  if ! run_fuzzer "$name" "$seconds"; then
    tail -n 40 "$scratch/$name.log" >&2
    die "$name found a fault; the input is in $crashes: run $1 on it, mend it, keep it as a seed."
  fi
  runs=$(sed -n 's/^stat::number_of_executed_units: *//p' "$scratch/$name.log")
  [ "${runs:-0}" -gt 100 ] || die "$name made only ${runs:-0} runs in $seconds s: too slow to find anything."
  echo "$name: $runs runs, nothing found"
}

# One a core at a time.
count=0
for path in "$folder"/*_fuzz; do
  if [ "${path##*/}" = canary_fuzz ]; then continue; fi
  while [ "$(jobs -rp | wc -l)" -ge "$(nproc)" ]; do wait -n || true; done
  say "${path##*/}: running for $(seconds_for "${path##*/}") s"
  { check_fuzzer "$path" && touch "$scratch/${path##*/}.ok"; } &
  count=$((count + 1))
done
wait
[ "$count" -gt 0 ] || die "there is no fuzzer in $folder besides the canary."
[ "$(find "$scratch" -name '*.ok' | wc -l)" = "$count" ] || exit 1
echo "fuzz: $count fuzzers, no fault"

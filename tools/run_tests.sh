#!/usr/bin/env bash
# Everything that tests, stage by stage, each with its time; stops at the first that fails.
#
#   tools/run_tests.sh            all stages, in the order below (this is `make test`)
#   tools/run_tests.sh STAGE...   these only
#
# Stages: packages llama models style dev asan tsan clang conformance e2e clients web load fuzz net
# docs, and by name only: dist
#
# Environment: FUZZ_SECONDS (a fuzzer's share, default 10; of HTTP's at least 60), SALVAGE_CACHE,
# SALVAGE_NO_NET=1 (leave out the stages net and dist where no namespaces can be made).
set -euo pipefail
# shellcheck source=tools/lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
cd "$repo_dir"

all_stages=(packages llama models style dev asan tsan clang conformance e2e clients web load fuzz net
  docs)

# run_labels PRESET LABEL...: ctest for these labels, as many at once as there are cores, or as `slots`
# says. A label without a single test is a failure: a suite that was lost from the build must not look
# like one that passed.
run_labels() {
  local preset=$1 label expression log
  shift
  for label in "$@"; do
    if ctest --test-dir "build/$preset" -N -L "^$label\$" | grep -q '^Total Tests: 0$'; then
      die "the build $preset has no test labelled '$label'; see docs/testing.md for what should be there."
    fi
  done
  expression=$(printf '|%s' "$@")
  log=build/$preset-tests.log
  ctest --test-dir "build/$preset" -L "^(${expression:1})\$" -j "${slots:-$(nproc)}" --output-on-failure \
    --no-tests=error 2>&1 | tee "$log" | follow "tests ($preset)" 'Test +#' || {
    grep -v ' Passed ' "$log" | grep -vE '^ *Start ' | tail -n 200 >&2
    die "tests failed in the build $preset; the lines above (whole log: $log) say which."
  }
  grep -E 'tests passed|sec\*proc' "$log"
}

# run_stage_tests PRESET LABEL...: builds what these labels need, nothing else, and runs it.
run_stage_tests() {
  local preset=$1
  shift
  tools/build.sh "$preset" "${@/#/tests_}"
  run_labels "$preset" "$@"
}

stage_packages() { tools/install_deps.sh test; }

stage_llama() { tools/llama.sh build; }

stage_models() {
  tools/model.sh smollm2
  tools/model.sh qwen
}

stage_style() {
  tools/check_layers.py --self-test | tail -n 1
  tools/check_layers.py
  tools/tidy --self-test
  tools/tools_test.sh
  tools/tidy
  git ls-files -z --cached --others --exclude-standard '*.h' '*.cc' |
    xargs -0 clang-format-14 --dry-run -Werror ||
    die "these files aren't in the house format; run \`make format\`."
  echo "format: ok"
}

# Every test belongs to a stage: one with an unknown label would be built and never run.
check_labels() {
  local known='^(unit|golden|transport|engine|pipeline|conformance|e2e|load|net|clients)$'
  ctest --test-dir build/dev -N -LE "$known" | grep -q '^Total Tests: 0$' ||
    die "these tests have no label that a stage runs: $(ctest --test-dir build/dev -N -LE "$known")"
}

stage_dev() {
  tools/build.sh dev all
  check_labels
  run_labels dev unit golden transport engine pipeline
}

# The sanitizer builds leave out what runs libllama: it isn't instrumented, and it has its own tests.
# That of the addresses holds the fuzzers too, so that everything is compiled with them once.
stage_asan() { run_stage_tests asan unit golden transport pipeline; }

# Only what has threads: of the unit tests those of base/, which holds queues and gates.
stage_tsan() {
  tools/build.sh tsan base_tools_test tests_transport tests_pipeline
  run_labels tsan unit transport pipeline
}

# Nothing is built but the sources that the build itself makes.
stage_clang() {
  tools/build.sh clang src/app/generated/app/word_files.h src/gateway/generated/page_files.cc
  tools/run_clang.py headers build/clang
  tools/run_clang.py tidy build/clang
  tools/run_clang.py rest build/clang
}

stage_conformance() { tools/conformance.sh --check-page docs/reference/architectures.md; }

stage_e2e() {
  tools/build.sh dev all
  SALVAGE_MODEL_SMOLLM2=$(tools/model.sh smollm2) SALVAGE_MODEL_QWEN=$(tools/model.sh qwen) \
    run_labels dev e2e
}

# The chat page: its parts, then the whole in a browser.
stage_web() {
  tools/page.sh test
  tools/build.sh dev salvage
  tools/page.sh browser "$PWD/build/dev/bin/salvage" "$(tools/model.sh smollm2)"
}

# Many clients of the API at once, and hostile ones.
stage_load() {
  tools/build.sh dev salvage random_model
  SALVAGE_MODEL_SMOLLM2=$(tools/model.sh smollm2) slots=1 run_labels dev load
}

# The official clients, and llama-server as the measure: both from outside, neither in the tree.
stage_clients() {
  local clients server
  clients=$(tools/clients.sh)
  server=$(tools/llama.sh server)
  tools/build.sh dev all
  SALVAGE_CLIENTS=$clients SALVAGE_LLAMA_SERVER=$server SALVAGE_MODEL_SMOLLM2=$(tools/model.sh smollm2) \
    SALVAGE_MODEL_QWEN=$(tools/model.sh qwen) run_labels dev clients
  grep -hE '^differential: ' build/dev/clients-*.txt
}

stage_fuzz() {
  tools/build.sh asan fuzzers
  local seconds=${FUZZ_SECONDS:-10}
  tools/fuzz.sh build/asan/fuzzers "$seconds" $((seconds > 60 ? seconds : 60)) \
    api_request_fuzz http_fuzz sse_fuzz
}

# Several machines on this one: network namespaces, so root.
stage_net() {
  local why
  if ! why=$(python3 -B tests/net/netns.py --check 2>&1); then
    [ "${SALVAGE_NO_NET:-}" = 1 ] || die "$why Or leave this stage out: SALVAGE_NO_NET=1."
    say "net: left out, since SALVAGE_NO_NET is set: $why"
    return
  fi
  tools/build.sh dev all
  # A slot is a quarter of a core (tests/net/CMakeLists.txt); more than 32 would want much memory.
  slots=$(($(nproc) < 8 ? 4 * $(nproc) : 32)) SALVAGE_MODEL_SMOLLM2=$(tools/model.sh smollm2) \
    run_labels dev net
}

# The portable directory, and it on older systems and processors.
stage_dist() {
  local why
  tools/dist_check.py --self-test
  tools/dist.sh
  if ! why=$(python3 -B tests/dist/machines.py --check 2>&1); then
    [ "${SALVAGE_NO_NET:-}" = 1 ] || die "$why Or leave this out: SALVAGE_NO_NET=1."
    say "dist: not run on older systems, since SALVAGE_NO_NET is set: $why"
    return
  fi
  tools/build.sh dev salvage
  SALVAGE_DIST=$(tools/dist.sh folder) SALVAGE_SYSROOT=$(tools/dist_sysroot.sh) \
    SALVAGE_LIBC_PACKAGE=$(tools/dist_sysroot.sh libc) SALVAGE_BINARY=$PWD/build/dev/bin/salvage \
    SALVAGE_MODEL_SMOLLM2=$(tools/model.sh smollm2) python3 -B tests/dist/dist_test.py
  # From nothing to the first token of two machines.
  SALVAGE_ARCHIVE=$(echo "$PWD"/build/dist/out/salvage-*.tar.gz) \
    SALVAGE_MODEL_SMOLLM2=$(tools/model.sh smollm2) python3 -B tests/net/first_token.py
}

stage_docs() {
  tools/build.sh dev salvage
  tools/gen_reference.py --check build/dev
  tools/check_docs.py build/dev
}

report_failure() {
  local status=$?
  if [ "$status" -ne 0 ]; then
    say ""
    say "FAILED in the stage '$current' after $SECONDS s; to run it alone: tools/run_tests.sh $current"
  fi
}

# A function, so that the shell has read all of this file before the first stage: somebody may edit it
# while it runs.
main() {
  local stages=("$@") number=0 times=() began
  if [ "${#stages[@]}" -eq 0 ]; then stages=("${all_stages[@]}"); fi
  for stage in "${stages[@]}"; do
    [[ " ${all_stages[*]} dist " == *" $stage "* ]] ||
      die "unknown stage '$stage'; there are: ${all_stages[*]} dist"
  done
  trap report_failure EXIT
  for current in "${stages[@]}"; do
    number=$((number + 1))
    say "== $number of ${#stages[@]}: $current"
    began=$SECONDS
    "stage_$current"
    times+=("$current $((SECONDS - began)) s")
    say "-- $current: ok, $((SECONDS - began)) s"
  done
  say "all ok in $SECONDS s ($(printf '%s, ' "${times[@]}" | sed 's/, $//'))"
}

current=none
main "$@"
exit

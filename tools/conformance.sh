#!/usr/bin/env bash
# tools/conformance.sh [OPTION...]: builds the conformance suite and runs it; options go to it (--help).
# Its random models (about 2 GB) are made once and kept in the cache folder. The last line of stdout is
# `exact N, refused N, wrong N`.
set -euo pipefail
# shellcheck source=tools/lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
cd "$repo_dir"

tools/build.sh dev conformance
make_cache_dir "$cache_dir/fixtures"
need_disk "$cache_dir" 3000 "the conformance suite"
work=$(mktemp -d "$repo_dir/build/conformance.XXXXXX")
trap 'rm -rf "$work"' EXIT
build/dev/tests/conformance/conformance --fixtures "$cache_dir/fixtures" --work "$work" \
  --jobs "$(compile_jobs)" "$@"

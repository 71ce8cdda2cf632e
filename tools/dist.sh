#!/usr/bin/env bash
# Builds the portable directory: build/dist/out/salvage/, which runs on every x86-64 Linux with glibc
# 2.31 or newer, whatever its CPU, and an archive of it with its SHA-256. docs/portable.md tells what is
# in it and how.
#
#   tools/dist.sh          builds and checks it; the last three lines: folder, archive with size, SHA-256
#   tools/dist.sh folder   prints where it is, without building
#
# What was built once is kept as everywhere else: llama.cpp and the sysroot in the cache folder, salvage
# in build/dist, objects by ccache. The same sources give the same archive, byte for byte.
set -euo pipefail
# shellcheck source=tools/lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
cd "$repo_dir"

out=build/dist/out
folder=$out/salvage
log=build/dist.log
# All files are dated alike (1980-01-01): what was built when is not what an archive is for.
archive_time=@315532800
# Those whose code is inside the program, or whose headers are.
library_packages=(
  libstdc++-12-dev libssl-dev libsqlite3-dev libfmt-dev libcli11-dev libexpected-dev libxxhash-dev
)

fail() {
  grep -E -A 8 'error|FAILED|Error|undefined reference' "$log" | head -n 60 >&2 || true
  die "the portable salvage did not build; the lines above (whole log: $log) say why."
}

# compile SYSROOT LLAMA_ROOT: build/dist/bin/salvage
compile() {
  mkdir -p build
  export CCACHE_BASEDIR=$repo_dir CCACHE_NOHASHDIR=1
  # Ninja can't see a change of the C library's stubs; a link takes a second.
  if ! cmp -s "$1/key" build/dist/sysroot.key; then rm -f build/dist/bin/salvage; fi
  cmake --preset dist "-DCMAKE_TOOLCHAIN_FILE=$1/toolchain.cmake" "-DSALVAGE_LLAMA_ROOT=$2" \
    >"$log" 2>&1 || fail
  NINJA_STATUS="[%f of %t, %p] " ninja -C build/dist -j "$(compile_jobs)" salvage 2>&1 |
    tee "$log" | follow "salvage (dist)" '^\[' || fail
  cp "$1/key" build/dist/sysroot.key
}

# copy_licenses FOLDER LLAMA_SOURCE
copy_licenses() {
  local package
  install -m 644 LICENSE "$1/salvage.txt"
  install -m 644 "$2/LICENSE" "$1/llama.cpp.txt"
  install -m 644 "$2/licenses/LICENSE-jsonhpp" "$1/llama.cpp-nlohmann-json.txt"
  install -m 644 "$2/vendor/cpp-httplib/LICENSE" "$1/llama.cpp-httplib.txt"
  tools/page.sh licenses "$1"
  for package in "${library_packages[@]}"; do
    [ -f "/usr/share/doc/$package/copyright" ] ||
      die "the licence of $package isn't on this machine (/usr/share/doc/$package/copyright);" \
        "reinstall that package: what is handed on needs its licences."
    install -m 644 "/usr/share/doc/$package/copyright" "$1/$package.txt"
  done
}

# assemble FOLDER LLAMA_ROOT VARIANTS
assemble() {
  local module
  rm -rf "$1"
  mkdir -p "$1/bin" "$1/licenses"
  strip --strip-all -o "$1/bin/salvage" build/dist/bin/salvage
  for module in "$3"/libggml-cpu-*.so; do
    strip --strip-unneeded -o "$1/bin/${module##*/}" "$module"
  done
  chmod 755 "$1/bin/"*
  copy_licenses "$1/licenses" "$2/source"
  install -m 644 cmake/dist/README.txt "$1/README.txt"
}

# archive FOLDER FILE: nothing in it depends on when, where or by whom it was made.
archive() {
  tar --sort=name --format=ustar --owner=0 --group=0 --numeric-owner --mode=u+rwX,go=rX \
    --mtime="$archive_time" -C "${1%/*}" -c "${1##*/}" | gzip -9 -n >"$2.part"
  mv -f "$2.part" "$2"
}

build() {
  local sysroot llama_root variants version file
  sysroot=$(tools/dist_sysroot.sh)
  llama_root=$(tools/llama.sh portable "$sysroot")
  variants=$(tools/llama.sh variants "$sysroot")
  compile "$sysroot" "$llama_root"
  version=$(sed -n 's/^project(salvage VERSION \([0-9.]*\).*/\1/p' CMakeLists.txt)
  file=$out/salvage-$version-linux-x86_64.tar.gz
  rm -rf "$out/fresh"
  assemble "$out/fresh/salvage" "$llama_root" "$variants"
  tools/dist_check.py "$out/fresh/salvage" >&2
  rm -rf "$folder" "$out"/*.tar.gz "$out"/*.sha256
  mv "$out/fresh/salvage" "$folder"
  rmdir "$out/fresh"
  archive "$folder" "$file"
  (cd "$out" && sha256sum "${file##*/}" >"${file##*/}.sha256")
  echo "$folder ($(du -sm --apparent-size "$folder" | cut -f 1) MiB)"
  echo "$file ($(stat -c %s "$file") bytes)"
  echo "SHA-256 $(sha256_of "$file")"
}

case "${1:-build}" in
  build) build ;;
  folder) echo "$repo_dir/$folder" ;;
  *)
    sed -n '2,/^set/{/^set/d;s/^# \{0,1\}//;p}' "${BASH_SOURCE[0]}" >&2
    exit 2
    ;;
esac

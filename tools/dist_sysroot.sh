#!/usr/bin/env bash
# Makes the sysroot that the portable directory is built in, once, outside the repository; its last
# line is the folder. In it: root/ (a C library as old as third_party/glibc.pin says, and the headers
# and static libraries of this machine's packages), what CMake is to read, and `key`: of its content.
#
#   tools/dist_sysroot.sh          makes it if need be
#   tools/dist_sysroot.sh libc     the pinned libc6 package, checked: what tests unpack to run on
#
# root/ has no shared libraries but those of the C library, so none can be linked by accident.
#
# Environment: SALVAGE_CACHE (cache folder), SALVAGE_DEBIAN_MIRROR (where to fetch from instead of
# where apt fetches for this machine). A package that lies in the cache's folder dl/ isn't fetched.
set -euo pipefail
# shellcheck source=tools/lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

pin_file=$repo_dir/third_party/glibc.pin
version=$(pin "$pin_file" version)
parts_dir=$repo_dir/cmake/dist

# What salvage is built with besides the C library and the compiler's own files. Tests and all, for a
# configuration that differs from the usual one in nothing but its toolchain is one less to keep.
packages=(
  linux-libc-dev
  libexpected-dev libfmt-dev libssl-dev libcli11-dev libxxhash-dev libsqlite3-dev
  libgtest-dev libgmock-dev librapidcheck-dev
)

need_debian() {
  local tool
  [ "$(uname -m)" = x86_64 ] ||
    die "the portable directory is for x86-64 and is built on x86-64; this machine is $(uname -m)."
  for tool in dpkg-deb dpkg-query apt-get gcc g++ ar; do
    command -v "$tool" >/dev/null ||
      die "$tool is missing; the portable directory is built on Debian 12 or later, or a relative of it:" \
        "build it there and copy it."
  done
}

# mirrors: where this machine's apt gets Debian's own packages from, most likely first.
mirrors() {
  if [ -n "${SALVAGE_DEBIAN_MIRROR:-}" ]; then
    echo "$SALVAGE_DEBIAN_MIRROR"
    return
  fi
  # shellcheck disable=SC2016  # apt expands these
  apt-get indextargets --format '$(SITE) $(ORIGIN) $(COMPONENT)' 'Created-By: Packages' 2>/dev/null |
    awk '$2 == "Debian" && $3 == "main" && $1 !~ /security/ && !seen[$1]++ { print $1 }'
}

# package NAME: the pinned package NAME in the cache; prints its path.
package() {
  local path wanted file mirror
  path=$(pin "$pin_file" "$1")
  wanted=$(pin "$pin_file" "$1_sha256")
  file=$cache_dir/dl/${path##*/}
  if [ -f "$file" ] && [ "$(sha256_of "$file")" != "$wanted" ]; then
    say "$1: the copy in the cache is damaged; fetching it again"
    rm -f "$file"
  fi
  while [ ! -f "$file" ] && read -r mirror; do
    say "$1: fetching ${path##*/}"
    # apt's own helper: it knows this machine's proxies, and checks the hash.
    /usr/lib/apt/apt-helper -o APT::Sandbox::User= download-file "${mirror%/}/${path/+/%2b}" \
      "$file.part" "SHA256:$wanted" >"$file.log" 2>&1 || continue
    if [ "$(sha256_of "$file.part")" = "$wanted" ]; then mv -f "$file.part" "$file"; fi
  done < <(mirrors)
  rm -f "$file.part"
  [ -f "$file" ] ||
    die "${path##*/} could not be fetched from the Debian mirror that apt is set up for; once Debian has" \
      "moved it to its archive of old releases, set SALVAGE_DEBIAN_MIRROR to a mirror of that, or put" \
      "the file into $cache_dir/dl yourself (its SHA-256 is checked)."
  echo "$file"
}

# key: of everything that decides what is in the sysroot.
key() {
  {
    echo "layout 1" # a change of what this script puts there is a new number
    cat "$pin_file" "$parts_dir/newer_glibc.c" "$parts_dir/toolchain.cmake" "$parts_dir/detach_variants.cmake"
    # shellcheck disable=SC2016  # dpkg-query expands these
    dpkg-query -W -f '${Package} ${Version}\n' "${packages[@]}"
    g++ --version | head -n 1
  } | sha256sum | cut -c 1-12
}

# copy_package NAME ROOT: headers, static libraries and CMake's files of an installed package.
copy_package() {
  dpkg-query -L "$1" | grep -E '^/usr/(include|lib|share/cmake)/' |
    grep -vE '\.so(\.|$)|/pkgconfig(/|$)|/usr/lib/(debug|python)' |
    while read -r path; do
      if [ -f "$path" ]; then printf '%s\0' "${path#/}"; fi
    done | tar -C / --null --files-from=- -c | tar -C "$2" -x
}

# relative_links ROOT: links that begin with / would lead out of the sysroot.
relative_links() {
  local link target
  find "$1" -type l -lname '/*' | while read -r link; do
    target=$(readlink "$link")
    ln -sfn "$(realpath -m --relative-to="$(dirname "$link")" "$1$target")" "$link"
  done
}

fill() {
  local root=$1/root name
  mkdir -p "$root"
  for name in libc6 libc6-dev; do dpkg-deb -x "$(package "$name")" "$root"; done
  # Static C libraries would be found where a shared one is meant.
  find "$root" -name 'lib*.a' ! -name libc_nonshared.a -delete
  relative_links "$root"
  for name in "${packages[@]}"; do copy_package "$name" "$root"; done
  cp "$parts_dir/toolchain.cmake" "$parts_dir/detach_variants.cmake" "$1/"
  gcc "--sysroot=$root" -std=c11 -O2 -fPIC -fvisibility=hidden -Wall -Wextra -Werror \
    -c "$parts_dir/newer_glibc.c" -o "$1/newer_glibc.o"
  ar rsD "$root/usr/lib/x86_64-linux-gnu/libc_nonshared.a" "$1/newer_glibc.o" 2>/dev/null
}

# The folder's name stays when its content changes: compilers are called with it, and what ccache has
# would be lost.
make_sysroot() {
  local sysroot=$cache_dir/sysroot-$version wanted fresh
  need_debian
  make_cache_dir "$cache_dir/dl"
  wanted=$(key)
  if [ "$(cat "$sysroot/key" 2>/dev/null)" != "$wanted" ]; then
    take_lock sysroot
    need_disk "$cache_dir" 200 "the sysroot"
    fresh=$(mktemp -d "$cache_dir/dl/sysroot.XXXXXX")
    chmod 755 "$fresh"
    say "sysroot: glibc $version and the static libraries of ${#packages[@]} packages"
    fill "$fresh"
    echo "$wanted" >"$fresh/key"
    rm -rf "$sysroot"
    mv -T "$fresh" "$sysroot"
  fi
  echo "$sysroot"
}

case "${1:-make}" in
  make) make_sysroot ;;
  libc)
    need_debian
    make_cache_dir "$cache_dir/dl"
    package libc6
    ;;
  *)
    sed -n '2,/^set/{/^set/d;s/^# \{0,1\}//;p}' "${BASH_SOURCE[0]}" >&2
    exit 2
    ;;
esac

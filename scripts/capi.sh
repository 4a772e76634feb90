#!/bin/sh
# The C library.
#   capi.sh header [--check]            makes standpipe.h, or compares it with what would be made
#   capi.sh link LIBRARY.a DIR          the shared library, with versioned symbols, from the static one
#   capi.sh install PREFIX [DESTDIR]    builds and installs all of it
set -eu
cd "$(dirname "$0")/.."
root=$PWD
capi=$root/crates/capi
version=$(sed -n '/^\[workspace.package\]/,/^\[/s/^version = "\(.*\)"/\1/p' Cargo.toml)
# while the major version is 0, each minor one may break what was built for another
soname=libstandpipe.so.${version%.*}
cbindgen_version=0.29.4
# what the static library needs of the system
private="-lgcc_s -lpthread -ldl -lm -lc"

cbindgen() {
    tools=${CARGO_TARGET_DIR:-$root/target}/tools
    if ! "$tools/bin/cbindgen" --version 2>/dev/null | grep -qx "cbindgen $cbindgen_version"; then
        echo "standpipe: installing cbindgen $cbindgen_version into $tools" >&2
        cargo install --locked --quiet --root "$tools" --version "$cbindgen_version" cbindgen >&2
    fi
    "$tools/bin/cbindgen" --quiet --config "$capi/cbindgen.toml" --lang c "$capi" "$@"
}

header() {
    committed=$capi/include/standpipe.h
    made=$(mktemp)
    trap 'rm -f "$made"' EXIT INT TERM
    cbindgen --output "$made"
    if [ "${1:-}" != --check ]; then
        cp "$made" "$committed"
    elif ! diff -u "$committed" "$made"; then
        echo "$0: crates/capi/include/standpipe.h is not what the code says: run scripts/capi.sh header" >&2
        exit 1
    fi
}

# rustc gives a cdylib a linker script of its own, beside which symbols can't have versions
link() {
    cc -shared -o "$2/libstandpipe.so.$version" \
        -Wl,--whole-archive "$1" -Wl,--no-whole-archive -Wl,--gc-sections \
        -Wl,--version-script="$capi/standpipe.map" -Wl,-soname,"$soname" -Wl,-z,defs \
        $private
    ln -sf "libstandpipe.so.$version" "$2/$soname"
    ln -sf "$soname" "$2/libstandpipe.so"
}

install_all() {
    prefix=$1
    dest=${2:-}$prefix
    case $prefix in
    /*) ;;
    *) echo "$0: PREFIX is '$prefix', expected an absolute path, e.g. /usr/local" >&2; exit 2 ;;
    esac
    profile=${STANDPIPE_PROFILE:-release}
    cargo build --profile "$profile" --locked --package standpipe-capi >&2
    [ "$profile" = dev ] && profile=debug
    library=${CARGO_TARGET_DIR:-$root/target}/$profile/libstandpipe_capi.a
    install -d "$dest/include/standpipe" "$dest/lib/pkgconfig"
    install -m 644 "$capi/include/standpipe.h" "$dest/include/standpipe.h"
    install -m 644 "$capi/include/standpipe/posix.h" "$dest/include/standpipe/posix.h"
    install -m 644 "$library" "$dest/lib/libstandpipe.a"
    link "$library" "$dest/lib"
    sed -e "s|@PREFIX@|$prefix|; s|@VERSION@|$version|; s|@PRIVATE@|$private|" \
        "$capi/standpipe.pc.in" >"$dest/lib/pkgconfig/standpipe.pc"
    chmod 644 "$dest/lib/pkgconfig/standpipe.pc"
    echo "installed standpipe $version under $dest" >&2
}

. "$root/scripts/toolchain.sh"
case "${1:-}" in
header) shift; header "$@" ;;
link) link "$2" "$3" ;;
install) install_all "$2" "${3:-}" ;;
*) sed -n '2,5p' "$0" >&2; exit 2 ;;
esac

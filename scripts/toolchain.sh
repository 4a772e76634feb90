# Sourced: makes sure that cargo and a C linker (and what else TOOLS names) are there, installing them
# only where they are not. What is there is never changed.

if [ -f "$HOME/.cargo/env" ]; then . "$HOME/.cargo/env"; fi

missing=""
for tool in ${TOOLS:-cc}; do
    command -v "$tool" >/dev/null 2>&1 || missing="$missing $tool"
done
if [ -n "$missing" ]; then
    echo "standpipe: not here, being installed:$missing" >&2
    as_root=""
    [ "$(id -u)" = 0 ] || as_root=sudo
    if command -v apt-get >/dev/null 2>&1; then
        $as_root apt-get update -qq && $as_root apt-get install -y -qq gcc g++ libc6-dev make pkg-config
    elif command -v dnf >/dev/null 2>&1; then
        $as_root dnf install -y -q gcc gcc-c++ make pkgconf-pkg-config
    elif command -v pacman >/dev/null 2>&1; then
        $as_root pacman -S --noconfirm --needed gcc make pkgconf
    else
        echo "standpipe: please install:$missing" >&2
        exit 1
    fi
fi >&2

if ! command -v cargo >/dev/null 2>&1; then
    echo "standpipe: no Rust toolchain here, installing one with rustup (https://rustup.rs)" >&2
    curl --proto '=https' --tlsv1.2 -sSf https://sh.rustup.rs |
        sh -s -- -y --profile minimal --component clippy --component rustfmt >&2
    . "$HOME/.cargo/env"
fi

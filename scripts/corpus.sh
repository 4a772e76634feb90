#!/bin/sh
# Assembles DIR/corpus.txt, BYTES of real text, from the text files of this machine. The order is
# fixed, so the same machine gives the same corpus; where there is little text, it is repeated.
# A corpus that is there and large enough is kept.
set -eu
export LC_ALL=C

if [ $# -ne 2 ]; then
    echo "usage: $0 DIR BYTES" >&2
    exit 2
fi
dir=$1
bytes=$2
corpus=$dir/corpus.txt

size() { stat -c %s "$1" 2>/dev/null || echo 0; }

if [ "$(size "$corpus")" -ge "$bytes" ]; then
    exit 0
fi
mkdir -p "$dir"
part=$(mktemp "$dir/corpus.XXXXXX")
trap 'rm -f "$part"' EXIT INT TERM

# a quarter of a gigabyte is varied enough; reading more would only take longer
seed_max=268435456

echo "assembling a corpus of $((bytes >> 20)) MiB of text in $dir" >&2
# grep -I skips what has NUL bytes; a reader that has enough ends the pipeline, hence `|| true`
(
    find -L /usr/share /usr/include /usr/lib/python3* /usr/lib/perl* /usr/src /etc \
        -type f -size -8192k -readable \
        ! -name '*.gz' ! -name '*.xz' ! -name '*.png' ! -name '*.svgz' -print0 2>/dev/null || true
) | sort -z | xargs -0 grep -IlsZ . 2>/dev/null | xargs -0 cat 2>/dev/null |
    head -c "$seed_max" >"$part" || true

seed_size=$(size "$part")
if [ "$seed_size" -lt 1048576 ]; then
    echo "$0: found only $seed_size bytes of text under /usr and /etc" >&2
    exit 1
fi
if [ "$seed_size" -lt "$bytes" ]; then
    seed=$(mktemp "$dir/seed.XXXXXX")
    trap 'rm -f "$part" "$seed"' EXIT INT TERM
    mv "$part" "$seed"
    while [ "$(size "$part")" -lt "$bytes" ]; do
        cat "$seed" >>"$part"
    done
    rm -f "$seed"
fi
truncate -s "$bytes" "$part"
mv "$part" "$corpus"

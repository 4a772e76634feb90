#!/bin/sh
# Builds standpipe, assembles a corpus of real text, and shows a pipeline on it: live, then next
# to the plain shell.  PIPELINE='...' runs a pipeline of your own.
set -eu
cd "$(dirname "$0")/.."
root=$PWD
cache=$root/.cache
. "$root/scripts/toolchain.sh"

corpus=$cache/corpus.txt
corpus_bytes=1073741824

cargo build --release --locked --package standpipe-cli >&2
standpipe=${CARGO_TARGET_DIR:-$root/target}/release/standpipe

own=${PIPELINE:-}
if [ -z "$own" ]; then
    "$root/scripts/corpus.sh" "$cache" "$corpus_bytes"
fi

title() { printf '\n== %s\n' "$1" >&2; }

if [ -n "$own" ]; then
    title "live: $own"
    "$standpipe" run --report -- "$own"
    # a pipeline that reads its input from elsewhere cannot be run again
    title "next to the plain shell, in turns"
    "$standpipe" run --compare -- "$own"
    exit
fi

# LC_ALL=C: bytes are bytes, whatever the user's language
export LC_ALL=C
cd "$cache"
work='cat corpus.txt corpus.txt | grep -a openssl | sort | uniq -c | sort -rn | head -3'
flow='cat corpus.txt | wc -l'

title "live, the commonest lines with a word in 2 GiB of text: $work"
# `head` ends the pipeline early: the stages before it die of SIGPIPE, as they should
"$standpipe" run --report --last-status -- "$work"
title "next to the plain shell, in turns: where the programs are the limit"
"$standpipe" run --compare -- "$work"
title "and where the pipes are the limit: $flow"
"$standpipe" run --report -- "$flow"
"$standpipe" run --compare=5 -- "$flow"

#!/bin/sh
# All suites in full, one after the other, then the report. Close other programs first.
set -eu
cd "$(dirname "$0")/.."
standpipe=target/release/standpipe
results=target/bench
mkdir -p "$results"
for suite in pipe bw pipeflex grep small latency create fifo run; do
    "$standpipe" bench "$suite" "$@" --json "$results/$suite.json"
done
if command -v pv > /dev/null || command -v mbuffer > /dev/null; then
    "$standpipe" bench stage "$@" --json "$results/stage.json"
else
    echo "note: no suite stage without pv and mbuffer (apt-get install pv mbuffer)" >&2
fi
"$standpipe" bench pipe --memory-pressure "$@" --json "$results/pipe-memory-pressure.json"
for suite in pipe bw pipeflex small; do
    "$standpipe" bench "$suite" --cpus 1 "$@" --json "$results/$suite-cpus-1.json"
done
for suite in pipe bw small latency fifo create; do
    "$standpipe" bench "$suite" --c-abi "$@" --json "$results/$suite-c-abi.json"
done
"$standpipe" bench report "$results"/*.json -o "$results/report.html"
echo "$results/report.html"

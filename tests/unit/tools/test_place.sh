#!/bin/sh
# lacuna-engine place: tables for this machine and for one from a file, and what it refuses.
# usage: test_place.sh LACUNA-ENGINE SOURCE-DIR
set -u
engine=$1
model=$2/tests/golden/logits/tiny-llama-q4_0.gguf
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
bad=0
wrong() {
    echo "FAIL: $*"
    bad=1
}
"$engine" place --print-topology >"$work/here" || wrong "--print-topology"
"$engine" place --print-topology --topology "$work/here" >"$work/again" || wrong "reading it back"
cmp -s "$work/here" "$work/again" || wrong "a topology changes when it is read and written"

cat >"$work/two" <<'END'
{"lacuna_topology": 1, "hosts": [
  {"name": "left", "numa": [{"cores": 4, "memory_mb": 1000}]},
  {"name": "right", "numa": [{"cores": 2, "memory_mb": 1000}]}]}
END
plan() {
    "$engine" place --model "$model" --topology "$work/two" "$@"
}
plan --pp 3 >"$work/out" || wrong "pp 3"
[ "$(grep -c '^ *[0-9]* .*\(left\|right\)$' "$work/out")" = 3 ] || wrong "pp 3 has other than 3 ranks"
grep -q '^ *2 .*right$' "$work/out" || wrong "rank 2 is not on the second host"
grep -q '^stage 0 \[embed\]#$' "$work/out" || wrong "no picture of stage 0"
plan --pp 3 --mask A1 | grep -q '^stage 1 f$' || wrong "an erased unit is in the picture"
plan --tp 3 | grep -q 'stage 0 lies on left and right' || wrong "no warning of sums over the network"
case $(plan --tp 4 2>&1) in
*"nearest possible tp is 3"*) ;;
*) wrong "tp 4 does not name the nearest split" ;;
esac
plan --pp 3 --tp 3 >/dev/null 2>&1 && wrong "9 ranks on 6 cores"
echo '{"lacuna_topology": 2}' >"$work/new"
case $("$engine" place --model "$model" --topology "$work/new" 2>&1) in
*"version is 2, this program reads 1"*) ;;
*) wrong "a newer topology file is not refused by name" ;;
esac
exit $bad

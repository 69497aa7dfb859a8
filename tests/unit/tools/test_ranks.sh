#!/bin/sh
# lacuna-engine over several ranks, as processes: the same bits and text as one rank, memory by rank,
# and what is left when a rank or their starter is killed or stopped: nothing, soon.
# usage: test_ranks.sh LACUNA-ENGINE [ROUNDS]
set -u
engine=$1
rounds=${2:-1}
model=${LACUNA_TEST_MODEL:-${XDG_CACHE_HOME:-$HOME/.cache}/lacuna/SmolLM2-135M-Instruct.Q4_1.gguf}
[ -r "$model" ] || { echo "no default model: skipped"; exit 77; }
"$engine" score --help | grep -q -- --pp || exit 1
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
bad=0
wrong() {
    echo "FAIL: $*"
    bad=1
}
now_ms() {
    echo $(($(date +%s%N) / 1000000))
}

# ---- one rank and several ----
text='The history of science is full of ideas that were once thought impossible.'
printf '%s\n' "$text" >"$work/text"
score() {
    out=$1
    shift
    "$engine" score --model "$model" --ctx 256 --threads 1 --text-file "$work/text" \
        --logprobs-file "$work/$out" "$@" >/dev/null || wrong "score $*"
}
score one
score pp2 --pp 2
score pp3 --pp 3
score tp2 --tp 2
score both --pp 2 --tp 2
cmp -s "$work/one" "$work/pp2" || wrong "pp 2 gives other bits than one rank"
cmp -s "$work/one" "$work/pp3" || wrong "pp 3 gives other bits than one rank"
cmp -s "$work/tp2" "$work/both" || wrong "pp 2 x tp 2 gives other bits than tp 2"
[ -s "$work/one" ] || wrong "nothing was scored"

say() {
    "$engine" generate --model "$model" --ctx 256 --threads 1 --temp 0 --max-tokens 24 \
        --prompt "$text" "$@"
}
one=$(say)
[ "$(say --pp 2)" = "$one" ] || wrong "pp 2 gives another text than one rank"
[ "$(say --pp 3 --mask A25)" = "$(say --mask A25)" ] || wrong "pp 3 gives another masked text"

# ---- what cannot be ----
line=$("$engine" generate --model "$model" --prompt x --tp 10 2>&1) && wrong "tp 10 is accepted"
case $line in
*"nearest possible tp is 9"*) ;;
*) wrong "tp 10: $line" ;;
esac

# ---- ranks that are lost ----
segments() {
    find /dev/shm -name 'ucx_*' 2>/dev/null | wc -l
}
before=$(segments)
# lost SIGNAL WHO: starts three ranks that would run for long, then the signal; WHO is a rank or
# "starter".
lost() {
    "$engine" bench --model "$model" --ctx 2048 --threads 1 --pp 3 --prefill 16 --decode 1900 \
        >/dev/null 2>"$work/err" &
    starter=$!
    for _ in $(seq 200); do
        ranks=$(ps -o pid= --ppid $starter | tr -d ' ')
        [ "$(echo "$ranks" | wc -w)" = 3 ] && break
        sleep 0.05
    done
    sleep 2
    # shellcheck disable=SC2086
    for pid in $ranks; do
        kb=$(awk '/^VmRSS/ { print $2 }' "/proc/$pid/status")
        # Its share of the model, what a process needs, and the pages of ten layers for 2,048 tokens.
        [ "${kb:-0}" -le $((98362432 * 115 / 300 / 1024 + 65536 + 10 * 2048 * 768 / 1024)) ] ||
            wrong "a rank holds $kb KiB"
    done
    who=$starter
    # shellcheck disable=SC2086
    [ "$2" = starter ] || { set -- "$1" "$2" $ranks; shift $(($2 + 2)); who=$1; set -- "$sig" "$rank"; }
    start=$(now_ms)
    kill -"$sig" "$who" || wrong "rank $rank had ended by itself: $(cat "$work/err")"
    wait $starter
    code=$?
    [ $code != 0 ] || wrong "signal $sig to $rank: exit status 0"
    for _ in $(seq 40); do
        left=0
        for pid in $ranks; do
            [ -e "/proc/$pid" ] && left=1
        done
        [ "$left" = 0 ] && break
        sleep 0.05
    done
    ms=$(($(now_ms) - start))
    [ "$left" = 0 ] || wrong "signal $sig to $rank: a rank is left"
    [ $ms -lt 2500 ] || wrong "signal $sig to $rank: the end took $ms ms"
    [ "$(segments)" = "$before" ] || wrong "signal $sig to $rank: shared memory is left"
    echo "signal $sig to rank $rank: over after $ms ms, exit status $code"
}
for _ in $(seq "$rounds"); do
    for sig in KILL STOP; do
        for rank in 0 1 2; do
            lost $sig $rank
        done
    done
    sig=KILL rank=starter
    lost KILL starter
done
exit $bad

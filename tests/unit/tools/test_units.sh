#!/bin/sh
# lacuna-engine expand, --mask and the units of inspect, as a script meets them: test_units.sh PROGRAM TREE.
program=$1 tree=$2
model=$tree/tests/golden/logits/tiny-llama-q4_1.gguf # 3 layers
folder=$(mktemp -d) || exit 1
trap 'rm -rf "$folder"' EXIT
failed=0
fail() {
    echo "$1"; failed=1
}

# check WHAT EXIT-CODE PATTERN ARGUMENTS…
check() {
    what=$1 code=$2 pattern=$3
    shift 3
    "$program" "$@" >"$folder/out" 2>"$folder/err" </dev/null
    got=$?
    [ $got -eq "$code" ] || { fail "$what: exit code $got, expected $code"; cat "$folder/err"; }
    grep -qF -- "$pattern" "$folder/out" "$folder/err" || {
        fail "$what: \"$pattern\" not printed"; cat "$folder/out" "$folder/err"
    }
    [ "$code" -eq 0 ] || [ ! -s "$folder/out" ] || fail "$what: output although it failed"
}

seq 5 74 >"$folder/ids"
logits() { # FILE OPTIONS…
    out=$1
    shift
    "$program" score --ids-file "$folder/ids" --logprobs-file "$out" "$@" >/dev/null || fail "score $*"
}

"$program" expand --model "$model" --blocks 5 --out "$folder/more.gguf" || fail "expand"
[ "$(ls "$folder" | grep -c part)" -eq 0 ] || fail "expand left a part"
check "expanded states" 0 '"unit_states":{"active":6,"zeroed":10,"erased":0,"sparsity":0.625000}' \
    inspect --model "$folder/more.gguf" --json
logits "$folder/a" --model "$model"
logits "$folder/b" --model "$folder/more.gguf"
logits "$folder/c" --model "$folder/more.gguf" --keep-zeroed
cmp "$folder/a" "$folder/b" || fail "the expanded model answers otherwise"
cmp "$folder/a" "$folder/c" || fail "the expanded model, run in full, answers otherwise"
check "gate passed" 0 "sparsity 0.6250" inspect --model "$folder/more.gguf" --min-sparsity 0.6
check "gate failed" 1 "--min-sparsity is 0.75" inspect --model "$folder/more.gguf" --min-sparsity 0.75
check "against itself" 0 "changes       none" inspect --model "$folder/more.gguf" --against "$folder/more.gguf"

# The file ends with the zero ffn_down of layer 7, Q4_1: blocks of two scales and 16 bytes of quants. Quants
# without a scale are still zero; a scale makes the promise in the file false, and without the promise the
# unit is alive again.
patch() { # BYTES-FROM-THE-END
    perl -e 'open(F, "+<", $ARGV[0]) or die; seek(F, -$ARGV[1], 2); print F "\x3c" x 4; close F' \
        "$folder/alive.gguf" "$1"
}
cp "$folder/more.gguf" "$folder/alive.gguf"
patch 64
check "quants alone" 0 "10 zeroed" inspect --model "$folder/alive.gguf"
patch 60
check "a false promise" 1 "names unit F7, whose bytes are not zero" inspect --model "$folder/alive.gguf"
perl -pi -e 's/lacuna\.zeroed_units/lacunb.zeroed_units/' "$folder/alive.gguf"
check "alive again" 1 "1 units are active that were not in" \
    inspect --model "$folder/alive.gguf" --against "$folder/more.gguf"
check "which one" 1 ": F7" inspect --model "$folder/alive.gguf" --against "$folder/more.gguf"

# Experts: a unit is zero when the down projections of all of them are.
moe=$tree/tests/golden/logits/tiny-qwen3moe-q4_1.gguf # 3 layers, 16 experts
"$program" expand --model "$moe" --blocks 2 --out "$folder/alive.gguf" || fail "expand experts"
check "experts zeroed" 0 "4 zeroed" inspect --model "$folder/alive.gguf"
check "experts shown" 0 '"experts":16,"experts_used":4' inspect --model "$moe" --json
check "experts told" 0 "64, 16 experts of which a token runs 4" inspect --model "$moe"
logits "$folder/e" --model "$moe"
logits "$folder/f" --model "$folder/alive.gguf"
logits "$folder/g" --model "$folder/alive.gguf" --keep-zeroed
cmp "$folder/e" "$folder/f" || fail "experts: the expanded model answers otherwise"
cmp "$folder/e" "$folder/g" || fail "experts: the expanded model, run in full, answers otherwise"
patch 60 # of the last expert alone
perl -pi -e 's/lacuna\.zeroed_units/lacunb.zeroed_units/' "$folder/alive.gguf"
check "one expert alive" 0 "3 zeroed" inspect --model "$folder/alive.gguf"

check "mask" 0 '"class":"mask","active_layers":2,"skip_rate":0.500000' generate --model "$model" \
    --prompt abc --temp 0 --max-tokens 4 --mask f1,A1,A0 --json
logits "$folder/d" --model "$model" --mask A1
cmp -s "$folder/a" "$folder/d" && fail "a mask changes nothing"
check "past the last layer" 1 "A3" generate --model "$model" --prompt abc --mask A3
check "no mask text" 1 "--mask" score --model "$model" --ids-file "$folder/ids" --mask B1
check "no blocks" 2 "--blocks" expand --model "$model" --out "$folder/x.gguf"
check "too many" 1 "1022" expand --model "$model" --blocks 1022 --out "$folder/x.gguf"
check "no folder" 1 "none/x.gguf" expand --model "$model" --blocks 1 --out "$folder/none/x.gguf"
exit $failed

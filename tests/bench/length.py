#!/usr/bin/env python3
"""Speed and memory against length: prefill and decode of a tiny long-context model at growing lengths,
with the peak memory of each run. The model is one of the golden ones, its file told of a longer context.

  tests/bench/length.py [--lengths 4096,32768,131072] [--threads 2] [--kv-type f16] [--json out.json]
"""

import argparse
import json
import pathlib
import struct
import subprocess
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent


def with_context(model, tokens):
    """The file's bytes with another context length, which nothing in its weights knows."""
    data = bytearray(model.read_bytes())
    key = b".context_length"
    at = data.index(key) + len(key)
    if struct.unpack_from("<I", data, at)[0] != 4:  # GGUF's number for uint32
        raise SystemExit(f"{model}: context_length is not a uint32")
    struct.pack_into("<I", data, at + 4, tokens)
    return bytes(data)


def measure(engine, path, tokens, options):
    """One run of the bench: its figures and the most memory it had."""
    command = [engine, "bench", "--model", path, "--prefill", str(tokens), "--decode", str(options.decode),
               "--threads", str(options.threads), "--kv-type", options.kv_type, "--json"]
    done = subprocess.run(command, stdout=subprocess.PIPE, check=True)
    return json.loads(done.stdout) | {"tokens": tokens}


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--lengths", default="4096,8192,16384,32768,65536,131072")
    parser.add_argument("--model", type=pathlib.Path,
                        default=ROOT / "tests/golden/logits/tiny-gemma3-linear.gguf")
    parser.add_argument("--bin", type=pathlib.Path, default=ROOT / "build/release/bin")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--decode", type=int, default=32)
    parser.add_argument("--kv-type", default="f16")
    parser.add_argument("--json", type=pathlib.Path)
    options = parser.parse_args()
    lengths = [int(text) for text in options.lengths.split(",")]
    rows = []
    with tempfile.NamedTemporaryFile(suffix=".gguf") as file:
        file.write(with_context(options.model, max(lengths) + options.decode + 64))
        file.flush()
        print(f"{'tokens':>8} {'prefill tok/s':>14} {'decode tok/s':>13} {'peak MB':>9} {'KB/token':>9}")
        for tokens in lengths:
            row = measure(options.bin / "lacuna-engine", file.name, tokens, options)
            grown = ""
            if rows:
                before = rows[-1]
                slope = (row["peak_mb"] - before["peak_mb"]) * 1000 / (tokens - before["tokens"])
                row["kb_per_token"] = slope
                grown = f"{slope:9.3f}"
            rows.append(row)
            print(f"{tokens:8d} {row['prefill_tok_s']:14.1f} {row['decode_tok_s']:13.1f} "
                  f"{row['peak_mb']:9.1f} {grown}", flush=True)
    if options.json:
        options.json.write_text(json.dumps(rows, indent=1) + "\n")


if __name__ == "__main__":
    main()

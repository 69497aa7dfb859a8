#!/usr/bin/env bash
# test_gpu_check.sh SOURCE_DIR FOLDER: what ops/gpu-check does without a GPU: wrong use is refused, and
# a dry run builds the host side with a C compiler alone, links both programs and writes its report.
set -euo pipefail
check=$1/ops/gpu-check
out=$2
expect() { # CODE COMMAND…
    local want=$1 code=0
    shift
    "$@" >"$out.log" 2>&1 || code=$?
    [ "$code" -eq "$want" ] || { cat "$out.log"; echo "exit $code for $want: $*"; exit 1; }
}
mkdir -p -- "$out"
expect 2 "$check" --device x
expect 2 "$check" --out
expect 2 "$check" --nonsense
expect 0 "$check" --help
# Kernels are compiled by kernels_cuda_budgets and the cuda preset: here they would cost minutes more.
export GPU_CHECK_KERNELS=0 GPU_CHECK_PATIENCE=10 GPU_CHECK_SECONDS=2000
expect 0 "$check" --dry-run --out "$out"
grep -q '^build-host: ok' "$out/report.txt"
grep -q '^link: ok' "$out/report.txt"
grep -q 'left out, this is a dry run' "$out/report.txt"
# What it linked runs as far as it can here: no kernels in it, and it says so.
expect 77 "$out/lacuna-cuda-bench" 135m
grep -q 'no GPU kernels' "$out.log"
expect 77 "$out/kernel-tests"
expect 1 "$out/lacuna-cuda-bench" 135m cuda:x
# A compiler that fails makes the run fail, and the report says which step.
CC=false expect 1 "$check" --dry-run --out "$out"
grep -q 'FAILED' "$out/report.txt" || grep -q 'FAILED' "$out.log"
echo "gpu-check: as it should be without a GPU"

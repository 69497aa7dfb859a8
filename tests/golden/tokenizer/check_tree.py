#!/usr/bin/env python3
"""Every file of the source tree, tokenized by us and by the reference: check_tree.py PROGRAM TREE

PROGRAM is tokenize_files. Exit 0 when all ids are equal, 1 when not, 77 (skipped) where the PyPI package
`tokenizers` or the default model is absent."""
import os
import pathlib
import subprocess
import sys

SKIPPED = 77
try:
    import reference
except ImportError as missing:
    print(f"skipped: {missing}")
    sys.exit(SKIPPED)


def model_path():
    cache = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    default = os.path.join(cache, "lacuna", "SmolLM2-135M-Instruct.Q4_1.gguf")
    return os.environ.get("LACUNA_TEST_MODEL") or default


def text_files(tree):
    for folder, folders, names in os.walk(tree):
        folders[:] = sorted(f for f in folders if f not in (".git", "build", "__pycache__", ".cache"))
        for name in sorted(names):
            path = pathlib.Path(folder, name)
            if path.is_symlink() or path.stat().st_size > 8 << 20:
                continue
            try:
                yield str(path), path.read_bytes().decode()
            except UnicodeDecodeError:
                pass  # the reference takes text only


def main():
    program, tree = sys.argv[1:]
    model = model_path()
    if not os.access(model, os.R_OK):
        print(f"skipped: {model} is absent (LACUNA_TEST_MODEL names another)")
        return SKIPPED
    files = list(text_files(tree))
    ours = subprocess.run([program, model], input="".join(p + "\n" for p, _ in files), text=True,
                          stdout=subprocess.PIPE, check=True).stdout.split("\n")
    encoder = reference.build(reference.read_meta(model), False)
    wrong = tokens = 0
    for (path, text), line in zip(files, ours):
        ids = encoder.encode(text, add_special_tokens=False).ids
        got = [int(i) for i in line.split()]
        tokens += len(ids)
        if got != ids:
            at = next((i for i, (a, b) in enumerate(zip(got, ids)) if a != b), min(len(got), len(ids)))
            print(f"{path}: token {at}: ours {got[at:at + 5]}, reference {ids[at:at + 5]}")
            wrong += 1
    print(f"{len(files)} files, {tokens} tokens, {wrong} differ")
    return 1 if wrong or not files else 0


sys.exit(main())

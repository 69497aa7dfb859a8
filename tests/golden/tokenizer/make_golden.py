#!/usr/bin/env python3
"""Makes the golden tokenizations in this folder: make_golden.py [MODEL.gguf]

Trains four small vocabularies on the texts of texts.py, too few merges to know all words, writes them as GGUF files of metadata
alone, and writes the ids that the PyPI package `tokenizers` gives for every golden text. With MODEL (the
default model) it also writes smollm2.json, the ids under that model's own vocabulary."""
import json
import pathlib
import sys

from tokenizers import Tokenizer, models, trainers

import reference
from texts import TEXTS

HERE = pathlib.Path(__file__).parent
SPECIALS = {
    "gpt-2": ["<|endoftext|>"],
    "smollm": ["<|endoftext|>", "<|im_start|>", "<|im_end|>"],
    "llama-bpe": ["<|begin_of_text|>", "<|end_of_text|>", "<|start_header_id|>", "<|end_header_id|>",
                  "<|eot_id|>"],
    "qwen2": ["<|endoftext|>", "<|im_start|>", "<|im_end|>"],
}
# Recognised in plain text too, and a prefix of a control token's text, so that the longest must win.
USER_DEFINED = {"qwen2": ["<tool>", "</tool>", "<|im"], "smollm": ["<tool>"]}
# Whole words without a merge that makes them: only a vocabulary that ignores merges can give them.
UNREACHABLE = {"llama-bpe": ["zebrafish", "Ġquizzical"]}


def train(name):
    made = Tokenizer(models.BPE())
    made.pre_tokenizer = reference.pre_tokenizer(name)
    alphabet = reference.pre_tokenizers.ByteLevel.alphabet()
    made.train_from_iterator([text for _, text in TEXTS], trainers.BpeTrainer(
        vocab_size=800, initial_alphabet=alphabet, show_progress=False))
    data = json.loads(made.to_str())["model"]
    tokens = sorted(data["vocab"], key=data["vocab"].get) + UNREACHABLE.get(name, [])
    merges = [" ".join(m) if isinstance(m, list) else m for m in data["merges"]]
    types = [1] * len(tokens)
    for extra, kind in ((SPECIALS[name], reference.CONTROL),
                        (USER_DEFINED.get(name, []), reference.USER)):
        tokens += extra
        types += [kind] * len(extra)
    return {
        "general.architecture": "llama",
        "tokenizer.ggml.model": "gpt2",
        "tokenizer.ggml.pre": name,
        "tokenizer.ggml.tokens": tokens,
        "tokenizer.ggml.token_type": types,
        "tokenizer.ggml.merges": merges,
        "tokenizer.ggml.bos_token_id": tokens.index(SPECIALS[name][0]),
        "tokenizer.ggml.eos_token_id": tokens.index(SPECIALS[name][-1]),
        "tokenizer.ggml.add_bos_token": name == "llama-bpe",
    }


def golden(meta, fixture):
    plain, special = reference.build(meta, False), reference.build(meta, True)
    rows = [{"name": name,
             "text": text,
             "ids": plain.encode(text, add_special_tokens=False).ids,
             "special_ids": special.encode(text, add_special_tokens=False).ids}
            for name, text in TEXTS]
    return {"fixture": fixture, "pre": meta["tokenizer.ggml.pre"], "texts": rows}


def write(path, data):
    rows = ",\n".join(json.dumps(row, separators=(",", ":")) for row in data["texts"])
    head = {k: v for k, v in data.items() if k != "texts"}
    path.write_text(json.dumps(head)[:-1] + ', "texts": [\n' + rows + "\n]}\n")


def main():
    for name in SPECIALS:
        fixture = HERE / f"{name}.gguf"
        reference.write_meta(fixture, train(name))
        write(HERE / f"{name}.json", golden(reference.read_meta(fixture), fixture.name))
    if len(sys.argv) > 1:
        write(HERE / "smollm2.json", golden(reference.read_meta(sys.argv[1]), None))


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""Makes the SentencePiece goldens in this folder: make_sentencepiece.py [GEMMA.gguf]

Trains two small vocabularies with the PyPI package `sentencepiece` on the texts of texts.py, writes them as GGUF
files of metadata alone, and writes the ids that the package gives. With GEMMA (the Gemma 3 270M file) it builds
the package's own model from what that file holds and writes gemma.json. Needs `sentencepiece`, `protobuf` and
`tokenizers` (for reference.py)."""
import io
import json
import pathlib
import re
import sys

import sentencepiece
from sentencepiece import sentencepiece_model_pb2 as proto

import make_golden
import reference
from texts import TEXTS

HERE = pathlib.Path(__file__).parent
NORMAL, UNKNOWN, CONTROL, USER = 1, 2, 3, 4
SMALL = {
    # name: (space prefix, control tokens, user-defined tokens)
    "spm-prefix": (True, ["<|im_start|>", "<|im_end|>"], ["<tool>", "</tool>"]),
    "spm-plain": (False, ["<|im_start|>", "<|im_end|>", "<|endoftext|>"],
                  ["\n", "\n\n", "\n\n\n", "\u2581" * 2, "\u2581" * 3, "\u2581" * 4, "<tool>"]),
}


def train(prefix, control, user):
    made = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter([line for _, text in TEXTS for line in re.findall(r".+\n?", text)
                                if "\0" not in line]),
        model_writer=made, model_type="bpe", vocab_size=1100, byte_fallback=True,
        character_coverage=0.98, normalization_rule_name="identity", add_dummy_prefix=prefix,
        remove_extra_whitespaces=False, control_symbols=control, user_defined_symbols=user,
        hard_vocab_limit=False, minloglevel=2, allow_whitespace_only_pieces=True)
    model = proto.ModelProto.FromString(made.getvalue())
    pieces = model.pieces
    return {
        "general.architecture": "llama",
        "tokenizer.ggml.model": "llama",
        "tokenizer.ggml.tokens": [p.piece.replace("\u2581", " ") if p.type == USER else p.piece
                                  for p in pieces],
        "tokenizer.ggml.scores": [float(p.score) for p in pieces],
        "tokenizer.ggml.token_type": [int(p.type) for p in pieces],
        "tokenizer.ggml.bos_token_id": 1,
        "tokenizer.ggml.eos_token_id": 2,
        "tokenizer.ggml.unknown_token_id": 0,
        "tokenizer.ggml.add_bos_token": True,
        "tokenizer.ggml.add_space_prefix": prefix,
    }


def build(meta):
    """The package's model from a file's metadata."""
    model = proto.ModelProto()
    rows = zip(meta["tokenizer.ggml.tokens"], meta["tokenizer.ggml.scores"],
               meta["tokenizer.ggml.token_type"])
    for i, (text, score, kind) in enumerate(rows):
        if i == meta["tokenizer.ggml.unknown_token_id"]:
            kind = UNKNOWN
        piece = text.replace(" ", "\u2581") if kind in (NORMAL, USER) else text
        model.pieces.add(piece=piece, score=score, type=kind)
    trainer, normal = model.trainer_spec, model.normalizer_spec
    trainer.model_type = proto.TrainerSpec.BPE
    trainer.byte_fallback = True
    trainer.unk_piece = meta["tokenizer.ggml.tokens"][meta["tokenizer.ggml.unknown_token_id"]]
    normal.name = "identity"
    normal.add_dummy_prefix = meta.get("tokenizer.ggml.add_space_prefix", True)
    normal.remove_extra_whitespaces = False
    normal.escape_whitespaces = True
    return sentencepiece.SentencePieceProcessor(model_proto=model.SerializeToString())


def golden(meta, fixture):
    encoder = build(meta)
    control = {t: i for i, (t, kind) in enumerate(zip(meta["tokenizer.ggml.tokens"],
                                                      meta["tokenizer.ggml.token_type"]))
               if kind == CONTROL}
    split = re.compile("(" + "|".join(map(re.escape, sorted(control, key=len, reverse=True))) + ")")

    def special(text):
        ids = []
        for part in split.split(text):
            ids += [control[part]] if part in control else encoder.encode(part)
        return ids

    extra = [("gemma turns", "<start_of_turn>user\nHi  there<end_of_turn>\n\n<start_of_turn>model\n"),
             ("tags", "<table><tr><td>1</td></tr></table>\n\t\t<ul>\n  <li>x</li></ul> </iframe>")]
    rows = [{"name": name, "text": text, "ids": encoder.encode(text), "special_ids": special(text)}
            for name, text in TEXTS + extra]
    return {"fixture": fixture, "pre": "sentencepiece",
            "prefix": meta.get("tokenizer.ggml.add_space_prefix", True), "texts": rows}


def main():
    for name, facts in SMALL.items():
        fixture = HERE / f"{name}.gguf"
        reference.write_meta(fixture, train(*facts))
        make_golden.write(HERE / f"{name}.json", golden(reference.read_meta(fixture), fixture.name))
    if len(sys.argv) > 1:
        make_golden.write(HERE / "gemma.json", golden(reference.read_meta(sys.argv[1]), None))


if __name__ == "__main__":
    main()

"""The independent reference: PyPI `tokenizers` built from what a GGUF file holds (vocabulary, merges,
token types, name of the pre-tokenizer), and a small reader and writer of GGUF metadata. Needs no hub."""
import struct

from tokenizers import AddedToken, Regex, Tokenizer, models, pre_tokenizers

CONTROL, USER = 3, 4
GPT2 = r"""'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"""
LLAMA3 = (r"""(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}|"""
          r""" ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+""")
QWEN2 = LLAMA3.replace(r"\p{N}{1,3}", r"\p{N}")


def pre_tokenizer(name):
    level = pre_tokenizers.ByteLevel
    if name == "gpt-2":
        return level(add_prefix_space=False, use_regex=True)
    if name == "smollm":
        return pre_tokenizers.Sequence([pre_tokenizers.Digits(individual_digits=True),
                                        level(add_prefix_space=False, use_regex=True)])
    pattern = {"llama-bpe": LLAMA3, "qwen2": QWEN2}[name]
    return pre_tokenizers.Sequence([pre_tokenizers.Split(Regex(pattern), "isolated", False),
                                    level(add_prefix_space=False, use_regex=False)])


def build(meta, special):
    """The tokenizer of a file's metadata. User-defined tokens are always recognised, control tokens only
    with `special`."""
    tokens, name = meta["tokenizer.ggml.tokens"], meta["tokenizer.ggml.pre"]
    types = meta["tokenizer.ggml.token_type"]
    merges = [tuple(m.split(" ")) for m in meta["tokenizer.ggml.merges"]]
    vocab = {t: i for i, t in enumerate(tokens)}
    made = Tokenizer(models.BPE(vocab=vocab, merges=merges, ignore_merges=name == "llama-bpe"))
    made.pre_tokenizer = pre_tokenizer(name)
    added = [t for t, kind in zip(tokens, types) if kind == USER or (special and kind == CONTROL)]
    if added:
        made.add_tokens([AddedToken(t, normalized=False) for t in added])
    return made


KINDS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}


def read_meta(path):
    with open(path, "rb") as f:
        def number(code):
            return struct.unpack("<" + code, f.read(struct.calcsize("<" + code)))[0]

        def text():
            return f.read(number("Q")).decode()

        def value(kind):
            if kind == 8:
                return text()
            if kind == 9:
                inner, count = number("I"), number("Q")
                return [value(inner) for _ in range(count)]
            return number(KINDS[kind])

        assert f.read(4) == b"GGUF"
        number("I"), number("Q")
        out = {}
        for _ in range(number("Q")):
            key = text()
            out[key] = value(number("I"))
        return out


def write_meta(path, meta):
    """A GGUF file of metadata alone. Values: str, bool, int (u32), list of str, list of int (i32), list
    of float (f32)."""
    def text(s):
        raw = s.encode()
        return struct.pack("<Q", len(raw)) + raw

    out = b"GGUF" + struct.pack("<IQQ", 3, 0, len(meta))
    for key, v in meta.items():
        out += text(key)
        if isinstance(v, str):
            out += struct.pack("<I", 8) + text(v)
        elif isinstance(v, bool):
            out += struct.pack("<IB", 7, v)
        elif isinstance(v, int):
            out += struct.pack("<II", 4, v)
        elif isinstance(v[0], str):
            out += struct.pack("<IIQ", 9, 8, len(v)) + b"".join(map(text, v))
        elif isinstance(v[0], float):
            out += struct.pack("<IIQ", 9, 6, len(v)) + struct.pack("<%df" % len(v), *v)
        else:
            out += struct.pack("<IIQ", 9, 5, len(v)) + b"".join(struct.pack("<i", i) for i in v)
    with open(path, "wb") as f:
        f.write(out)

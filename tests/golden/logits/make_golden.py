#!/usr/bin/env python3
"""Makes the golden logits: tiny random models as GGUF files, and what an independent float32 forward
pass says about them and about the default model.

Needs numpy only. It shares nothing with the C code: its own GGUF reader and writer, its own
(de)quantisation from the format's description, its own forward pass.

    make_golden.py OUT_DIR                 writes tiny-*.gguf and tiny-*.golden
    make_golden.py OUT_DIR --model FILE    also writes default.golden from the real model

Golden file, little-endian: b"LACGOLD1", u32 tokens, u32 rows, u32 top, tokens × u32 id, then for each
row u32 position, f32 log of the probability outside the list (-inf: none), top × (u32 id, f32
log-probability), most probable first.
"""
import argparse
import math
import os
import re
import struct

import numpy as np

F32, F16, Q4_0, Q4_1, Q8_0, BF16 = 0, 1, 2, 3, 8, 30
BLOCK = {F32: (1, 4), F16: (1, 2), BF16: (1, 2), Q4_0: (32, 18), Q4_1: (32, 20), Q8_0: (32, 34)}

# ---------------------------------------------------------------- quantised formats


def dequantise(raw, kind, count):
    """float32 values of `count` weights."""
    if kind == F32:
        return np.frombuffer(raw, "<f4", count).copy()
    if kind == F16:
        return np.frombuffer(raw, "<f2", count).astype(np.float32)
    if kind == BF16:
        return (np.frombuffer(raw, "<u2", count).astype(np.uint32) << 16).view(np.float32)
    weights, size = BLOCK[kind]
    blocks = np.frombuffer(raw, np.uint8, count // weights * size).reshape(-1, size)
    scale = blocks[:, 0:2].copy().view("<f2").astype(np.float32)
    if kind == Q8_0:
        return (scale * blocks[:, 2:].copy().view(np.int8).astype(np.float32)).reshape(-1)
    packed = blocks[:, 2:] if kind == Q4_0 else blocks[:, 4:]
    # The low nibbles are the first 16 weights of a block, the high ones the last 16.
    nibbles = np.concatenate([packed & 15, packed >> 4], axis=1).astype(np.float32)
    if kind == Q4_0:
        return (scale * (nibbles - 8)).reshape(-1)
    minimum = blocks[:, 2:4].copy().view("<f2").astype(np.float32)
    return (scale * nibbles + minimum).reshape(-1)


def quantise(values, kind):
    """Bytes of the values in a file's type; simple rounding, the exact choice does not matter."""
    values = np.ascontiguousarray(values, np.float32).reshape(-1)
    if kind == F32:
        return values.astype("<f4").tobytes()
    if kind == F16:
        return values.astype("<f2").tobytes()
    if kind == BF16:
        return ((values.view(np.uint32) + 0x8000) >> 16).astype("<u2").tobytes()
    rows = values.reshape(-1, 32)
    out = np.zeros((rows.shape[0], BLOCK[kind][1]), np.uint8)

    def put_half(at, column):
        out[:, at:at + 2] = column.astype("<f2").reshape(-1, 1).view(np.uint8)
        return column.astype("<f2").astype(np.float32).reshape(-1, 1)

    if kind == Q8_0:
        scale = put_half(0, np.abs(rows).max(1) / 127)
        out[:, 2:] = np.clip(np.rint(rows / scale), -127, 127).astype(np.int8).view(np.uint8)
        return out.tobytes()
    if kind == Q4_0:
        scale = put_half(0, np.abs(rows).max(1) / 7.5)
        q = np.clip(np.rint(rows / scale + 8), 0, 15).astype(np.uint8)
        out[:, 2:] = q[:, :16] | q[:, 16:] << 4
        return out.tobytes()
    low = rows.min(1)
    scale = put_half(0, (rows.max(1) - low) / 15)
    low = put_half(2, low)
    q = np.clip(np.rint((rows - low) / scale), 0, 15).astype(np.uint8)
    out[:, 4:] = q[:, :16] | q[:, 16:] << 4
    return out.tobytes()


# ---------------------------------------------------------------- GGUF

SCALARS = {0: "<B", 1: "<b", 2: "<H", 3: "<h", 4: "<I", 5: "<i", 6: "<f", 7: "<?", 10: "<Q",
           11: "<q", 12: "<d"}


class Reader:
    def __init__(self, path):
        self.raw = memoryview(open(path, "rb").read())
        self.at = 0
        if bytes(self.raw[:4]) != b"GGUF":
            raise SystemExit(path + ": no GGUF file")
        self.at = 4
        self.take("<I")
        tensors, keys = self.take("<Q"), self.take("<Q")
        self.meta = {}
        for _ in range(keys):
            name = self.text()
            self.meta[name] = self.value(self.take("<I"))
        infos = []
        for _ in range(tensors):
            name = self.text()
            dims = [self.take("<Q") for _ in range(self.take("<I"))]
            infos.append((name, dims, self.take("<I"), self.take("<Q")))
        align = self.meta.get("general.alignment", 32)
        start = (self.at + align - 1) // align * align
        self.tensors = {}
        for name, dims, kind, offset in infos:
            count = math.prod(dims)
            weights, size = BLOCK[kind]
            raw = self.raw[start + offset:start + offset + count // weights * size]
            self.tensors[name] = dequantise(raw, kind, count).reshape(dims[::-1])

    def take(self, code):
        value = struct.unpack_from(code, self.raw, self.at)[0]
        self.at += struct.calcsize(code)
        return value

    def text(self):
        length = self.take("<Q")
        self.at += length
        return bytes(self.raw[self.at - length:self.at]).decode("utf-8", "replace")

    def value(self, kind):
        if kind == 8:
            return self.text()
        if kind == 9:
            inner, count = self.take("<I"), self.take("<Q")
            return [self.value(inner) for _ in range(count)]
        return self.take(SCALARS[kind])


def gguf_text(text):
    raw = text.encode()
    return struct.pack("<Q", len(raw)) + raw


def gguf_value(value):
    if isinstance(value, bool):
        return struct.pack("<I?", 7, value)
    if isinstance(value, int):
        return struct.pack("<II", 4, value)
    if isinstance(value, float):
        return struct.pack("<If", 6, value)
    if isinstance(value, str):
        return struct.pack("<I", 8) + gguf_text(value)
    if isinstance(value[0], str):
        return struct.pack("<IIQ", 9, 8, len(value)) + b"".join(gguf_text(v) for v in value)
    return struct.pack("<IIQ", 9, 5, len(value)) + struct.pack("<%di" % len(value), *value)


def write_gguf(path, meta, tensors):
    """tensors: name → (float array, type)."""
    head = b"GGUF" + struct.pack("<IQQ", 3, len(tensors), len(meta))
    for key, value in meta.items():
        head += gguf_text(key) + gguf_value(value)
    body = b""
    for name, (values, kind) in tensors.items():
        head += gguf_text(name) + struct.pack("<I", values.ndim)
        head += b"".join(struct.pack("<Q", n) for n in values.shape[::-1])
        head += struct.pack("<IQ", kind, len(body))
        body += quantise(values, kind)
        body += b"\0" * (-len(body) % 32)
    head += b"\0" * (-len(head) % 32)
    with open(path, "wb") as out:
        out.write(head + body)


# ---------------------------------------------------------------- forward pass


def rms_norm(x, weight, eps):
    return x / np.sqrt(np.mean(x * x, axis=-1, keepdims=True) + np.float32(eps)) * weight


def rotate(x, base, halves):
    """x [tokens][heads][dim]; turns pairs (2i, 2i+1), or (i, i + dim/2) when `halves`."""
    tokens, _, dim = x.shape
    angle = np.arange(tokens)[:, None] * base ** (-np.arange(0, dim, 2) / dim)
    cos, sin = np.cos(angle)[:, None].astype(np.float32), np.sin(angle)[:, None].astype(np.float32)
    first = slice(0, dim // 2) if halves else slice(0, dim, 2)
    second = slice(dim // 2, dim) if halves else slice(1, dim, 2)
    out = np.empty_like(x)
    out[..., first] = x[..., first] * cos - x[..., second] * sin
    out[..., second] = x[..., first] * sin + x[..., second] * cos
    return out


def attention(q, k, v):
    """Causal softmax attention; q [T][H][D], k and v [T][G][D], H a multiple of G."""
    tokens, heads, dim = q.shape
    share = heads // k.shape[1]
    future = np.triu(np.full((tokens, tokens), -np.inf, np.float32), 1)
    out = np.empty_like(q)
    for h in range(heads):
        score = q[:, h] @ k[:, h // share].T / np.float32(math.sqrt(dim)) + future
        score = np.exp(score - score.max(1, keepdims=True))
        out[:, h] = score / score.sum(1, keepdims=True) @ v[:, h // share]
    return out.reshape(tokens, heads * dim)


def log_probs(model, ids):
    """float64 log-probabilities [tokens][vocab] after each token."""
    meta, t = model.meta, model.tensors
    arch = meta["general.architecture"]

    def fact(name, default=None):
        return meta.get(arch + "." + name, default)

    eps = fact("attention.layer_norm_rms_epsilon")
    heads = fact("attention.head_count")
    groups = fact("attention.head_count_kv", heads)
    base = fact("rope.freq_base", 10000.0)
    halves = arch != "llama"
    h = t["token_embd.weight"][ids]
    for layer in range(fact("block_count")):
        w = {n[len("blk.%d." % layer):]: a for n, a in t.items() if n.startswith("blk.%d." % layer)}
        x = rms_norm(h, w["attn_norm.weight"], eps)
        q, k, v = (x @ w["attn_%s.weight" % n].T + w.get("attn_%s.bias" % n, np.float32(0))
                   for n in "qkv")
        q = q.reshape(len(ids), heads, -1)
        k = k.reshape(len(ids), groups, -1)
        v = v.reshape(len(ids), groups, -1)
        if "attn_q_norm.weight" in w:
            q = rms_norm(q, w["attn_q_norm.weight"], eps)
            k = rms_norm(k, w["attn_k_norm.weight"], eps)
        h = h + attention(rotate(q, base, halves), rotate(k, base, halves), v) \
            @ w["attn_output.weight"].T
        x = rms_norm(h, w["ffn_norm.weight"], eps)
        gate = x @ w["ffn_gate.weight"].T
        h = h + (gate / (1 + np.exp(-gate)) * (x @ w["ffn_up.weight"].T)) @ w["ffn_down.weight"].T
    head = t.get("output.weight", t["token_embd.weight"])
    logits = (rms_norm(h, t["output_norm.weight"], eps) @ head.T).astype(np.float64)
    top = logits.max(1, keepdims=True)
    return logits - top - np.log(np.exp(logits - top).sum(1, keepdims=True))


def write_golden(path, ids, logp, rows, top):
    with open(path, "wb") as out:
        out.write(b"LACGOLD1" + struct.pack("<III", len(ids), len(rows), top))
        out.write(np.asarray(ids, "<u4").tobytes())
        for row in rows:
            order = np.argsort(-logp[row], kind="stable")
            rest = np.exp(logp[row][order[top:]]).sum()
            out.write(struct.pack("<If", row, math.log(rest) if rest > 0 else -math.inf))
            pairs = np.empty(top, [("id", "<u4"), ("logp", "<f4")])
            pairs["id"], pairs["logp"] = order[:top], logp[row][order[:top]]
            out.write(pairs.tobytes())


# ---------------------------------------------------------------- tiny models


def byte_letters():
    """The printable letter that stands for each byte in a byte-level vocabulary."""
    keep = [*range(33, 127), *range(161, 173), *range(174, 256)]
    letters, spare = {}, 256
    for b in range(256):
        letters[b] = chr(b if b in keep else spare)
        spare += b not in keep
    return letters


def tiny_vocabulary():
    letters = byte_letters()
    tokens = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"] + [letters[b] for b in range(256)]
    merges = []
    for merge in ["t h", "th e", "i n", "e r", "a n", "o n", "r e", "Ġ t", "Ġt h", "Ġ a", "in g",
                  "Ġ w", "Ġ s", "e n", "o r", "e s", "Ġth e", "Ġ o", "Ġo f", "a t", "e d", "an d"]:
        merges.append(merge)
        tokens.append(merge.replace(" ", ""))
    types = [3, 3, 3] + [1] * (len(tokens) - 3)
    return tokens, merges, types


def tiny_model(path, arch, kind, embed_kind, hidden, heads, groups, ffn, layers, tied, seed):
    rng = np.random.default_rng(seed)
    tokens, merges, types = tiny_vocabulary()
    dim = 16
    tensors = {}

    def matrix(name, rows, cols, gain=1.0, kind=kind):
        tensors[name] = (rng.standard_normal((rows, cols), np.float32) * gain / math.sqrt(cols),
                         kind)

    def vector(name, size, centre, spread):
        tensors[name] = ((centre + spread * rng.standard_normal(size)).astype(np.float32), F32)

    matrix("token_embd.weight", len(tokens), hidden, 2.0, embed_kind)
    for layer in range(layers):
        p = "blk.%d." % layer
        vector(p + "attn_norm.weight", hidden, 1, 0.1)
        matrix(p + "attn_q.weight", heads * dim, hidden, 1.5)
        matrix(p + "attn_k.weight", groups * dim, hidden, 1.5)
        matrix(p + "attn_v.weight", groups * dim, hidden)
        if arch == "qwen2":
            for n, width in (("q", heads), ("k", groups), ("v", groups)):
                vector(p + "attn_%s.bias" % n, width * dim, 0, 0.3)
        if arch == "qwen3":
            vector(p + "attn_q_norm.weight", dim, 1, 0.2)
            vector(p + "attn_k_norm.weight", dim, 1, 0.2)
        matrix(p + "attn_output.weight", hidden, heads * dim)
        vector(p + "ffn_norm.weight", hidden, 1, 0.1)
        matrix(p + "ffn_gate.weight", ffn, hidden)
        matrix(p + "ffn_up.weight", ffn, hidden)
        matrix(p + "ffn_down.weight", hidden, ffn)
    vector("output_norm.weight", hidden, 1, 0.1)
    if not tied:
        matrix("output.weight", len(tokens), hidden, 2.0)
    meta = {
        "general.architecture": arch, "general.name": "tiny", "general.alignment": 32,
        arch + ".block_count": layers, arch + ".context_length": 256,
        arch + ".embedding_length": hidden, arch + ".feed_forward_length": ffn,
        arch + ".attention.head_count": heads, arch + ".attention.head_count_kv": groups,
        arch + ".attention.key_length": dim, arch + ".attention.value_length": dim,
        arch + ".attention.layer_norm_rms_epsilon": 1e-5, arch + ".rope.freq_base": 10000.0,
        arch + ".rope.dimension_count": dim, arch + ".vocab_size": len(tokens),
        "tokenizer.ggml.model": "gpt2", "tokenizer.ggml.pre": "smollm",
        "tokenizer.ggml.tokens": tokens, "tokenizer.ggml.token_type": types,
        "tokenizer.ggml.merges": merges, "tokenizer.ggml.bos_token_id": 1,
        "tokenizer.ggml.eos_token_id": 2, "tokenizer.ggml.add_bos_token": False,
    }
    write_gguf(path, meta, tensors)


TINY = {
    #                 arch     weights embed hidden heads groups ffn layers tied
    "llama-f32":     ("llama", F32, F32, 32, 2, 1, 64, 2, True),
    "llama-f16":     ("llama", F16, F16, 64, 4, 2, 96, 2, False),
    "llama-q8_0":    ("llama", Q8_0, Q8_0, 96, 6, 2, 160, 2, True),
    "llama-q4_0":    ("llama", Q4_0, Q4_0, 96, 6, 3, 160, 3, False),
    "llama-q4_1":    ("llama", Q4_1, Q8_0, 96, 6, 2, 160, 3, True),
    "qwen2-bf16":    ("qwen2", BF16, BF16, 64, 4, 2, 96, 2, False),
    "qwen3-q4_0":    ("qwen3", Q4_0, Q8_0, 64, 6, 2, 96, 3, True),
}

# ---------------------------------------------------------------- ids of a text for the real model

TEXT = """The keeper of the northern light wrote one line a day. On Monday the fog came in before noon
and stayed; the horn ran eleven hours and used 4.2 litres of oil. On Tuesday a small boat asked the
way to the harbour, and he answered with the lamp, three short and one long, because the radio had
been silent since March. Then he counted what was left on the shelves: 14 tins of peas, 6 of milk,
half a sack of flour, and the letters he had not yet opened.

def total(items):
    return sum(price * count for price, count in items)

2031-03-05 07:14:09 level=warn unit=lamp msg="bulb current low" amps=1.84
2031-03-05 07:14:11 level=info unit=lamp msg="spare bulb selected" amps=2.20

"Is the sea always this loud?" asked the child. "Only when you listen," he said."""


def encode(model, text):
    """Greedy merges over a rough word split: the ids need only be a plausible text."""
    ids = {t: i for i, t in enumerate(model.meta["tokenizer.ggml.tokens"])}
    rank = {m: i for i, m in enumerate(model.meta["tokenizer.ggml.merges"])}
    letters = byte_letters()
    out = []
    for word in re.findall(r" ?[A-Za-z]+|\d| ?[^\sA-Za-z\d]+|\s+(?!\S)|\s+", text):
        parts = [letters[b] for b in word.encode()]
        while len(parts) > 1:
            best = min(range(len(parts) - 1),
                       key=lambda i: rank.get(parts[i] + " " + parts[i + 1], math.inf))
            if parts[best] + " " + parts[best + 1] not in rank:
                break
            parts[best:best + 2] = [parts[best] + parts[best + 1]]
        out += [ids[p] for p in parts]
    return out


def main():
    options = argparse.ArgumentParser()
    options.add_argument("out_dir")
    options.add_argument("--model")
    options = options.parse_args()
    for seed, (name, facts) in enumerate(TINY.items()):
        path = os.path.join(options.out_dir, "tiny-" + name)
        tiny_model(path + ".gguf", *facts, seed + 1)
        model = Reader(path + ".gguf")
        vocab = len(model.tensors["token_embd.weight"])
        ids = np.random.default_rng(100 + seed).integers(3, vocab, 100).tolist()
        rows = [0, 1, 6, 15, 30, 31, 32, 33, 47, 62, 63, 64, 65, 80, 99]
        write_golden(path + ".golden", ids, log_probs(model, ids), rows, vocab)
    if options.model:
        model = Reader(options.model)
        ids = encode(model, TEXT)
        logp = log_probs(model, ids)
        print("default: %d tokens, mean nll %.4f" %
              (len(ids), -np.mean([logp[i, ids[i + 1]] for i in range(len(ids) - 1)])))
        write_golden(os.path.join(options.out_dir, "default.golden"), ids, logp, range(len(ids)), 64)


main()

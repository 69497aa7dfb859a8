#!/usr/bin/env python3
"""Makes the golden logits: tiny random models as GGUF files, and what an independent float32 forward
pass says about them and about the default model.

Needs numpy only. It shares nothing with the C code: its own GGUF reader and writer, its own
(de)quantisation from the format's description, its own forward pass.

    make_golden.py OUT_DIR                 writes tiny-*.gguf, tiny-*.golden and tiny-*.mask-*.golden
    make_golden.py OUT_DIR --model FILE    also writes default.golden from the default model
    make_golden.py OUT_DIR --gemma FILE    also writes gemma.golden from Gemma 3 270M (needs 4 GB)

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

F32, F16, Q4_0, Q4_1, Q5_0, Q5_1, Q8_0, Q4_K, Q5_K, Q6_K, BF16 = 0, 1, 2, 3, 6, 7, 8, 12, 13, 14, 30
BLOCK = {F32: (1, 4), F16: (1, 2), BF16: (1, 2), Q4_0: (32, 18), Q4_1: (32, 20), Q5_0: (32, 22),
         Q5_1: (32, 24), Q8_0: (32, 34), Q4_K: (256, 144), Q5_K: (256, 176), Q6_K: (256, 210)}

# ---------------------------------------------------------------- quantised formats


def half(blocks, at):
    return blocks[:, at:at + 2].copy().view("<f2").astype(np.float32)


def bits(packed, width):
    """Each byte's `width`-bit fields, lowest first: [blocks][8/width][bytes]."""
    shifts = np.arange(0, 8, width, dtype=np.uint8)[None, :, None]
    return packed[:, None, :] >> shifts & ((1 << width) - 1)


def fifth_bits(packed):
    """[blocks][32]: bit i of the 32-bit mask is weight i's."""
    return np.unpackbits(packed, axis=1, bitorder="little")


def scales_of_k(packed):
    """The eight 6-bit scales and eight 6-bit minima in 12 bytes: the first four of each whole in
    bytes 0-3 and 4-7, the others' low nibbles in bytes 8-11 with their top two bits above the first
    four."""
    a, b, c = packed[:, 0:4], packed[:, 4:8], packed[:, 8:12]
    scale = np.concatenate([a & 63, c & 15 | a >> 6 << 4], axis=1)
    minimum = np.concatenate([b & 63, c >> 4 | b >> 6 << 4], axis=1)
    return scale.astype(np.float32), minimum.astype(np.float32)


def dequantise_k(blocks, kind):
    count = len(blocks)
    if kind == Q6_K:
        low, high, scale = blocks[:, 0:128], blocks[:, 128:192], blocks[:, 192:208].copy()
        # Each half of 128 weights: 64 bytes of low nibbles, 32 bytes with four 2-bit tops.
        q = np.empty((count, 2, 4, 32), np.int32)
        for h in range(2):
            nibbles = bits(low[:, 64 * h:64 * h + 64], 4).reshape(count, 4, 32)
            q[:, h] = nibbles | bits(high[:, 32 * h:32 * h + 32], 2).astype(np.int32) << 4
        q = q.reshape(count, 16, 16) - 32
        scale = half(blocks, 208) * scale.view(np.int8).astype(np.float32)
        return (scale[:, :, None] * q).astype(np.float32).reshape(-1)
    scale, minimum = scales_of_k(blocks[:, 4:16])
    packed = blocks[:, 16:144] if kind == Q4_K else blocks[:, 48:176]
    # 32 bytes hold two groups of 32 weights, the low nibbles first.
    q = bits(packed.reshape(-1, 32), 4).reshape(count, 8, 32).astype(np.int32)
    if kind == Q5_K:
        q |= bits(blocks[:, 16:48], 1).astype(np.int32) << 4
    scale, minimum = half(blocks, 0) * scale, half(blocks, 2) * minimum
    return (scale[:, :, None] * q - minimum[:, :, None]).astype(np.float32).reshape(-1)


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
    if kind in (Q4_K, Q5_K, Q6_K):
        return dequantise_k(blocks, kind)
    scale = half(blocks, 0)
    if kind == Q8_0:
        return (scale * blocks[:, 2:].copy().view(np.int8).astype(np.float32)).reshape(-1)
    packed = blocks[:, -16:]
    # The low nibbles are the first 16 weights of a block, the high ones the last 16.
    nibbles = np.concatenate([packed & 15, packed >> 4], axis=1).astype(np.float32)
    if kind == Q4_0:
        return (scale * (nibbles - 8)).reshape(-1)
    if kind == Q5_0:
        return (scale * (nibbles + 16 * fifth_bits(blocks[:, 2:6]) - 16)).reshape(-1)
    if kind == Q5_1:
        nibbles += 16 * fifth_bits(blocks[:, 4:8])
    return (scale * nibbles + half(blocks, 2)).reshape(-1)


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


def frequencies(dim, base, fact, divisors):
    """How far each pair turns a position, and what the pairs are multiplied by, as the papers have it:
    position interpolation, YaRN's NTK-by-parts, Llama 3's table."""
    frequency = base ** (-np.arange(0, dim, 2) / dim)
    kind, factor = fact("rope.scaling.type", "none"), fact("rope.scaling.factor", 1.0)
    magnitude = 1.0
    if divisors is not None:
        frequency = frequency / divisors
    if kind == "linear":
        frequency = frequency / factor
    if kind == "yarn":
        original = fact("rope.scaling.original_context_length")

        def pair_of(rotations):
            return dim * math.log(original / (rotations * 2 * math.pi)) / (2 * math.log(base))

        low = max(math.floor(pair_of(fact("rope.scaling.yarn_beta_fast", 32.0))), 0)
        high = min(math.ceil(pair_of(fact("rope.scaling.yarn_beta_slow", 1.0))), dim - 1)
        gamma = 1 - np.clip((np.arange(dim // 2) - low) / max(high - low, 0.001), 0, 1)
        frequency = (1 - gamma) * frequency / factor + gamma * frequency
        magnitude = (0.1 * math.log(factor) + 1) * fact("rope.scaling.attn_factor", 1.0)
    return frequency, magnitude


def rotate(x, turn, halves):
    """x [tokens][heads][dim]; turns pairs (2i, 2i+1), or (i, i + dim/2) when `halves`."""
    tokens, _, dim = x.shape
    frequency, magnitude = turn
    angle = np.arange(tokens)[:, None] * frequency
    cos, sin = ((magnitude * f(angle))[:, None].astype(np.float32) for f in (np.cos, np.sin))
    first = slice(0, dim // 2) if halves else slice(0, dim, 2)
    second = slice(dim // 2, dim) if halves else slice(1, dim, 2)
    out = np.empty_like(x)
    out[..., first] = x[..., first] * cos - x[..., second] * sin
    out[..., second] = x[..., first] * sin + x[..., second] * cos
    return out


def attention(q, k, v, window, scale):
    """Causal softmax attention; q [T][H][D], k and v [T][G][D], H a multiple of G. A window of n sees
    its own position and the n - 1 before it; 0 sees all."""
    tokens, heads, dim = q.shape
    share = heads // k.shape[1]
    hidden = np.triu(np.full((tokens, tokens), -np.inf, np.float32), 1)
    if window:
        hidden += np.tril(np.full((tokens, tokens), -np.inf, np.float32), -window)
    out = np.empty_like(q)
    for h in range(heads):
        score = q[:, h] @ k[:, h // share].T * np.float32(scale) + hidden
        score = np.exp(score - score.max(1, keepdims=True))
        out[:, h] = score / score.sum(1, keepdims=True) @ v[:, h // share]
    return out.reshape(tokens, heads * dim)


def silu(x):
    return x / (1 + np.exp(-x))


def gelu_tanh(x):
    return 0.5 * x * (1 + np.tanh(np.float32(math.sqrt(2 / math.pi)) * (x + 0.044715 * x * x * x)))


def experts(x, w, fact):
    """Softmax over all experts, the most probable ones, their weights made to sum to 1 if the file says so."""
    score = x @ w["ffn_gate_inp.weight"].T
    p = np.exp(score - score.max(1, keepdims=True))
    p /= p.sum(1, keepdims=True)
    out = np.zeros_like(x)
    for row in range(len(x)):
        picked = np.argsort(-p[row], kind="stable")[:fact("expert_used_count")]
        weight = p[row, picked]
        if fact("expert_weights_norm", True):
            weight = weight / weight.sum()
        for e, g in zip(picked, weight * np.float32(fact("expert_weights_scale", 1.0))):
            gate, up, down = (w["ffn_%s_exps.weight" % n][e] for n in ("gate", "up", "down"))
            out[row] += g * (down @ (silu(gate @ x[row]) * (up @ x[row])))
    return out


def of_layer(value, layer):
    return value[layer] if isinstance(value, list) else value


def hidden_states(model, ids, masked):
    """What the last norm gives, [tokens][hidden]; `masked` units add nothing."""
    meta, t = model.meta, model.tensors
    arch = meta["general.architecture"]
    gemma = arch == "gemma3"

    def fact(name, default=None):
        return meta.get(arch + "." + name, default)

    eps = fact("attention.layer_norm_rms_epsilon")
    halves = arch not in ("llama", "deci")
    h = t["token_embd.weight"][ids]
    if gemma:
        h = h * np.float32(math.sqrt(h.shape[1]))
    for layer in range(fact("block_count")):
        w = {n[len("blk.%d." % layer):]: a for n, a in t.items() if n.startswith("blk.%d." % layer)}
        dim, window = fact("attention.key_length", h.shape[1] // of_layer(fact("attention.head_count"), 0)), 0
        turn = frequencies(dim, fact("rope.freq_base", 10000.0), fact, t.get("rope_freqs.weight"))
        if gemma and layer % 6 != 5:
            # Layers with a window turn as they were trained, whatever stretches the others.
            turn = frequencies(dim, 10000.0, lambda name, default: default, None)
            window = fact("attention.sliding_window")
        # Not every deci layer has both units.
        if "attn_norm.weight" in w and ("A", layer) not in masked:
            x = rms_norm(h, w["attn_norm.weight"], eps)
            q, k, v = (x @ w["attn_%s.weight" % n].T + w.get("attn_%s.bias" % n, np.float32(0))
                       for n in "qkv")
            q = q.reshape(len(ids), of_layer(fact("attention.head_count"), layer), -1)
            groups = of_layer(fact("attention.head_count_kv"), layer)
            k = k.reshape(len(ids), groups, -1)
            v = v.reshape(len(ids), groups, -1)
            if "attn_q_norm.weight" in w:
                q = rms_norm(q, w["attn_q_norm.weight"], eps)
                k = rms_norm(k, w["attn_k_norm.weight"], eps)
            x = attention(rotate(q, turn, halves), rotate(k, turn, halves), v, window,
                          1 / math.sqrt(q.shape[2])) @ w["attn_output.weight"].T
            h = h + (rms_norm(x, w["post_attention_norm.weight"], eps) if gemma else x)
        if "ffn_norm.weight" in w and ("F", layer) not in masked:
            x = rms_norm(h, w["ffn_norm.weight"], eps)
            act = gelu_tanh if gemma else silu
            if "ffn_gate_inp.weight" in w:
                x = experts(x, w, fact)
            else:
                x = (act(x @ w["ffn_gate.weight"].T) * (x @ w["ffn_up.weight"].T)) @ w["ffn_down.weight"].T
            h = h + (rms_norm(x, w["post_ffw_norm.weight"], eps) if gemma else x)
    return rms_norm(h, t["output_norm.weight"], eps)


def log_probs(model, ids, rows, masked=frozenset()):
    """float64 log-probabilities after the tokens at `rows`: row → [vocab]."""
    h = hidden_states(model, ids, masked)[rows]
    head = model.tensors.get("output.weight", model.tensors["token_embd.weight"])
    logits = (h @ head.T).astype(np.float64)
    top = logits.max(1, keepdims=True)
    logits -= top + np.log(np.exp(logits - top).sum(1, keepdims=True))
    return dict(zip(rows, logits))


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


def tiny_model(path, seed, arch, kind, embed_kind, hidden, heads, groups, ffn, layers, tied, keys={}):
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
        h, g, f = (of_layer(n, layer) for n in (heads, groups, ffn))
        if h:
            vector(p + "attn_norm.weight", hidden, 1, 0.1)
            matrix(p + "attn_q.weight", h * dim, hidden, 1.5)
            matrix(p + "attn_k.weight", g * dim, hidden, 1.5)
            matrix(p + "attn_v.weight", g * dim, hidden)
            if arch == "qwen2":
                for n, width in (("q", h), ("k", g), ("v", g)):
                    vector(p + "attn_%s.bias" % n, width * dim, 0, 0.3)
            if arch in ("qwen3", "qwen3moe", "gemma3"):
                vector(p + "attn_q_norm.weight", dim, 1, 0.2)
                vector(p + "attn_k_norm.weight", dim, 1, 0.2)
            matrix(p + "attn_output.weight", hidden, h * dim)
        if f:
            vector(p + "ffn_norm.weight", hidden, 1, 0.1)
        if "expert_count" in keys:
            count, width = keys["expert_count"], keys["expert_feed_forward_length"]
            matrix(p + "ffn_gate_inp.weight", count, hidden, 2.0, F32)
            for n, rows, cols in (("gate", width, hidden), ("up", width, hidden), ("down", hidden, width)):
                matrix(p + "ffn_%s_exps.weight" % n, count * rows, cols)
                values, kept = tensors[p + "ffn_%s_exps.weight" % n]
                tensors[p + "ffn_%s_exps.weight" % n] = (values.reshape(count, rows, cols), kept)
        elif f:
            matrix(p + "ffn_gate.weight", f, hidden)
            matrix(p + "ffn_up.weight", f, hidden)
            matrix(p + "ffn_down.weight", hidden, f)
        if arch == "gemma3":
            vector(p + "post_attention_norm.weight", hidden, 0.4, 0.1)
            vector(p + "post_ffw_norm.weight", hidden, 0.4, 0.1)
    vector("output_norm.weight", hidden, 1, 0.1)
    if not tied:
        matrix("output.weight", len(tokens), hidden, 2.0)
    if keys.get("llama3"):
        # Some frequencies as they are, some eight times slower, some between.
        tensors["rope_freqs.weight"] = (np.array([1, 1, 1, 2.5, 4, 8, 8, 8], np.float32), F32)
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
    if arch == "gemma3":
        meta[arch + ".rope.freq_base"] = 1000000.0
        meta[arch + ".attention.sliding_window"] = 21
    meta |= {"%s.%s" % (arch, key): value for key, value in keys.items() if key != "llama3"}
    write_gguf(path, meta, tensors)


TINY = {
    #                 arch     weights embed hidden heads groups ffn layers tied keys
    "llama-f32":     ("llama", F32, F32, 32, 2, 1, 64, 2, True),
    "llama-f16":     ("llama", F16, F16, 64, 4, 2, 96, 2, False),
    "llama-q8_0":    ("llama", Q8_0, Q8_0, 96, 6, 2, 160, 2, True),
    "llama-q4_0":    ("llama", Q4_0, Q4_0, 96, 6, 3, 160, 3, False),
    "llama-q4_1":    ("llama", Q4_1, Q8_0, 96, 6, 2, 160, 3, True),
    "qwen2-bf16":    ("qwen2", BF16, BF16, 64, 4, 2, 96, 2, False),
    "qwen3-q4_0":    ("qwen3", Q4_0, Q8_0, 64, 6, 2, 96, 3, True),
    # 13 layers: the 6th and the 12th see everything, the others 21 positions.
    "gemma3-f32":    ("gemma3", F32, F32, 32, 4, 1, 64, 7, True),
    "gemma3-q8_0":   ("gemma3", Q8_0, Q8_0, 64, 4, 2, 96, 13, True),
    "deci-q8_0":     ("deci", Q8_0, Q8_0, 64, [4, 0, 6, 2], [2, 0, 2, 1], [96, 160, 0, 64], 4, False),
    "llama-linear":  ("llama", F32, F32, 32, 2, 1, 64, 2, True,
                      {"rope.scaling.type": "linear", "rope.scaling.factor": 4.0}),
    "gemma3-linear": ("gemma3", F32, F32, 32, 2, 1, 64, 6, True,
                      {"rope.scaling.type": "linear", "rope.scaling.factor": 8.0}),
    "llama-factors": ("llama", F32, F32, 32, 2, 1, 64, 2, True, {"llama3": True}),
    "llama-yarn":    ("llama", F32, F32, 32, 2, 1, 64, 2, True,
                      {"rope.scaling.type": "yarn", "rope.scaling.factor": 4.0,
                       "rope.scaling.original_context_length": 64}),
    "qwen2-yarn":    ("qwen2", Q8_0, Q8_0, 64, 4, 2, 96, 2, True,
                      {"rope.scaling.type": "yarn", "rope.scaling.factor": 8.0, "rope.scaling.attn_factor": 0.9,
                       "rope.scaling.original_context_length": 32, "rope.scaling.yarn_beta_fast": 8.0,
                       "rope.scaling.yarn_beta_slow": 0.5}),
    "qwen3moe-f32":  ("qwen3moe", F32, F32, 32, 2, 1, 64, 2, True,
                      {"expert_count": 6, "expert_used_count": 2, "expert_feed_forward_length": 24}),
    "qwen3moe-q8_0": ("qwen3moe", Q8_0, Q8_0, 64, 4, 2, 96, 2, True,
                      {"expert_count": 9, "expert_used_count": 3, "expert_feed_forward_length": 32,
                       "expert_weights_norm": False, "expert_weights_scale": 1.5}),
    "qwen3moe-q4_1": ("qwen3moe", Q4_1, Q8_0, 64, 4, 2, 96, 3, False,
                      {"expert_count": 16, "expert_used_count": 4, "expert_feed_forward_length": 64}),
}

# Masks by tiny model: one attention, one FFN, several, a whole layer.
MASKS = {"llama-f32": ["A1", "F0"], "llama-q4_1": ["A1", "A0,F2"], "qwen2-bf16": ["A0", "A1,F1"],
         "qwen3-q4_0": ["A1", "A0,F0"], "qwen3moe-q4_1": ["F1", "A0,F2"]}


def mask_units(text):
    return {(unit[0], int(unit[1:])) for unit in text.split(",")}


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


def encode_sentencepiece(model, text):
    """Greedy merges by score over words that start with a space."""
    ids = {t: i for i, t in enumerate(model.meta["tokenizer.ggml.tokens"])}
    scores = model.meta["tokenizer.ggml.scores"]
    out = [model.meta["tokenizer.ggml.bos_token_id"]]
    for word in re.findall(r"\n+| {2,}|[ ]?[^ \n]+", text):
        parts = [word] if word.isspace() else list(word.replace(" ", "\u2581"))
        while len(parts) > 1:
            best = max(range(len(parts) - 1),
                       key=lambda i: scores[ids[parts[i] + parts[i + 1]]]
                       if parts[i] + parts[i + 1] in ids else -math.inf)
            if parts[best] + parts[best + 1] not in ids:
                break
            parts[best:best + 2] = [parts[best] + parts[best + 1]]
        out += [ids[p] for p in parts]
    return out


def real_model(path, golden, ids, rows):
    model = Reader(path)
    ids = ids(model)
    rows = rows(len(ids))
    logp = log_probs(model, ids, rows)
    print("%s: %d tokens, mean nll %.4f" %
          (golden, len(ids), -np.mean([logp[i][ids[i + 1]] for i in rows if i + 1 < len(ids)])))
    write_golden(golden, ids, logp, rows, 64)


def main():
    options = argparse.ArgumentParser()
    options.add_argument("out_dir")
    options.add_argument("--model")
    options.add_argument("--gemma")
    options = options.parse_args()
    for seed, (name, facts) in enumerate(TINY.items()):
        path = os.path.join(options.out_dir, "tiny-" + name)
        tiny_model(path + ".gguf", seed + 1, *facts)
        model = Reader(path + ".gguf")
        vocab = len(model.tensors["token_embd.weight"])
        ids = np.random.default_rng(100 + seed).integers(3, vocab, 100).tolist()
        rows = [0, 1, 6, 15, 30, 31, 32, 33, 47, 62, 63, 64, 65, 80, 99]
        write_golden(path + ".golden", ids, log_probs(model, ids, rows), rows, vocab)
        for mask in MASKS.get(name, []):
            write_golden("%s.mask-%s.golden" % (path, mask.replace(",", "-")), ids,
                         log_probs(model, ids, rows, mask_units(mask)), rows, vocab)
    if options.model:
        real_model(options.model, os.path.join(options.out_dir, "default.golden"),
                   lambda model: encode(model, TEXT), lambda count: list(range(count)))
    if options.gemma:
        # Three texts are longer than a window, and in other letters they are not copies.
        real_model(options.gemma, os.path.join(options.out_dir, "gemma.golden"),
                   lambda model: encode_sentencepiece(model, "\n\n".join([TEXT, TEXT.lower(), TEXT.upper()])),
                   lambda count: list(range(0, count, 10)))


main()

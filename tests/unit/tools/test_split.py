"""Split GGUF files through the whole engine: the same digest and the same logits, bit for bit, as the file that was
split; a set that does not hold together is refused by name. test_split.py PROGRAM TREE. Uses a small model and,
where it is present, the default one."""
import json
import os
import struct
import subprocess
import sys
import tempfile

program, tree = sys.argv[1:3]
SIZES = {0: 1, 1: 1, 2: 2, 3: 2, 4: 4, 5: 4, 6: 4, 7: 1, 10: 8, 11: 8, 12: 8}
folder = tempfile.TemporaryDirectory()


class Parser:
    """Just enough of the container to cut it: where keys and tensor infos lie."""

    def __init__(self, path):
        self.raw, self.at = open(path, "rb").read(), 24
        self.tensors_count, self.keys_count = struct.unpack_from("<QQ", self.raw, 8)
        self.align = 32
        for _ in range(self.keys_count):
            name = self.text()
            kind = self.number("<I")
            if name == b"general.alignment":
                self.align = struct.unpack_from("<I", self.raw, self.at)[0]
            self.skip(kind)
        self.keys = self.raw[24:self.at]
        self.tensors = []  # (info up to its offset, data)
        infos = []
        for _ in range(self.tensors_count):
            start = self.at
            self.text()
            dims = self.number("<I")
            self.at += 8 * dims + 4
            infos.append((self.raw[start:self.at], self.number("<Q")))
        data = -(-self.at // self.align) * self.align
        ends = sorted(offset for _, offset in infos[1:]) + [len(self.raw) - data]
        for info, offset in infos:
            end = min(e for e in ends if e > offset)
            self.tensors.append((info, self.raw[data + offset:data + end]))

    def number(self, code):
        value = struct.unpack_from(code, self.raw, self.at)[0]
        self.at += struct.calcsize(code)
        return value

    def text(self):
        length = self.number("<Q")
        self.at += length
        return self.raw[self.at - length:self.at]

    def skip(self, kind):
        if kind == 8:
            self.text()
        elif kind == 9:
            inner, count = self.number("<I"), self.number("<Q")
            if inner == 8:
                for _ in range(count):
                    self.text()
            else:
                self.at += SIZES[inner] * count
        else:
            self.at += SIZES[kind]


def key(name, code, kind, value):
    return struct.pack("<Q", len(name)) + name.encode() + struct.pack("<I", kind) + struct.pack(code, value)


def split(path, stem, parts, **bent):
    """Writes stem-0000N-of-0000M.gguf; the first has all keys, as llama.cpp's splitter does it."""
    source = Parser(path)
    step = -(-len(source.tensors) // parts)
    for no in range(parts):
        tensors = source.tensors[no * step:(no + 1) * step]
        keys = key("split.no", "<H", 2, bent.get("no", {}).get(no, no))
        keys += key("split.count", "<H", 2, bent.get("count", {}).get(no, parts))
        keys += key("split.tensors.count", "<i", 5, bent.get("tensors", source.tensors_count))
        if no == 0:
            keys = source.keys + keys
        else:
            keys += key("general.alignment", "<I", 4, source.align)
        count = 3 + (source.keys_count if no == 0 else 1)
        head = b"GGUF" + struct.pack("<IQQ", 3, len(tensors), count) + keys
        body = bytearray()
        for info, data in tensors:
            head += info + struct.pack("<Q", len(body))
            body += data + bytes(-len(data) % source.align)
        with open(f"{stem}-{no + 1:05}-of-{parts:05}.gguf", "wb") as out:
            out.write(head + bytes(-len(head) % source.align) + body)
    return f"{stem}-00001-of-{parts:05}.gguf"


def run(*words):
    return subprocess.run([program, *map(str, words)], capture_output=True, text=True, timeout=250)


def must(*words):
    done = run(*words)
    assert done.returncode == 0, (words, done.stderr)
    return done.stdout


def same(path, parts, ids):
    first = split(path, folder.name + "/whole", parts)
    facts = [json.loads(must("inspect", "--model", p, "--json")) for p in (path, first)]
    for name in ("digest", "parameters", "tensor_bytes", "tensors", "layers"):
        assert facts[0][name] == facts[1][name], name
    with open(folder.name + "/ids", "w") as out:
        out.write("\n".join(map(str, ids)))
    logits = []
    for i, p in enumerate((path, first)):
        must("score", "--model", p, "--ids-file", folder.name + "/ids", "--logprobs-file", f"{folder.name}/l{i}")
        logits.append(open(f"{folder.name}/l{i}", "rb").read())
    assert logits[0] == logits[1] and len(logits[0]) > 0, "other logits"
    return first


def refused(what, pattern, path):
    done = run("inspect", "--model", path)
    assert done.returncode == 1 and pattern in done.stderr, (what, done.stderr)


tiny = tree + "/tests/golden/logits/tiny-llama-factors.gguf"
for parts in (2, 3, 7):
    same(tiny, parts, range(5, 60))
first = same(tiny, 3, range(5, 60))
refused("another than the first", "open the first split", first.replace("00001-of", "00002-of"))
pulled = run("pull", "file://" + first.replace("00001-of", "00002-of"), "--out", folder.name + "/part")
assert pulled.returncode == 0 and "file 2 of 3 of a model" in pulled.stdout, pulled
os.rename(first.replace("00001-of", "00003-of"), folder.name + "/away")
refused("one is missing", "00003-of-00003.gguf: No such file", first)
refused("a wrong number", "key split.no: 0, expected 1", split(tiny, folder.name + "/no", 2, no={1: 0}))
refused("another count", "key split.count: 5, the first split has 2", split(tiny, folder.name + "/c", 2, count={1: 5}))
refused("tensors are missing", "key split.tensors.count: 99", split(tiny, folder.name + "/t", 2, tensors=99))
os.rename(split(tiny, folder.name + "/n", 2), folder.name + "/renamed.gguf")
refused("another name", "does not end in -00001-of-00002.gguf", folder.name + "/renamed.gguf")

cache = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
default = os.environ.get("LACUNA_TEST_MODEL") or cache + "/lacuna/SmolLM2-135M-Instruct.Q4_1.gguf"
if os.path.exists(default):
    same(default, 4, range(2000, 2020))
print("splits as they should be" + ("" if os.path.exists(default) else "; the default model is not here"))

"""The rules of proto/schema that keep protobuf-c safe, checked over what protoc itself understood.

usage: schema_rules.py PROTOC FOLDER | --self-test

Fails on: a message that contains itself, `required`, nesting deeper than 4, an enum without an unknown
zero, `string`, an unpacked list of numbers. Reads the descriptor set with a few lines of its own, so
that no package is needed."""

import pathlib
import subprocess
import sys
import tempfile

NESTING_MAX = 4
REQUIRED, REPEATED = 2, 3
STRING, GROUP, MESSAGE, BYTES = 9, 10, 11, 12


def fields(data):
    """(number, value) of one protobuf message; value is an int or bytes."""
    at = 0

    def varint():
        nonlocal at
        value = shift = 0
        while True:
            byte = data[at]
            at += 1
            value |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return value

    while at < len(data):
        key = varint()
        if key & 7 == 0:
            yield key >> 3, varint()
        elif key & 7 == 2:
            length = varint()
            yield key >> 3, data[at : at + length]
            at += length
        else:
            raise ValueError(f"wire type {key & 7} in a descriptor")


def one(data, number, default=None):
    found = default
    for n, value in fields(data):
        if n == number:
            found = value
    return found


def text(data, number):
    return one(data, number, b"").decode()


def collect(data, prefix, messages, enums):
    """DescriptorProto: 1 name, 2 field, 3 nested_type, 4 enum_type."""
    name = prefix + "." + text(data, 1)
    messages[name] = [value for n, value in fields(data) if n == 2]
    for n, value in fields(data):
        if n == 3:
            collect(value, name, messages, enums)
        elif n == 4:
            enums.append(value)


def depth(name, messages, path, errors):
    if name in path:
        errors.append(f"{name} contains itself: {' > '.join(path + [name])}")
        return 0
    below = 0
    for field in messages[name]:
        if one(field, 5) == MESSAGE:  # FieldDescriptorProto: 3 number, 4 label, 5 type, 6 type_name
            below = max(below, depth(text(field, 6), messages, path + [name], errors))
    return 1 + below


def check(descriptor_set):
    messages, enums, errors = {}, [], []
    for _, file in fields(descriptor_set):
        package = "." + text(file, 2)
        if text(file, 12) not in ("", "proto2"):
            errors.append(f"{text(file, 1)} is {text(file, 12)}, allowed: proto2")
        for n, value in fields(file):  # FileDescriptorProto: 4 message_type, 5 enum_type
            if n == 4:
                collect(value, package, messages, enums)
            elif n == 5:
                enums.append(value)
    for name, list_ in messages.items():
        for field in list_:
            where = f"{name}.{text(field, 1)}"
            label, type_ = one(field, 4), one(field, 5)
            if label == REQUIRED:
                errors.append(f"{where} is required, allowed: optional or repeated")
            if type_ in (STRING, GROUP):
                errors.append(f"{where} is a string or group, allowed: bytes")
            if label == REPEATED and type_ not in (MESSAGE, BYTES):
                if one(one(field, 8, b""), 2) != 1:  # FieldOptions: 2 packed
                    errors.append(f"{where} is a list of numbers that is not packed")
        levels = depth(name, messages, [], errors)
        if levels > NESTING_MAX:
            errors.append(f"{name} nests {levels} deep, allowed: {NESTING_MAX}")
    for enum in enums:  # EnumDescriptorProto: 2 value; EnumValueDescriptorProto: 1 name, 2 number
        zeros = [text(v, 1) for n, v in fields(enum) if n == 2 and one(v, 2, 0) == 0]
        if not zeros or not zeros[0].endswith("_UNKNOWN"):
            errors.append(f"enum {text(enum, 1)} has no …_UNKNOWN = 0")
    return messages, errors


def describe(protoc, folder):
    with tempfile.TemporaryDirectory() as temporary:
        out = pathlib.Path(temporary) / "set"
        names = sorted(p.name for p in pathlib.Path(folder).glob("*.proto"))
        subprocess.run(
            [protoc, f"--proto_path={folder}", f"--descriptor_set_out={out}", *names], check=True
        )
        return out.read_bytes()


BAD = {
    "required": "message A { required uint32 x = 1; }",
    "contains itself": "message A { optional B b = 1; } message B { repeated A a = 1; }",
    "nests 5 deep": "".join(f"message A{i} {{ optional A{i+1} x = 1; }} " for i in range(4))
    + "message A4 { optional uint32 x = 1; }",
    "no …_UNKNOWN": "enum E { E_ONE = 1; }",
    "string": "message A { optional string s = 1; }",
    "not packed": "message A { repeated uint32 x = 1; }",
}


def self_test():
    """Each rule catches a schema that breaks it."""
    for word, body in BAD.items():
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "bad.proto"
            path.write_text('syntax = "proto2"; package t; ' + body)
            _, errors = check(describe("protoc", folder))
        if not any(word in e for e in errors):
            sys.exit(f"not caught: {word}: {errors}")
    print(f"{len(BAD)} broken schemas, each caught")


def main():
    if sys.argv[1:] == ["--self-test"]:
        return self_test()
    messages, errors = check(describe(sys.argv[1], sys.argv[2]))
    for error in sorted(set(errors)):
        print(error, file=sys.stderr)
    if len(messages) < 20:
        sys.exit(f"only {len(messages)} messages found")
    print(f"{len(messages)} messages checked")
    sys.exit(1 if errors else 0)


main()

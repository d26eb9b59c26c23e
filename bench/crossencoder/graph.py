"""The cross-encoder as a graph for ONNX Runtime: one pair a run, int8 matrices with a scale a column (bench/minilm.py)."""

from __future__ import annotations

import numpy as np
import onnx
from onnx import TensorProto, helper

from bench.minilm import FUSED, LAYERS, LONGEST, FloatGraph, Graph

NAME = "minilm-cross-encoder"


class PairGraph(Graph):
    """Two texts, and a logit. The head keeps all its bits: it is small, and decides."""

    def embeddings(self) -> str:
        self.constant("positions", self.weights["embeddings.position_embeddings.weight"][:LONGEST])
        self.constant("kinds", self.weights["embeddings.token_type_embeddings.weight"])
        self.constant("start", np.zeros(1, np.int64))
        self.op("Shape", ["input_ids"], "length", start=1, end=2)
        self.op("Slice", ["positions", "start", "length"], "position")
        self.op("Gather", ["kinds", "token_type_ids"], "kind")
        self.op("Add", [self.words(), "position"], "placed")
        self.op("Add", ["placed", "kind"], "embedded")
        return self.norm("embedded", "embeddings.LayerNorm", "embeddings")

    def plain(self, x: str, name: str, out: str) -> str:
        product = self.op("MatMul", [x, self.constant(f"{name}.plain", self.weights[f"{name}.weight"].T)], f"{out}.product")
        return self.op("Add", [product, self.bias(out, [name])], out)

    def mean(self, x: str, share: str, out: str) -> str:
        """(1, 1, length) times (1, length, width)."""
        total = self.op("MatMul", [share, x], f"{out}.total")
        return self.op("Div", [total, self.op("ReduceSum", [share, "last"], f"{out}.count", keepdims=1)], out)

    def head(self, x: str) -> str:
        self.constant("last", np.array([2], np.int64))
        self.constant("middle", np.array([1], np.int64))
        self.constant("one", np.ones(1, np.float32))
        self.constant("first", np.zeros(1, np.int64))
        self.op("Cast", ["token_type_ids"], "kind.float", to=TensorProto.FLOAT)
        second = self.op("Unsqueeze", ["kind.float", "middle"], "second")
        first = self.op("Sub", ["one", second], "first.share")
        a, b = self.mean(x, first, "mean.one"), self.mean(x, second, "mean.other")
        self.op("Abs", [self.op("Sub", [a, b], "apart.signed")], "apart")
        self.op("Mul", [a, b], "agree")
        self.op("Slice", [x, "first", "middle", "middle"], "leading")
        self.op("Concat", ["apart", "agree", "leading"], "seen", axis=2)
        hidden = self.op("Gelu", [self.plain("seen", "head", "hidden.flat")], "hidden", domain=FUSED)
        self.plain(hidden, "same", "logit.deep")
        return self.op("Squeeze", ["logit.deep", "middle"], "logit")

    def model(self) -> onnx.ModelProto:
        x = self.embeddings()
        for n in range(LAYERS):
            x = self.layer(x, n, f"{n}.out")
        out = self.head(x)
        graph = helper.make_graph(
            self.nodes,
            NAME,
            [helper.make_tensor_value_info(name, TensorProto.INT64, [1, "length"]) for name in ("input_ids", "token_type_ids")],
            [helper.make_tensor_value_info(out, TensorProto.FLOAT, [1, 1])],
            self.constants,
        )
        opsets = [helper.make_opsetid("", 18), helper.make_opsetid(FUSED, 1)]
        return helper.make_model(graph, opset_imports=opsets, ir_version=9, producer_name="tiergate")


class FloatPairGraph(PairGraph):
    """The same with all 32 bits: to see what quantising costs."""

    dense = FloatGraph.dense
    words = FloatGraph.words

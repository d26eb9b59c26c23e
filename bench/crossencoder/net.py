"""MiniLM over two texts at once, in torch: plain functions over tensors by name, as the published weights name them.

    [CLS] one [SEP] other [SEP]  →  6 layers, in which each text sees the other  →  the mean of each text's states  →  a logit

The head sees how far the two means are apart, where they agree, and the first state. Word embeddings are not trained: what is
learned of some names then holds for the others.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from tokenizers import Tokenizer
from torch import Tensor
from torch.nn import functional

from bench.minilm import EPSILON, HEADS, LAYERS, WIDTH, Weights

HIDDEN = 128  # of the head
DROPOUT = 0.1
FROZEN = ("embeddings.word_embeddings.weight", "embeddings.position_embeddings.weight")

Tensors = dict[str, Tensor]
Ids = tuple[list[int], list[int]]  # tokens, and which of the two texts each belongs to


def tensors(weights: Weights, seed: int) -> Tensors:
    """The published ones, and a head that knows nothing yet."""
    torch.manual_seed(seed)
    made = {name: torch.tensor(value) for name, value in weights.items() if not name.startswith("pooler")}
    made["head.weight"] = torch.randn(HIDDEN, 3 * WIDTH) / (3 * WIDTH) ** 0.5
    made["head.bias"] = torch.zeros(HIDDEN)
    made["same.weight"] = torch.randn(1, HIDDEN) / HIDDEN**0.5
    made["same.bias"] = torch.zeros(1)
    for name, value in made.items():
        value.requires_grad_(name not in FROZEN)
    return made


def tokens(tokenizer: Tokenizer, one: str, other: str) -> Ids:
    read = tokenizer.encode(one, other)
    return read.ids, read.type_ids


def batch(rows: Sequence[Ids]) -> tuple[Tensor, Tensor, Tensor]:
    """Ids, texts and mask, padded to the longest."""
    length = max(len(ids) for ids, _ in rows)
    ids = torch.tensor([row + [0] * (length - len(row)) for row, _ in rows])
    kinds = torch.tensor([row + [0] * (length - len(row)) for _, row in rows])
    mask = torch.tensor([[True] * len(row) + [False] * (length - len(row)) for row, _ in rows])
    return ids, kinds, mask


def logits(w: Tensors, rows: Sequence[Ids], *, training: bool = False) -> Tensor:
    ids, kinds, mask = batch(rows)
    x = w["embeddings.word_embeddings.weight"][ids] + w["embeddings.token_type_embeddings.weight"][kinds]
    x = x + w["embeddings.position_embeddings.weight"][: ids.shape[1]]
    x = functional.dropout(norm(w, "embeddings.LayerNorm", x), DROPOUT, training)
    for n in range(LAYERS):
        x = layer(w, f"encoder.layer.{n}", x, mask, training=training)
    one, other = mean(x, mask & (kinds == 0)), mean(x, kinds == 1)
    seen = torch.cat([(one - other).abs(), one * other, x[:, 0]], dim=1)
    hidden = functional.gelu(dense(w, "head", functional.dropout(seen, DROPOUT, training)))
    return dense(w, "same", hidden)[:, 0]


def layer(w: Tensors, name: str, x: Tensor, mask: Tensor, *, training: bool) -> Tensor:
    def split(part: str) -> Tensor:
        return dense(w, f"{name}.attention.self.{part}", x).unflatten(-1, (HEADS, WIDTH // HEADS)).transpose(1, 2)

    heads = functional.scaled_dot_product_attention(split("query"), split("key"), split("value"), mask[:, None, None, :])
    attended = dense(w, f"{name}.attention.output.dense", heads.transpose(1, 2).flatten(2))
    x = norm(w, f"{name}.attention.output.LayerNorm", x + functional.dropout(attended, DROPOUT, training))
    wide = functional.gelu(dense(w, f"{name}.intermediate.dense", x))
    narrow = dense(w, f"{name}.output.dense", wide)
    return norm(w, f"{name}.output.LayerNorm", x + functional.dropout(narrow, DROPOUT, training))


def dense(w: Tensors, name: str, x: Tensor) -> Tensor:
    return functional.linear(x, w[f"{name}.weight"], w[f"{name}.bias"])


def norm(w: Tensors, name: str, x: Tensor) -> Tensor:
    return functional.layer_norm(x, (WIDTH,), w[f"{name}.weight"], w[f"{name}.bias"], EPSILON)


def mean(x: Tensor, of: Tensor) -> Tensor:
    share = of[:, :, None].to(x.dtype)
    return (x * share).sum(dim=1) / share.sum(dim=1)

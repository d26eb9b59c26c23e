"""A cross-encoder of a few hundred bytes, written by hand: what it says depends on the first word of the first question.

ONNX is protobuf; of that a number, some bytes and a length are all that is needed here.
"""

import json
from pathlib import Path

import numpy as np

INT64, FLOAT = 7, 1
SAID = {"yes": 4.0, "no": -4.0, "nan": float("nan"), "please": 1.0}
OTHERS = (
    "[UNK]", "[CLS]", "[SEP]", "How", "do", "I", "reset", "my", "password", "?", "long", "does", "a", "parcel", "take",
)  # fmt: skip # what any model must read
WORDS = {word: number for number, word in enumerate([*OTHERS, *SAID])}
LOGITS = (*(0.0 for _ in OTHERS), *SAID.values())
BYTES = 256


def varint(number: int) -> bytes:
    made = b""
    while number > 127:
        made, number = made + bytes([number % 128 + 128]), number // 128
    return made + bytes([number])


def field(number: int, value: int | bytes | str) -> bytes:
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    raw = value.encode() if isinstance(value, str) else value
    return varint(number << 3 | 2) + varint(len(raw)) + raw


def tensor(name: str, values: np.ndarray) -> bytes:
    kind = FLOAT if values.dtype == np.float32 else INT64
    return b"".join(field(1, size) for size in values.shape) + field(2, kind) + field(8, name) + field(9, values.tobytes())


def info(name: str, kind: int, *shape: int | str) -> bytes:
    dims = b"".join(field(1, field(1, size) if isinstance(size, int) else field(2, size)) for size in shape)
    return field(1, name) + field(2, field(1, field(1, kind) + field(2, dims)))


def node(op: str, inputs: list[str], output: str, axis: int | None = None) -> bytes:
    made = b"".join(field(1, name) for name in inputs) + field(2, output) + field(4, op)
    return made if axis is None else made + field(5, field(1, "axis") + field(3, axis) + field(20, 2))


def graph(logits: tuple[float, ...], output: str = "logit", fed: tuple[str, ...] = ("input_ids",)) -> bytes:
    """`output`: logit, probability, classes (the second is yes); `every`: one for each token."""
    nodes = [node("Gather", ["logits", "input_ids"], "every", 0), node("Gather", ["every", "place"], "logit", 1)]
    nodes += [node("Sigmoid", ["logit"], "probability"), node("Concat", ["none", "logit"], "classes", 1)]
    constants = [
        tensor("logits", np.array(logits, np.float32)),
        tensor("place", np.array([1])),
        tensor("none", np.zeros((1, 1), np.float32)),
    ]
    made = b"".join(field(1, it) for it in nodes) + field(2, "tiny") + b"".join(field(5, it) for it in constants)
    made += b"".join(field(11, info(name, INT64, 1, "length")) for name in fed)
    made += field(12, info(output, FLOAT, 1, "size"))
    return field(1, 9) + field(8, field(1, "") + field(2, 18)) + field(7, made)


def tokens(model: dict, special: dict[str, int], before: dict) -> str:
    def part(name: str, kind: int) -> dict:
        return {"Sequence": {"id": name, "type_id": kind}} if len(name) == 1 else {"SpecialToken": {"id": name, "type_id": kind}}

    pair = [part("[CLS]", 0), part("A", 0), part("[SEP]", 0), part("B", 1), part("[SEP]", 1)]
    ids = {name: {"id": name, "ids": [number], "tokens": [name]} for name, number in special.items()}
    return json.dumps({
        "version": "1.0", "truncation": None, "padding": None, "added_tokens": [], "normalizer": None, "pre_tokenizer": before,
        "post_processor": {"type": "TemplateProcessing", "single": pair[:3], "pair": pair, "special_tokens": ids},
        "decoder": None, "model": model,
    })  # fmt: skip


def folder(path: Path, model: bytes | None = None, **about: object) -> Path:
    """One that reads WORDS and says LOGITS."""
    words = {"type": "WordLevel", "vocab": WORDS, "unk_token": "[UNK]"}
    return written(
        path, graph(LOGITS) if model is None else model, tokens(words, {"[CLS]": 1, "[SEP]": 2}, {"type": "Whitespace"}), about
    )


def steady(path: Path, logit: float, **about: object) -> Path:
    """One that reads any text, byte by byte, and always says the same."""
    letters = [chr(number) for number in (*range(33, 127), *range(161, 173), *range(174, 256))]
    letters += [chr(256 + number) for number in range(BYTES - len(letters))]
    vocabulary = {letter: number for number, letter in enumerate(letters)} | {"[CLS]": BYTES, "[SEP]": BYTES + 1}
    model = {"type": "BPE", "vocab": vocabulary, "merges": []}
    before = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
    read = tokens(model, {"[CLS]": BYTES, "[SEP]": BYTES + 1}, before)
    return written(path, graph((logit,) * (BYTES + 2)), read, {"max_tokens": 512, **about})


def written(path: Path, model: bytes, tokenizer: str, about: dict) -> Path:
    path.mkdir(exist_ok=True)
    (path / "model.onnx").write_bytes(model)
    (path / "tokenizer.json").write_text(tokenizer)
    (path / "verifier.json").write_text(json.dumps({"name": "tiny", "max_tokens": 24, "threshold": 0.8, **about}))
    return path

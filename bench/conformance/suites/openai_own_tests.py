"""The tests within the openai package's source distribution, for the endpoints that vLLM has.

They are written for a server that makes answers up from OpenAI's API description, and check the types of what comes back.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from record import KEY, URL
from under_pytest import main

SOURCE = next(Path(sys.prefix, "source").iterdir())
FOLDER = "tests/api_resources/"
FILES = ("chat/test_completions.py", "test_completions.py", "test_embeddings.py", "test_models.py")


class Key:
    """They have a key of their own fixed, which no target knows."""

    def pytest_collection_finish(self) -> None:
        sys.modules["tests.conftest"].api_key = KEY  # type: ignore[attr-defined]


if __name__ == "__main__":
    os.environ["TEST_API_BASE_URL"] = URL
    os.chdir(SOURCE)
    sys.path.insert(0, str(SOURCE))
    raise SystemExit(main(["-n", "0", *(FOLDER + file for file in FILES)], Key(), folder=FOLDER))

"""What a suite's program is told by its environment, and how it tells the results: JSON lines, one a case.

Nothing but the standard library, since each suite runs in an environment of its own.
"""

from __future__ import annotations

import asyncio
import inspect
import json
import os
import traceback
import urllib.request
from collections.abc import Callable, Iterable
from typing import Any

URL = os.environ["CONFORMANCE_URL"]  # ends with /v1
KEY = os.environ["CONFORMANCE_KEY"]
MODEL = os.environ["CONFORMANCE_MODEL"]
NARROW_KEY = os.environ.get("CONFORMANCE_NARROW_KEY", "")  # may call MODEL alone, where the target has such keys
BACKENDS = os.environ["CONFORMANCE_BACKENDS"].split()  # the roots of the look-alikes of vLLM, for their faults and logs
_RESULTS = os.environ["CONFORMANCE_RESULTS"]
_WHY = 400


class Skip(Exception):  # noqa: N818 - as unittest's SkipTest
    """The case has nothing to try here; the message says why."""


def tell(case: str, outcome: str, why: str = "") -> None:
    """`outcome`: passed, failed or skipped."""
    with open(_RESULTS, "a", encoding="utf-8") as file:
        file.write(json.dumps({"case": case, "outcome": outcome, "why": why[:_WHY]}) + "\n")


def run(cases: Iterable[Callable[[], Any]]) -> None:
    """Each case in turn, coroutines on a loop of their own; what it raises is its result."""
    for case in cases:
        name = case.__name__
        fault(clear=True)
        try:
            done = case()
            if inspect.iscoroutine(done):
                asyncio.run(done)
            tell(name, "passed")
        except Skip as skip:
            tell(name, "skipped", str(skip))
        except BaseException as error:
            tell(name, "failed", _reason(error))
            if isinstance(error, KeyboardInterrupt):
                raise
    fault(clear=True)


def _reason(error: BaseException) -> str:
    """The exception, and the line of the case that met it."""
    frames = traceback.extract_tb(error.__traceback__)
    mine = [frame for frame in frames if os.path.dirname(frame.filename) == os.path.dirname(__file__) and frame.name != "run"]
    where = f" [{mine[-1].line}]" if mine else ""
    return " ".join(f"{type(error).__name__}: {error}{where}".split())


def fault(*, clear: bool = False, **rule: Any) -> None:
    """A rule of the look-alikes' `/fake/faults`, on each of them; `times` counts on each by itself."""
    for root in BACKENDS:
        data = None if clear else json.dumps(rule).encode()
        _call(root + "/fake/faults", "DELETE" if clear else "POST", data)


def log() -> list[dict[str, Any]]:
    """What the look-alikes were sent."""
    return [entry for root in BACKENDS for entry in json.loads(_call(root + "/fake/log?path=/v1/", "GET", None))]


def _call(url: str, method: str, data: bytes | None) -> bytes:
    request = urllib.request.Request(url, data, {"content-type": "application/json"}, method=method)
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    with opener.open(request, timeout=10) as answer:
        return bytes(answer.read())

"""One request before the run: a run against a wrong address, key or model measures nothing."""

from __future__ import annotations

from gateway.lab.load.sample import Outcome, Sample

BUSY = (429, 503, 529)  # a server that is there, and has no time: what a load test may have come for


class ProbeFailed(Exception):  # noqa: N818 - named for what happened
    """The message is one line for the user."""


def judge(sample: Sample, url: str) -> str | None:
    """None: go on. A text: go on, but say so. Raises ProbeFailed."""
    told = f": {sample.message}" if sample.message else ""
    if sample.ok:
        return None
    if sample.status in BUSY:
        return f"the probe was answered {sample.status}{told}"
    if sample.status in {401, 403}:
        raise ProbeFailed(f"{url} refuses the key ({sample.status}){told}; give one with --key, --keys or TIERGATE_API_KEY")
    if sample.status >= 400:
        raise ProbeFailed(f"{url} answers {sample.status}{told}")
    match sample.outcome:
        case Outcome.CONNECT_FAILED | Outcome.BROKEN | Outcome.TIMEOUT:
            raise ProbeFailed(f"no answer from {url}{told}")
        case Outcome.BAD_ANSWER:
            raise ProbeFailed(f"{url} answers, but not as an OpenAI-compatible server does")
    raise ProbeFailed(f"the probe failed at {url}: {sample.code}{told}")

"""What single tenants are given, or do, in a simulation: `--tenant NAME:KEY=VALUE,…`."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace

from gateway.lab.simulate.workload import Job
from limits.waiting import Priority

_CLASSES = {priority.name.lower(): priority for priority in Priority}


@dataclass(frozen=True, slots=True)
class Terms:
    """`times`: so many times the requests that it would send else. `reserved`: slots of its own. None: no limit, nothing."""

    times: int = 1
    weight: int = 1
    priority: Priority = Priority.STANDARD
    reserved: int | None = None
    tpm: int | None = None
    max_parallel: int | None = None


_NOTHING = Terms()
KEYS = ", ".join(one.name for one in fields(Terms))


class Tenants:
    """The terms of those that have any; `tpm`: of all that name none."""

    def __init__(self, given: Mapping[str, Terms] | None = None, tpm: int | None = None) -> None:
        self.given = given or {}
        self._others = replace(_NOTHING, tpm=tpm)
        self._tpm = tpm

    def of(self, tenant: str) -> Terms:
        terms = self.given.get(tenant, self._others)
        return terms if terms.tpm is not None else replace(terms, tpm=self._tpm)

    @property
    def limited(self) -> bool:
        """Whether the limiter has anything to do."""
        return any(terms.tpm or terms.max_parallel for terms in (self._others, *self.given.values()))

    def multiply(self, jobs: Sequence[Job], rng: random.Random) -> list[Job]:
        """The same requests and, between them, more of those tenants that send more, with lengths that they have anyway."""
        more = list(jobs)
        for tenant, terms in self.given.items():
            own = [job.length for job in jobs if job.length.tenant == tenant]
            more += [Job(rng.uniform(0.0, jobs[-1].at), rng.choice(own)) for _ in range((terms.times - 1) * len(own))]
        return sorted(more, key=lambda job: job.at)


def parsed(texts: Sequence[str]) -> dict[str, Terms]:
    """Raises ValueError, with what to tell the user."""
    return dict(_one(text) for text in texts)


def _one(text: str) -> tuple[str, Terms]:
    name, colon, rest = text.partition(":")
    if not name or not colon:
        raise ValueError(f"--tenant {text}: expected NAME:KEY=VALUE,… with keys {KEYS}")
    found: dict[str, int | Priority] = {}
    for pair in rest.split(","):
        key, _, value = pair.partition("=")
        if key not in Terms.__dataclass_fields__:
            raise ValueError(f"--tenant {text}: {key!r} is none of {KEYS}")
        if key == "priority":
            if value not in _CLASSES:
                raise ValueError(f"--tenant {text}: the priority is one of {', '.join(_CLASSES)}")
            found[key] = _CLASSES[value]
        elif value.isascii() and value.isdigit() and 0 < int(value) <= 1_000_000_000:
            found[key] = int(value)
        else:
            raise ValueError(f"--tenant {text}: {key} is a whole number, at least 1")
    return name, Terms(**found)  # type: ignore[arg-type] # each key has a value of its type

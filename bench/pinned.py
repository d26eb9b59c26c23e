"""Cores: one for the gateways, which take turns, and the others for the upstream and the clients, where there are two or more."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Cores:
    gateway: frozenset[int]
    others: frozenset[int]


def split() -> Cores | None:
    """None where there is one core, or no way to choose."""
    if sys.platform != "linux" or len(cores := sorted(os.sched_getaffinity(0))) < 2:
        return None
    return Cores(frozenset(cores[:1]), frozenset(cores[1:]))


@contextlib.contextmanager
def confined(cores: frozenset[int] | None) -> Iterator[None]:
    """The calling thread, and what is started within for as long as it lives. None: nothing is changed."""
    if cores is None:
        yield
        return
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, cores)
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)

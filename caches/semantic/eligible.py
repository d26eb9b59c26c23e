"""Placeholder."""

from __future__ import annotations


def ineligible(text: str, *, personal: bool = False) -> str | None:  # noqa: ARG001
    return None

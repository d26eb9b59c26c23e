"""A cached answer, as a message and as the value it is."""

from __future__ import annotations

from caches.types import Entry
from gateway.dispatch import messages as m

MOST_KEPT = 48 * 1024 * 1024
"""Bytes of an answer that travels between processes; a larger one is not kept."""


def kept_of(entry: Entry) -> m.Kept:
    return m.Kept(
        entry.id, entry.key, entry.tenant, entry.model, entry.tier, entry.endpoint, entry.body, entry.stored_at,
        entry.expires_at, entry.completion_tokens, entry.prompt_tokens, entry.generation, entry.tags, entry.began_at,
        entry.alias,
    )  # fmt: skip


def entry_of(kept: m.Kept) -> Entry:
    return Entry(
        kept.id, kept.key, kept.tenant, kept.model, kept.tier, kept.endpoint, kept.body, kept.stored_at,
        kept.expires_at, kept.completion_tokens, kept.prompt_tokens, kept.generation, kept.tags, kept.began_at,
        kept.alias,
    )  # fmt: skip

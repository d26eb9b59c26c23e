"""Where accounts of budgets are kept: in the vault for a successor of this process, in the journal for the next gateway.

A budget is in the vault as a balance under a limit of 0: nothing of it ever refills, so it is neither forgotten nor given away.
What is there is never older than what is in the journal. In both is what was settled.
"""

from __future__ import annotations

import asyncio

from limits.budget import Keeper, Used
from limits.journal import Journal
from limits.vault import Vault


class Keepers(Keeper):
    """Either may be missing."""

    def __init__(self, journal: Journal | None = None, vault: Vault | None = None) -> None:
        self._journal = journal
        self._vault = vault
        self._changed: dict[bytes, Used] = {}

    @property
    def state(self) -> str:
        """Of the journal: `ok`, or why it does not take what is used; empty: there is none."""
        return "" if self._journal is None else self._journal.trouble or "ok"

    async def start(self) -> None:
        """Raises JournalInUse."""
        if self._journal is not None:
            await asyncio.to_thread(self._journal.open)

    async def close(self) -> None:
        self.commit()
        if self._journal is not None:
            await asyncio.to_thread(self._journal.close)

    def find(self, key: bytes) -> Used | None:
        past = None if self._vault is None else self._vault.past.pop(key, None)
        if past is not None:
            return Used(past.at, past.requests, past.tokens, key)
        return None if self._journal is None else self._journal.find(key)

    def note(self, used: Used) -> None:
        if self._vault is not None:
            self._changed[used.key] = used
        if self._journal is not None:
            self._journal.note(used)

    def commit(self) -> None:
        """To be in force with the vault's next commit."""
        if self._changed and self._vault is not None:
            for key, used in self._changed.items():
                self._vault.put(key, used.day, used.settled_today, used.settled_month, 0, 0)
            self._changed.clear()

"""The semantic cache of a gateway that has none: it keeps nothing and finds nothing, so that no caller asks if there is one."""

from __future__ import annotations

from caches.semantic.types import Asked, Found, Glance, Gone, Grey, SemanticStats, Shown
from caches.types import Entry
from caches.which import Which


class NullSemantic:
    async def look(self, asked: Asked) -> Found:  # noqa: ARG002 - the protocol's
        return Found()

    async def take(self, asked: Asked, grey: Grey) -> Found:  # noqa: ARG002 - the protocol's
        return Found()

    async def stands(self, hit: str, body: bytes, maker: str, tenant: str, request_id: str) -> bool:  # noqa: ARG002 - as above
        return False

    async def heard(self, asked: Asked) -> bool:  # noqa: ARG002 - as above
        return False

    async def keep(self, asked: Asked, entry: Entry) -> None:
        """Nothing is kept."""

    async def compare(self, asked: Asked, id: str, answer: bytes) -> Shown:  # noqa: A002, ARG002 - the protocol's
        return Shown(None)

    async def learn(self, asked: Asked, id: str, score: float, *, right: bool, weight: float) -> None:  # noqa: A002 - the protocol's
        """Nothing is learned."""

    async def feedback(self, tenant: str, request_id: str, score: float) -> str:  # noqa: ARG002 - the protocol's
        return ""

    async def delete(self, id: str, tenant: str | None) -> Gone:  # noqa: A002, ARG002 - the protocol's
        return Gone()

    async def forget(self, exact: str, tenant: str | None, *, known: bool) -> bool:  # noqa: ARG002 - the protocol's
        return False

    async def flush(self, which: Which, *, dry_run: bool = False) -> int:  # noqa: ARG002 - the protocol's
        return 0

    async def run(self) -> None:
        """Nothing is to be done."""

    async def close(self) -> None:
        """Nothing is open."""

    async def would_stand(self, hit: str, body: bytes, maker: str, tenant: str) -> bool:  # noqa: ARG002 - as above
        return False

    def glance(self, asked: Asked) -> Glance | None:  # noqa: ARG002 - the protocol's
        return None

    def standing(self) -> SemanticStats | None:
        return None

"""A stream of questions through an exact cache and the product's whole semantic cache: its gate, decision, evidence and refusals.

It is asked as the gateway asks it (`gateway/similar.py`, `gateway/shadow.py`): look; let the verifier see what is nearly served;
keep what the model answered; verify some answers afterwards, learn, and make aliases. The answer to a question says the question,
so that it can be told whose answer was served.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Sequence

from caches.semantic.cache import SemanticCache
from caches.semantic.eligible import refusal
from caches.semantic.packed import said
from caches.semantic.types import Asked, Found
from caches.types import Entry
from gateway.lab.cacheeval.course import Course, End
from gateway.lab.cacheeval.drawing import Ask
from gateway.lab.cacheeval.judge import Judge
from gateway.lab.cacheeval.rooms import MemoryStore, Ready
from gateway.lab.cacheeval.shadow import Shadow
from gateway.lab.cacheeval.vectors import Vectors

_ROOM, _SCOPE, _TENANT = "00", "t:eval", "eval"
_NOW, _LATER = 1.0, 2.0
_SECRET = bytes(32)  # the ids never leave here


def run(
    preset: str,
    asks: Sequence[Ask],
    vectors: Vectors,
    covers: Callable[[str], bool],
    judge: Judge | None = None,
    shadow: Shadow | None = None,
) -> Course:
    name = preset if shadow is None else f"{preset}, learning"
    course = Course(name, {ask.text: ask.cluster for ask in asks})
    asyncio.run(_Stream(preset, course, vectors, covers, judge, shadow).run([ask.text for ask in asks]))
    return course


class _Stream:
    def __init__(
        self,
        preset: str,
        course: Course,
        vectors: Vectors,
        covers: Callable[[str], bool],
        judge: Judge | None,
        shadow: Shadow | None,
    ) -> None:
        self._preset = preset
        self._course = course
        self._judge = judge
        self._shadow = shadow
        self._max_error = shadow.max_error if shadow is not None else None
        self._embedder = Ready(vectors, covers)
        self._cache = SemanticCache(
            embedder=self._embedder, store=MemoryStore(vectors.model.dimension, len(course.clusters)), secret=_SECRET,
            wall=lambda: _NOW, max_answer=1 << 20, preset=preset, max_error=self._max_error,
        )  # fmt: skip
        self._exact: dict[str, str] = {}  # a text, and the one whose answer is stored for it

    async def run(self, texts: Sequence[str]) -> None:
        await self._cache.writer.turn()
        for text in texts:
            stored = self._exact.get(text)
            if stored is not None:
                self._course.served(text, stored, End.EXACT)
            else:
                await self._by_meaning(text)
        self._course.embedded = self._embedder.asked

    async def _by_meaning(self, text: str) -> None:
        if refusal(text) is not None:
            self._course.missed()
            self._exact[text] = text
            return
        asked = self._asked(text)
        found = await self._verified(asked, await self._cache.look(asked))
        if found.entry is not None:
            served = _question_of(found.entry)
            self._course.served(text, served, End.SEMANTIC)
            await self._check_served(asked, found, served)
            return
        self._course.missed()
        self._exact[text] = text
        await self._cache.keep(asked, _answer(text))
        await self._cache.writer.turn()
        await self._check_nearly(asked, found)

    async def _verified(self, asked: Asked, found: Found) -> Found:
        if self._judge is None or found.entry is not None or found.grey is None:
            return found
        self._course.verified += 1
        grey = found.grey
        if not self._judge.approves(asked.text, grey.text, same=self._course.same(asked.text, grey.text)):
            return Found(why="verifier")
        taken = await self._cache.take(asked, grey)
        return taken if taken.entry is not None else found

    async def _check_served(self, asked: Asked, found: Found, served: str) -> None:
        if self._shadow is None or not self._shadow.checks(served=True):
            return
        assert found.entry is not None, "an answer that was served"
        assert found.score is not None, "it was served for its score"
        right = await self._learn(asked, found.entry.id, found.score, served, weight=1 / self._shadow.share)
        self._exact[asked.text] = served if right else asked.text

    async def _check_nearly(self, asked: Asked, found: Found) -> None:
        if self._shadow is not None and found.grey is not None and self._shadow.checks(served=False):
            await self._learn(asked, found.grey.id, found.grey.score, found.grey.text, weight=1.0)

    async def _learn(self, asked: Asked, id_: str, score: float, stored: str, *, weight: float) -> bool:
        assert self._shadow is not None, "there is something to learn"
        right = self._shadow.finds(asked.text, stored, same=self._course.same(asked.text, stored))
        await self._cache.learn(asked, id_, score, right=right, weight=weight)
        self._course.shadowed = self._shadow.spent
        if self._shadow.spent == self._shadow.budget:
            self._course.learned_at = len(self._course.ends)
        return right

    def _asked(self, text: str) -> Asked:
        return Asked(
            partition=_ROOM, own="", text=text, tenant=_TENANT, scope=_SCOPE, preset=self._preset, max_error=self._max_error,
            request_id="", wants_grey=self._judge is not None or self._max_error is not None,
        )  # fmt: skip


def _answer(text: str) -> Entry:
    body = json.dumps({"choices": [{"message": {"role": "assistant", "content": text}}]}).encode()
    return Entry(
        id="", key=b"", tenant=_TENANT, model="", tier="", endpoint="chat", body=body, stored_at=_NOW, expires_at=_LATER
    )  # fmt: skip


def _question_of(entry: Entry) -> str:
    text = said(entry.body)
    assert text is not None, "every answer here says its question"
    return text

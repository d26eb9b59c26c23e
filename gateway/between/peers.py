"""What other gateways have in flight, as they told it last. No I/O, no clock of its own.

Whatever is lost, comes twice or comes late: what counts of each gateway is the message with the highest number.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from gateway.between.words import News

SILENCE = 1.0  # seconds after which a gateway that says nothing is not believed any more
MOST = 256  # gateways that are listened to


@dataclass(slots=True)
class _Peer:
    heard: float
    number: int = 0
    loads: dict[int, tuple[int, int]] = field(default_factory=dict)


class Peers:
    """`totals`: by engine, uncached tokens and requests of all others; to be read only. None of those that nobody uses."""

    def __init__(self) -> None:
        self.totals: dict[int, tuple[int, int]] = {}
        self.lost = 0  # messages that never came, by their numbers
        self._peers: dict[bytes, _Peer] = {}

    def __len__(self) -> int:
        return len(self._peers)

    def hear(self, news: News, now: float) -> set[int] | None:
        """The engines of which something changed; None: it is not to be heard, or says nothing new."""
        peer = self._peers.get(news.node)
        if peer is None:
            if len(self._peers) >= MOST:
                return None
            peer = self._peers[news.node] = _Peer(now, news.number - 1)
        elif news.number <= peer.number:
            return None
        self.lost += news.number - peer.number - 1
        peer.heard, peer.number = now, news.number
        return self._replace(peer, {engine: (pending, inflight) for engine, pending, inflight in news.loads})

    def expire(self, now: float) -> set[int]:
        """Forget who was not heard for long; the engines of which something changed."""
        silent = [node for node, peer in self._peers.items() if now - peer.heard > SILENCE]
        changed: set[int] = set()
        for node in silent:
            changed |= self._replace(self._peers.pop(node), {})
        return changed

    def _replace(self, peer: _Peer, loads: dict[int, tuple[int, int]]) -> set[int]:
        before, peer.loads = peer.loads, loads
        changed = {engine for engine, load in before.items() ^ loads.items()}
        for engine in changed:
            self._add(engine, loads.get(engine, _NOTHING), before.get(engine, _NOTHING))
        return changed

    def _add(self, engine: int, now: tuple[int, int], before: tuple[int, int]) -> None:
        pending, inflight = self.totals.get(engine, _NOTHING)
        total = pending + now[0] - before[0], inflight + now[1] - before[1]
        if total == _NOTHING:
            self.totals.pop(engine, None)
        else:
            self.totals[engine] = total


_NOTHING = (0, 0)

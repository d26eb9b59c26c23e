"""What `/metrics` tells of how gateways hear each other."""

from __future__ import annotations

from collections.abc import Iterator

from gateway.between.share import Share
from gateway.families import Labels
from gateway.metrics import Metrics


def register_share(metrics: Metrics, share: Share) -> None:
    def messages() -> Iterator[tuple[Labels, float]]:
        counts = share.counts
        for result, count in (
            ("sent", counts.sent), ("heard", counts.heard), ("lost", share.lost), ("refused", counts.refused),
        ):  # fmt: skip
            yield (result,), float(count)

    def sizes() -> Iterator[tuple[Labels, float]]:
        yield ("sent",), float(share.counts.sent_bytes)
        yield ("heard",), float(share.counts.heard_bytes)

    def age() -> Iterator[tuple[Labels, float]]:
        if share.age is not None:
            yield (), share.age

    metrics.total(
        "share_messages", "Messages between gateways (`fleet.share`); `lost` by their numbers, `refused` were no messages.",
        ("result",), messages,
    )  # fmt: skip
    metrics.total("share_bytes", "Bytes of messages between gateways.", ("result",), sizes)
    metrics.gauge("share_peers", "Other gateways that were heard in the last second.", (), lambda: [((), float(share.peers))])
    metrics.gauge(
        "share_age_seconds",
        "What other gateways said so long ago has been heard; no sample without `fleet.share`, infinite before the first word.",
        (),
        age,
    )

"""How an engine is to lay its points out: the same for the embedded one and for a server."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Quantization = Literal["none", "scalar", "binary"]


@dataclass(frozen=True, slots=True)
class IndexOptions:
    """Every search is filtered by its partition. So there is a graph for each large partition (`payload_m` edges a point), and by
    default none over all points (`m`); a partition below `full_scan_kb` of vectors is walked point by point, which is faster.
    """

    m: int = 0
    payload_m: int = 16
    ef_construct: int = 64
    full_scan_kb: int = 20_000  # 13,000 vectors of 384 numbers: walked in 2 ms
    max_segment_kb: int = 100_000  # what is tidied at a time: 65,000 vectors of 384 numbers
    quantization: Quantization = "none"
    vectors_on_disk: bool = False
    payload_on_disk: bool = True


@dataclass(frozen=True, slots=True)
class ServerOptions:
    """What only a server or a cluster has; None: as the server thinks best."""

    shards: int | None = None
    replicas: int | None = None
    write_consistency: int | None = None

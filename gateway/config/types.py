"""The types that keys of the config share: what Python holds, and the kind that reads it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from backends.balance import KINDS
from gateway.config.kinds import (
    Choice,
    Duration,
    FilePath,
    Fraction,
    Instant,
    Label,
    Listener,
    Network,
    Origin,
    Pattern,
    Size,
    Text,
    Url,
    Whole,
    ZmqAddress,
)
from gateway.config.secret import Digest, Hidden, RedisUrl, Secret, SecretUrl
from limits.types import LONGEST_BURST, SHORTEST_BURST

Line = Annotated[str, Text()]
Seconds = Annotated[float, Duration()]
Burst = Annotated[float, Duration(SHORTEST_BURST, LONGEST_BURST)]
Bytes = Annotated[int, Size()]
Count = Annotated[int, Whole(1)]
Limit = Annotated[int, Whole(1)] | None
Allowance = Annotated[int, Whole(0)] | None
Name = Annotated[str, Label()]
ModelName = Annotated[str, Label(slash=True)]
ModelPattern = Annotated[str, Pattern()]
HiddenText = Annotated[Secret, Hidden()]
Moment = Annotated[float, Instant()] | None

Capability = Annotated[str, Choice("capability", ("tools", "vision", "audio", "json_schema", "reasoning"))]
Endpoint = Annotated[
    str,
    Choice(
        "endpoint",
        ("chat", "completions", "embeddings", "responses", "messages", "rerank", "score", "tokenize", "audio"),
    ),
]
BalanceKind = Annotated[
    str,
    Choice(
        "balance kind",
        KINDS,
    ),
]
PriorityName = Annotated[str, Choice("priority", ("realtime", "standard", "batch"))]
Share = Annotated[float, Fraction()]
Tries = Annotated[int, Whole(1, 1000)]
Weight = Annotated[int, Whole(1, 1000)]
HttpUrl = Annotated[str, Url()]
ZmqUrl = Annotated[str, ZmqAddress()]
Host = Annotated[str, Text(shortest=1, longest=255)]
WebOrigin = Annotated[str, Origin()]
Listen = Annotated[str, Listener()]
KeyDigest = Annotated[Secret, Digest()]
RedisAddress = Annotated[SecretUrl, RedisUrl()]
File = Annotated[Path, FilePath()]
NetworkText = Annotated[str, Network()]
Port = Annotated[int, Whole(1, 65535)]
Keep = Annotated[str, Choice("keep", ("deterministic", "all", "none"))]
Preset = Annotated[str, Choice("preset", ("strict", "balanced"))]

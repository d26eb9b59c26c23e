"""What was done to make an answer, on its way to another process whose clients share it."""

from __future__ import annotations

from typing import Any, Final

import msgspec

from gateway.exchange import Work

_UNKNOWN: Final = dict(zip(Work.__struct_fields__, Work.__struct_defaults__, strict=True))
_FACTS: Final = frozenset(_UNKNOWN) - {"assembled", "sound", "storable"}  # those each process makes for itself
_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(dict[str, Any]).decode


def facts_of(work: Work, *, reported: bool) -> bytes:
    """All that is known so far. `reported`: its tokens are told where it was done, or by somebody else."""
    known = {name: value for name in _FACTS if (value := getattr(work, name)) != _UNKNOWN[name]}
    return _encode(known | {"reported": reported})


def learn(work: Work, facts: bytes) -> None:
    """Put on `work` what another process knows of it."""
    known = _decode(facts)
    known["terms"] = tuple([(term, weight) for term, weight in known.get("terms", ())])
    for name, value in known.items():
        if name in _FACTS:
            setattr(work, name, value)

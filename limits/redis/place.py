"""Where something was debited, and is to be given back."""

from __future__ import annotations

import enum


class Place(enum.Enum):
    SERVER = "server"
    HERE = "here"
    """In this node's share, while the server was away."""
    NOWHERE = "nowhere"
    """There was nothing to debit, or the server was away and everything was let in."""

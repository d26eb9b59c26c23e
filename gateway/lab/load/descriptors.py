"""Every request in flight is a socket, and a shell's usual limit is 1,024 of them."""

from __future__ import annotations

import resource

SPARE = 64  # what is open beside the sockets
WANTED = 4_096


def sockets(wanted: int | None) -> int:
    """Raise the soft limit to the hard one; how many requests may be in flight. Raises ValueError: not so many."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
            soft = hard
        except (ValueError, OSError):  # macOS says "unlimited" and means less
            soft = _raised(soft, (wanted or WANTED) + SPARE, hard)
    there = WANTED if soft == resource.RLIM_INFINITY else soft - SPARE
    if wanted is None:
        return max(1, min(WANTED, there))
    if soft != resource.RLIM_INFINITY and wanted > there:
        raise ValueError(
            f"--max-inflight {wanted} needs {wanted + SPARE} file descriptors and the limit is {soft}: "
            f"raise it with `ulimit -n {wanted + SPARE}`"
        )
    return wanted


def _raised(soft: int, wanted: int, hard: int) -> int:
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, wanted), hard))
    except (ValueError, OSError):
        return soft
    return max(soft, wanted)

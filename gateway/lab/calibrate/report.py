"""What came of a calibration: for people, for programs, and in one line for the log."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from gateway.lab.calibrate.measure import QUALITY, Figure, Figures
from gateway.lab.calibrate.samples import Gathered
from gateway.lab.calibrate.study import Study

_NAMES = (("APGR", "apgr"), ("CPT(50)", "cpt50"), ("CPT(80)", "cpt80"), ("ECE", "ece"), ("squared error", "brier"))


def plain(found: Gathered, study: Study, current: str, *, swapped: bool) -> dict[str, Any]:
    return {
        "labels": found.paired,
        "one_tier": len(found.samples) - found.paired,
        "lines": found.lines,
        "bad_lines": found.bad,
        "older": found.older,
        "sources": found.sources,
        "held_out": study.held_out,
        "gap": study.gap,
        "current": {"version": current, **asdict(study.old)},
        "new": {"kind": study.new.kind, "version": study.new.policy.version, **asdict(study.new.figures)},
        "better_order": study.new.ruling.order,
        "better_truth": study.new.ruling.truth,
        "better": study.new.ruling.swap,
        "why": study.new.ruling.why,
        "swapped": swapped,
    }


def table(found: Gathered, study: Study, current: str, *, swapped: bool) -> str:
    sources = ", ".join(f"{count} {name}" for name, count in sorted(found.sources.items()))
    lines = [
        f"{found.paired} labels of both tiers, {len(found.samples) - found.paired} of one ({sources}); {found.bad} bad lines"
        + _older(found),
        f"measured on {study.held_out} held-out requests, on which the large tier is better by {study.gap:.3f}; 95 % intervals",
        "",
        f"{'':24} {'in force: ' + current:>28} {study.new.kind + ': ' + study.new.policy.version:>28}",
    ]
    for name, key in _NAMES:
        lines.append(f"{name:24} {_text(getattr(study.old, key)):>28} {_text(getattr(study.new.figures, key)):>28}")
    kept = f"kept small at {QUALITY:.0%}"
    lines.append(f"{kept:24} {study.old.kept:>28.3f} {study.new.figures.kept:>28.3f}")
    lines.append(f"{'says nothing of':24} {study.old.unknown:>28.3f} {study.new.figures.unknown:>28.3f}")
    lines += ["", _verdict(study, swapped=swapped)]
    return "\n".join(lines)


def brief(found: Gathered, study: Study, current: str, *, swapped: bool) -> str:
    old, new = study.old.apgr.value, study.new.figures.apgr.value
    figures = "" if old is None or new is None else f", APGR {old:.3f} → {new:.3f}"
    versions = f"{current} → {study.new.policy.version} ({study.new.kind}){figures}"
    return f"{found.paired} labels{_older(found)}, {study.held_out} held out, {versions}: {_verdict(study, swapped=swapped)}"


def _older(found: Gathered) -> str:
    return f" (the newest {len(found.samples):,} requests; older ones were passed over)" if found.older else ""


def figures(told: Figures) -> dict[str, float | None]:
    """For the manifest."""
    return {key: getattr(told, key).value for _, key in _NAMES}


def _verdict(study: Study, *, swapped: bool) -> str:
    ruling = study.new.ruling
    shares = [
        f"{name} in {share:.0%} of the draws" for name, share in (("better order", ruling.order), ("truer", ruling.truth))
        if share is not None
    ]  # fmt: skip
    done = (
        "The new policy is in force" if swapped else "The new policy would take over" if ruling.swap else "The old policy stays"
    )
    return f"{done}: {ruling.why} ({', '.join(shares)})."


def _text(figure: Figure) -> str:
    if figure.value is None:
        return "undefined"
    return f"{figure.value:.3f}" if figure.low is None else f"{figure.value:.3f} [{figure.low:.3f}, {figure.high:.3f}]"

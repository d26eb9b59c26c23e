"""Checks of learning on own traffic: its folder, the policies in it, and whether anything can come of it."""

from __future__ import annotations

from gateway.config import Config
from gateway.config.doubts import BLIND, doubts
from gateway.config.problems import Path
from gateway.doctor import disk
from gateway.doctor.findings import Finding, fail, warn
from gateway.learning.versions import BadVersions, Versions

_HERE: Path = ("routing", "learning")


def check(config: Config) -> list[Finding]:
    learning, learned = config.routing.learning, config.routing.classifier.kind == "learned"
    found: list[Finding] = []
    if learning.enabled or learning.calibrate is not None:
        where = (*_HERE, "path")
        found += disk.directory(where, learning.path)
        found += disk.free_space(where, learning.path, "what could be learned is not written down when the disk is full")
        if (learning.path / "log").is_dir() and learning.keep == "text" and (who := disk.open_to(learning.path / "log")):
            found.append(
                warn(where, f"{learning.path / 'log'} may be read by {who}: what people asked lies there", "chmod 700 it.")
            )
    if learned:
        found = found or _policies(config)
    mend = "Set routing.classifier.kind: learned, or turn learning off."
    blind = "Give a route models of both, or turn learning off."
    found += [warn(path, message, blind if message == BLIND else mend) for path, message in doubts(config)]
    if learning.calibrate is not None and not learning.share:
        what = "without requests that are asked twice there are no labels of both tiers, and nothing to calibrate by"
        found.append(warn((*_HERE, "share"), what, "0.02 is a start."))
    return found


def _policies(config: Config) -> list[Finding]:
    """The one in force can be read."""
    versions = Versions(config.routing.learning.path / "policies")
    try:
        made = (manifest := versions.manifest()).find(manifest.current)
        if made is not None:
            versions.data(made)
    except BadVersions as error:
        mend = "Restore it from a copy, or move the folder away: the policy that ships is in force then."
        return [fail((*_HERE, "path"), str(error), mend)]
    return []

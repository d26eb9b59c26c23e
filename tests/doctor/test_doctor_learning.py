"""The doctor and learning on own traffic."""

import pytest

from gateway.config import parse
from gateway.doctor.learning import check

MODELS = """
models:
  - {name: s, tier: small, replicas: [{name: a, url: "http://127.0.0.1:1/v1"}]}
  - {name: l, tier: large, replicas: [{name: b, url: "http://127.0.0.1:2/v1"}]}
"""


def told(tmp_path, routing):
    return [
        (finding.severity, finding.key) for finding in check(parse(f"{MODELS}routing: {routing}", tmp_path / "config.yaml", {}))
    ]


@pytest.mark.parametrize(
    ("routing", "found"),
    [
        ("{}", []),
        ("{classifier: {kind: learned}, learning: {enabled: true, share: 0.1, calibrate: 24h, path: own}}", []),
        ("{classifier: {kind: learned}, learning: {enabled: true, path: plain/own}}", [("fail", "routing.learning.path")]),
        ("{learning: {enabled: true, share: 0.1, calibrate: 24h, path: own}}", [("warn", "routing.learning.enabled")]),
        ("{learning: {enabled: true, path: o}, classifier: {kind: fixed, tier: small}}", [("warn", "routing.learning.enabled")]),
        ("{classifier: {kind: learned}, learning: {enabled: true, calibrate: 9h}}", [("warn", "routing.learning.share")]),
        ("{classifier: {kind: learned}, learning: {path: damaged}}", [("fail", "routing.learning.path")]),
    ],
)  # fmt: skip
def test_what_is_wrong_with_learning(tmp_path, routing, found):
    """A folder that cannot be made, a manifest that is none, and settings of which nothing can come."""
    (tmp_path / "plain").touch()
    (tmp_path / "damaged" / "policies").mkdir(parents=True)
    (tmp_path / "damaged" / "policies" / "manifest.json").write_text("{")
    assert told(tmp_path, routing) == found

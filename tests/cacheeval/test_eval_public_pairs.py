"""The product's decision over public pairs, where they lie beside the repository: the figures that it must reach."""

import json
from pathlib import Path

import pytest

pytest.importorskip("onnxruntime", reason="onnxruntime is not installed (the extra `semantic`)")
pytest.importorskip("tokenizers", reason="tokenizers is not installed (the extra `semantic`)")

from gateway.cli import main

DATA = Path(__file__).resolve().parents[3] / "shared" / "data" / "semantic"


@pytest.fixture
def results(capsys):
    def run(name, *arguments):
        if not (DATA / name).exists():
            pytest.skip(f"the public pairs are not there: {name}")
        assert main(["cache", "eval", str(DATA / name), *arguments, "--json"]) == 0
        return json.loads(capsys.readouterr().out)["results"][0]

    return run


def test_hard_pairs(results):
    """`strict` serves at least 45 % of the wanted and at most 4 % of the traps, without learning and without a verifier."""
    (score,) = results("fow_cache/pairs.jsonl", "--preset", "strict")["scores"]
    assert score["served"]["share"] >= 0.45
    assert score["traps_served"]["share"] <= 0.04


def test_hard_pairs_with_a_verifier(results):
    """One of 98 / 1 that is asked widely enough serves at least 95 % of the wanted and at most 1.5 % of the traps."""
    arguments = ("--preset", "strict", "--judge", "0.98/0.01", "--judge-asks", "vetoed", "--grey", "0.35", "--all-eligible")
    (score,) = results("fow_cache/pairs.jsonl", *arguments)["scores"]
    assert score["served"]["share"] >= 0.95
    assert score["traps_served"]["share"] <= 0.015


def test_conversations(results):
    """No trap is served: another history is another partition."""
    for score in results("fow_cache/conv-parts")["scores"]:
        assert score["traps_served"]["hits"] == 0


def test_near_duplicates(results):
    """More of the wanted than a cosine of 0.9 serves, and of the traps next to none, where that serves a third."""
    strict, cosine = results("near_duplicates.jsonl", "--preset", "strict", "--threshold", "0.9", "--no-guards")["scores"]
    assert strict["served"]["hits"] >= cosine["served"]["hits"]
    assert strict["traps_served"]["share"] <= 0.03
    assert cosine["traps_served"]["share"] > 0.3


@pytest.mark.parametrize(("name", "kind", "count"), [("LCQMC_dev.txt", "pairs", 8802), ("PAWS-X_zh_dev_2k.tsv", "pairs", 1984)])
def test_chinese_pairs_are_not_for_this_embedder(capsys, name, kind, count):
    """They are read, and not one is embedded."""
    if not (DATA / name).exists():
        pytest.skip(f"the public pairs are not there: {name}")
    assert main(["cache", "eval", str(DATA / name), "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert (told["data"][0]["kind"], told["data"][0]["pairs"]) == (kind, count)
    assert all(score["served"]["hits"] == 0 for score in told["results"][0]["scores"])

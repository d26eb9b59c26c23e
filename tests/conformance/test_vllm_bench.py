"""What `vllm bench serve` told, as figures and as a part of the page; the run itself needs vLLM and is by hand."""

import msgspec
import pytest

from bench.conformance.served import DATA, TARGETS, Served, Spread, Taken, section
from bench.conformance.vllm_bench import Asked, taken

TOLD = {
    "completed": 8, "failed": 0, "errors": [""] * 8, "duration": 4.0, "total_output_tokens": 64,
    **{f"{kind}_{of}_ms": 10.04 for kind in ("mean", "median", "p99") for of in ("ttft", "tpot", "itl")},
}  # fmt: skip
COUNTED = {"ok": 10, "others": 0, "tokens": 80}  # two warm-ups more


def run(told=(), counted=COUNTED, target=TARGETS[2]):
    return taken(target, "openai-chat", Asked(prompts=8, at_once=2), {**TOLD, **dict(told)}, counted)


def test_a_run_is_right_if_both_sides_counted_alike():
    """All answers whole on the client's side, and on the gateway's the same, its warm-ups, their tokens and nothing else."""
    assert run().right()
    assert run(counted={}, target=TARGETS[0]).right()


@pytest.mark.parametrize(
    ("told", "counted"),
    [
        ({"completed": 7}, COUNTED),
        ({"completed": 0, "total_output_tokens": 0}, COUNTED),
        ({"errors": ["", "Traceback"]}, COUNTED),
        ({}, {**COUNTED, "ok": 9}),
        ({}, {**COUNTED, "others": 1}),
        ({}, {**COUNTED, "tokens": 79}),
    ],
)
def test_a_run_is_wrong_if_anything_is_missing(told, counted):
    """On either side, by one."""
    assert not run(told, counted).right()


def test_the_section(tmp_path):
    """A row for each endpoint and target, with medians over its runs; nothing where there are no figures."""
    assert list(section(tmp_path)) == []
    runs = [run(), run({"median_ttft_ms": 30.0}), run({"median_ttft_ms": 20.0}), run(counted={}, target=TARGETS[0])]
    served = Served("2026-01-01", "abc", "0.32.0", Asked(8, 2).told(), (1.0, 2.0), runs)
    (tmp_path / DATA).write_bytes(msgspec.json.encode(served))
    rows = [line for line in section(tmp_path) if line.startswith("| `/v1/chat/completions`")]
    assert [row.split(" | ")[1:6] for row in rows] == [
        [TARGETS[0], "1", "8", "0", "10.0, 10.0"],
        [TARGETS[2], "3", "24", "0", "20.0, 10.0"],
    ]
    assert isinstance(msgspec.json.decode((tmp_path / DATA).read_bytes(), type=Served).runs[0], Taken)
    assert runs[0].tpot == Spread(10.0, 10.0, 10.0)

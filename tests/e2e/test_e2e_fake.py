"""`tiergate fake-vllm` beside vLLM: asked the same, it answers in the same shape, but for what docs/fake-vllm.md tells."""

import random
import re
from pathlib import Path

import httpx
import pytest
from compare_fake import compare
from e2e_programs import BACKEND_KEY, Program
from prometheus_client.parser import text_string_to_metric_families

from gateway.lab.up import ports
from gateway.lab.up.processes import python

PAGE = Path(__file__).parents[2] / "docs" / "fake-vllm.md"
KNOWN = set(re.findall(r"^\| `([^`]+)` \|", PAGE.read_text(encoding="utf-8"), re.MULTILINE))


@pytest.fixture(scope="session")
def fake(logs):
    (port,) = ports.free(1, random.Random())
    flags = [
        "--port",
        str(port),
        "--model",
        "e2e-small",
        "--model",
        "e2e-both",
        "--api-key",
        BACKEND_KEY,
        "--max-model-len",
        "1024",
    ]
    flags += ["--max-num-seqs", "8", "--block-size", "32", "--scheduling-policy", "priority", "--enable-prompt-tokens-details"]
    flags += ["--tool-call-parser", "hermes"]
    program = Program("fake", python("gateway.cli", "fake-vllm", *flags), port, "/health", logs)
    program.start()
    program.await_ready()
    yield program
    program.kill()


def test_answers_have_the_same_shape(fleet, fake, figures):
    """Every request of fake_cases is answered alike, but for those that the page lists; and what it lists does differ."""
    found = dict(compare(fleet.small.port, fake.port, BACKEND_KEY))
    differing = {name for name, lines in found.items() if lines}
    figures["fake-vllm: requests compared, known to differ"] = f"{len(found)}, {len(differing)}"
    assert {name: found[name] for name in differing - KNOWN} == {}
    assert KNOWN & found.keys() - differing == set(), "listed as different, and the same"


def test_metrics_have_the_same_names(fleet, fake):
    """Each family of the fake is one of vLLM's, of the same type and with the same labels."""

    def families(program):
        text = httpx.get(program.root + "/metrics", timeout=30, trust_env=False).text
        return {family.name: family for family in text_string_to_metric_families(text)}

    real, ours = families(fleet.small), families(fake)
    fleet.post({"model": "small", "messages": [{"role": "user", "content": "Hi"}], "max_tokens": 2})
    assert ours.keys() - real.keys() == set()
    for name, family in ours.items():
        assert family.type == real[name].type, name
        if name != "vllm:cache_config_info":  # whose labels are all of the engine's settings
            assert {tuple(sorted(s.labels)) for s in family.samples} <= {tuple(sorted(s.labels)) for s in real[name].samples}, (
                name
            )

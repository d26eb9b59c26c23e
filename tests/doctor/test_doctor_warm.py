"""The doctor and what replicas are to read ahead."""

from pathlib import Path

import pytest

from gateway.config.schema import Model, Warm, WarmPrompt
from gateway.doctor.warm import budget


@pytest.mark.parametrize(("tenants", "size", "found"), [((), 3000, 0), ((), 3010, 1), (("a", "b"), 1600, 1)])
def test_prompts_beyond_the_budget_are_told_of(tmp_path, tenants, size, found):
    """By their sizes, once for each tenant; a file that is not there has its own error."""
    path = tmp_path / "a.txt"
    path.write_text("x" * size)
    prompts = (WarmPrompt(file=path, tenants=tenants), WarmPrompt(file=Path("/nowhere/at/all")))
    model = Model(name="m", served_name="m", warm=Warm(prompts=prompts, max_tokens=1000))
    told = budget(("models", 0), model)
    assert len(told) == found
    assert all(finding.severity == "warn" for finding in told)

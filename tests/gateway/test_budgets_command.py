"""What is used of budgets, from the command line; and a second gateway that would count in the same folder."""

import json
import os

import pytest
from gateway_talk import ADMIN_KEY, GLOBEX, KEY, ask, chat, cli, tenant, usage, write_config

from limits.journal import Journal


async def test_on_the_command_line(start):
    """`tiergate budgets` lists what is used and left, and sets it back; what is not there is one line and code 2."""
    stack = await start({"tenants": [tenant("acme", KEY, budget={"day": 3_000, "month": 20_000}), GLOBEX]})
    before = usage(await ask(stack, chat(max_tokens=10)))["total_tokens"]
    await stack.at_rest()

    async def budgets(*words):
        return await cli("budgets", *words, "--url", stack.url, TIERGATE_ADMIN_KEY=ADMIN_KEY)

    code, out, _ = await budgets("list", "--json")
    assert code == 0
    assert [(one["name"], [(b["period"], b["used"], b["remaining"]) for b in one["budgets"]]) for one in json.loads(out)] == [
        ("acme", [("day", before, 3_000 - before), ("month", before, 20_000 - before)])
    ]
    code, out, _ = await budgets("reset", "acme")
    assert (code, len(out.splitlines())) == (0, 3)
    assert "20,000" in out
    assert str(before) not in out
    code, _, err = await budgets("list", "--tenant", "nobody")
    assert (code, len(err.splitlines())) == (2, 1)


@pytest.mark.parametrize("workers", [(), ("--workers", "2")], ids=["one process", "several"])
async def test_two_gateways_on_one_folder(stack, tmp_path, workers):
    """The second ends with exit code 2 and a line that says which process counts there."""
    journal = Journal(tmp_path / "spent")
    journal.open()
    changes = {"tenants": [tenant("acme", KEY, budget={"day": 100})], "limits": {"budgets": {"path": "./spent"}}}
    path = write_config(tmp_path / "other.yaml", stack.fakes, changes)
    code, _, err = await cli("serve", "--config", str(path), "--port", "0", *workers)
    journal.close()
    assert code == 2
    said = [line for line in err.splitlines() if "counts budgets" in line]
    assert len(said) == 1
    assert f"process {os.getpid()} counts budgets in " in said[0]

"""Reserved shares in the config: whose they are, and promises that could not be kept."""

import pytest

from gateway.config import ConfigError, effective, parse
from gateway.config.reserved_checks import promises

MODELS = """models:
  - {name: m, concurrency: {max: 8}, replicas: [{name: r, url: "http://h/v1"}, {name: s, url: "http://i/v1"}]}
  - {name: n, replicas: [{name: r, url: "http://h/v1"}]}
"""


def problems(text):
    with pytest.raises(ConfigError) as error:
        parse(MODELS + text, "config.yaml", {})
    return [f"{problem.line}:{problem.column}: {problem.path}: {problem.message}" for problem in error.value.errors]


def test_a_plans_share_is_each_of_its_tenants():
    """A tenant's own words on a model stand instead of the plan's; what is shown reads back."""
    config = parse(
        MODELS
        + """plans: {gold: {reserved: {m: {slots: 2}, n: {tpm: 10}}}}
tenants: [{name: a, plan: gold}, {name: b, plan: gold, reserved: {m: {slots: 3, tpm: 5}}}, {name: c}]
"""
    )
    found = {model: [(p.tenant.name, p.reserved.slots, p.reserved.tpm) for p in promises(config, model)] for model in "mn"}
    assert found == {"m": [("a", 2, None), ("b", 3, 5)], "n": [("a", None, 10), ("b", None, 10)]}
    again = parse(effective(config))
    assert [tenant.reserved for tenant in again.tenants] == [tenant.reserved for tenant in config.tenants]


@pytest.mark.parametrize(
    ("tenant", "problem"),
    [
        ("reserved: {m: {}}", "5:35: tenants[0].reserved.m: needs slots, tpm, or both"),
        ("reserved: {mm: {slots: 1}}", '5:36: tenants[0].reserved.mm: unknown model "mm"; did you mean "m"?'),
        ("reserved: {m: {slots: 0}}", "5:43: tenants[0].reserved.m.slots: expected a whole number, at least 1"),
        ("reserved: {m: {slot: 1}}", '5:36: tenants[0].reserved.m.slot: unknown key; did you mean "slots"?'),
        (
            "tpm: 5, reserved: {m: {tpm: 6}}",
            '5:49: tenants[0].reserved.m.tpm: more than the limit of 5 tokens a minute that holds for tenant "a"',
        ),
        (
            "plan: p, reserved: {m: {slots: 4}}",
            '5:52: tenants[0].reserved.m.slots: more than the limit of 3 parallel requests that holds for tenant "a"',
        ),
        (
            "reserved: {m: {slots: 16}}",
            '5:35: tenants[0].reserved.m: 16 slots of "m" are reserved, of 16: one must be left to all others',
        ),
        (
            'models: ["x*", n], reserved: {m: {slots: 2}}',
            '5:54: tenants[0].reserved.m: tenant "a" may not call this model',
        ),
    ],
)
def test_promises_that_cannot_be_kept(tenant, problem):
    """Each is found at its place, alone."""
    text = f"plans: {{p: {{models: {{m: {{max_parallel: 3}}}}}}}}\ntenants: [{{name: a, {tenant}}}]\n"
    (found,) = problems(text)
    assert found.startswith(problem)


def test_a_share_of_tokens_needs_a_slot():
    """So fifteen slots and a tenant with tokens alone are one too many of sixteen; fourteen are not."""
    text = "tenants: [{{name: a, reserved: {{m: {{slots: {}}}}}}}, {{name: b, reserved: {{m: {{tpm: 1}}}}}}]\n"
    assert parse(MODELS + text.format(14)).tenants
    (found,) = problems(text.format(15))
    assert 'tenants[1].reserved.m: 16 slots of "m" are reserved' in found


def test_nothing_is_said_of_slots_that_are_found_later():
    """Of a model with `discover` nobody knows here how many slots it has."""
    text = """models: [{name: m, concurrency: {max: 2}, discover: [{kind: dns, name: h, port: 1}]}]
tenants: [{name: a, reserved: {m: {slots: 16}}}]
"""
    assert parse(text, "config.yaml", {}).tenants


def test_a_plans_share_of_what_one_of_its_tenants_may_not_call():
    """Named at the plan; who may call a model, or an adapter of it, by a pattern is fine."""
    text = "plans: {{gold: {{reserved: {{m: {{slots: 2}}}}}}}}\ntenants: [{{name: a, plan: gold, models: [{}]}}]\n"
    assert problems(text.format("n")) == ['4:30: plans.gold.reserved.m: tenant "a" may not call this model']
    assert parse(MODELS + text.format('"[lm]"')).tenants
    adapted = MODELS.replace("{name: m,", "{name: m, adapters: [{name: extra, served_name: e}],")
    assert parse(adapted + text.format("extra")).tenants


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("tenants: [{name: a, burst: 5s}]\n", "4:28: tenants[0].burst"),
        ("plans: {p: {burst: 5s, max_parallel: 3}}\n", "4:20: plans.p.burst"),
        ("plans: {p: {rpm: 6, models: {m: {burst: 5s}}}}\n", "4:41: plans.p.models.m.burst"),
        ("tenants: [{name: a, keys: [{id: k, sha256: %s, burst: 5s}]}]\n" % ("ab" * 32), "4:117: tenants[0].keys[0].burst"),
    ],
)  # fmt: skip
def test_a_burst_of_nothing(text, place):
    """Beside neither rpm nor tpm it means nothing, and is one error at its place; what is shown reads back all the same."""
    (found,) = problems(text)
    assert found == f"{place}: says how much of rpm and tpm may be spent at once, and neither is beside it"
    assert parse(MODELS + text.replace("burst: 5s", "tpm: 9, burst: 5s"))
    plain = parse(MODELS + "tenants: [{name: a}]\n")
    assert parse(effective(plain)).tenants == plain.tenants

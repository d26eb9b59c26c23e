"""Routes and targets: what is taken, and what is refused and where."""

import pytest

from gateway.config import ConfigError, parse
from gateway.config.ends import ends
from gateway.config.routing import Target
from routing.learned.shipped import SHIPPED

MODELS = """models:
  - {name: s, tier: small, replicas: [{name: r, url: "http://127.0.0.1:1/v1"}]}
  - {name: l, tier: large, replicas: [{name: r, url: "http://127.0.0.1:1/v1"}]}
"""


def read(text):
    return parse(MODELS + text, "config.yaml", {})


@pytest.mark.parametrize(
    ("routes", "both"),
    [
        ("", ("small", "judge")),
        ("auto: {models: [s, l]}", ("small", "large")),
        ("hard: {models: [s, l]}", ("small", "judge")),
        ("auto: {models: [s, l]}, hard: {models: [l, j]}", ("small", "judge")),
        ("auto: {models: [l]}", None),
    ],
)
def test_what_is_compared_is_what_routes_have(routes, both):
    """A tier that no route may choose, as a judge's, is no end of the tiers."""
    judge = '  - {name: j, tier: judge, replicas: [{name: r, url: "http://127.0.0.1:1/v1"}]}\n'
    assert ends(read(f"{judge}routing: {{routes: {{{routes}}}}}")) == both


def problems(text):
    with pytest.raises(ConfigError) as caught:
        read(text)
    return [f"{problem.path}: {problem.message}" for problem in caught.value.errors]


def test_routes_and_targets_are_read():
    """Of a route, of `auto` itself, of a plan and of a tenant."""
    config = read(
        """routing:
  routes: {auto: {target: {large: 0.3}}, team/thrifty: {target: {threshold: 0.8}, models: [s, l]}, plain: {}}
  aliases: {gpt-4o: team/thrifty}
plans: {pro: {target: {large: 0.5}}}
tenants: [{name: acme, plan: pro, target: {large: 0}}]
"""
    )
    routes = config.routing.routes
    assert routes["auto"].target == Target(large=0.3)
    assert (routes["team/thrifty"].target, routes["team/thrifty"].models) == (Target(threshold=0.8), ("s", "l"))
    assert routes["plain"].target is None
    assert config.plans["pro"].target == Target(large=0.5)
    assert config.tenants[0].target == Target(large=0.0)


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("routing: {routes: {x: {target: {}}}}", "routing.routes.x.target: needs one of large, quality, threshold, and only one"),
        ("routing: {routes: {x: {target: {large: 0.1, threshold: 0.5}}}}", "routing.routes.x.target: needs one of"),
        ("routing: {routes: {x: {target: {quality: 0.95}}}}", "routing.routes.x.target.quality: needs classifier kind learned"),
        ("plans: {p: {target: {quality: 0.95}}}", "plans.p.target.quality: needs classifier kind learned"),
        ("routing: {classifier: {kind: fixed, tier: small}, routes: {x: {target: {large: 0.1}}}}", "fixed makes no"),
        ("tenants: [{name: a, target: {large: 1.5}}]", "tenants[0].target.large: expected a number from 0 to 1"),
        ("routing: {routes: {x: {models: [s, lx]}}}", 'routing.routes.x.models[1]: unknown model "lx"'),
        ("routing: {routes: {x: {models: [l], target: {large: 0.1}}}}", "routing.routes.x.target: its models are all of"),
        ("routing: {routes: {x: {models: []}}}", "routing.routes.x.models: must not be empty"),
        ("routing: {routes: {x: {models: [s, s]}}}", "routing.routes.x.models[1]: the model"),
        ("routing: {routes: {l: {}}}", 'the model name "l" is taken already'),
        ("routing: {routes: {x: {}}, aliases: {x: l}}", 'the model name "x" is taken already'),
        ("routing: {routes: {x: {}}, aliases: {y: z}}", 'routing.aliases.y: unknown model "z"'),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_said_where_it_is(text, complaint):
    """One complaint, at the key that is wrong."""
    found = problems(text)
    assert len(found) == 1
    assert complaint in found[0]


def test_a_policy_of_ones_own_is_read_before_anything_starts(tmp_path):
    """A file that is none, or is not there, and a policy for another kind of classifier, are errors of the config."""
    (tmp_path / "bad.policy").write_text("{}\n")
    own = "routing: {classifier: {kind: %s, policy: %s}}"
    assert any("policy: this is no policy" in line for line in problems(own % ("learned", tmp_path / "bad.policy")))
    assert any("policy: cannot be read" in line for line in problems(own % ("learned", tmp_path / "none.policy")))
    assert any("policy: is for classifier kind learned" in line for line in problems(own % ("rules", SHIPPED)))
    assert read(own % ("learned", SHIPPED)).routing.classifier.policy == SHIPPED

"""What a good config says."""

import dataclasses
import shutil
from pathlib import Path

import pytest

from gateway.config import Secret, load, parse
from gateway.config.extras import missing
from routing.learned.shipped import SHIPPED

MODELS = """
models:
  - name: a
    tier: small
    replicas: [{name: r1, url: "http://10.0.0.1:8000/v1"}]
  - name: b/c
    tier: large
    served_name: B
    replicas: [{name: r1, url: "https://host.example/v1", api_key: sk-1}]
"""
ONE = 'models: [{name: a, replicas: [{name: r, url: "http://127.0.0.1:1/v1"}]}]\n'


def test_models_alone_are_enough():
    """Everything but `models` has a default, and the defaults are those of the contract."""
    config = parse(ONE)
    server, model = config.server, config.models[0]
    assert (server.host, server.port, server.workers, server.max_body) == ("127.0.0.1", 8000, 1, 16 * 2**20)
    assert (server.drain_timeout, server.header_timeout, server.body_timeout, server.keep_alive) == (120, 10, 60, 75)
    assert (server.max_header, server.metrics) == (65536, "")
    assert (config.timeouts.connect, config.timeouts.first_token) == (3, 60)
    assert (config.timeouts.between_tokens, config.timeouts.total) == (30, 290)
    assert (model.served_name, model.tier, model.context, model.capabilities) == ("a", "default", None, None)
    assert (model.endpoints, model.version, model.adapters, model.fallback) == (("chat", "completions"), "", (), ())
    assert (model.balance.kind, model.concurrency.kind, model.concurrency.max) == ("work_cost", "fixed", 256)
    assert (model.scheduling_policy, model.default_max_tokens) == ("fcfs", 1024)
    assert (config.routing.auto, dict(config.routing.aliases), config.routing.classifier.kind) == ("auto", {}, "rules")
    assert (config.routing.classifier.threshold, config.routing.classifier.default_tier) == (None, "default")
    exact = config.cache.exact
    assert (exact.enabled, exact.store, exact.ttl, exact.max_bytes, exact.max_entry) == (True, "memory", 3600, 2**28, 2**20)
    assert (exact.keep, config.cache.semantic.enabled, config.cache.prefix.isolate) == ("deterministic", False, "none")
    queue = config.queue
    assert (queue.max_requests, queue.max_bytes, queue.max_tokens) == (1024, 2**28, 8_000_000)
    assert (queue.max_wait.realtime, queue.max_wait.standard, queue.max_wait.batch) == (30, 60, 240)
    assert (queue.weights.realtime, queue.weights.standard, queue.weights.batch) == (16, 4, 1)
    assert dataclasses.astuple(config.health) == (2, 2, 3, 1)
    assert dataclasses.astuple(config.breaker) == (5, 5, 60)
    assert (config.tenants, dict(config.plans), config.observability.log) == ((), {}, "json")


def test_the_config_of_the_repository_is_valid():
    """It needs no variable of the environment and uses only what is built."""
    config = load(Path(__file__).parents[2] / "config.yaml", env={})
    assert [model.tier for model in config.models] == ["small", "large"]
    assert {tenant.plan for tenant in config.tenants} == {"pro", "free"}


def test_the_tree_is_frozen():
    """Nothing of a config can be set, added or replaced."""
    config = parse(ONE + "plans: {free: {rpm: 1}}")
    with pytest.raises(dataclasses.FrozenInstanceError):
        config.server.port = 1
    with pytest.raises(TypeError):
        config.plans["free"] = None


def test_texts_are_taken_as_written():
    """YAML's own guesses do not apply: a version is no number or date, and `off` is a word where a word is expected."""
    config = parse(ONE.replace("name: a,", "name: a, version: 2024-09-01,") + "observability: {log: off}")
    assert (config.models[0].version, config.observability.log) == ("2024-09-01", "off")


def test_numbers_may_have_underscores_or_quotes():
    """`20_000`, and a number inside quotes, as variables need them."""
    plan = parse(ONE + 'plans: {free: {rpm: 20_000, tpm: "30", max_parallel: null}}').plans["free"]
    assert (plan.rpm, plan.tpm, plan.max_parallel, plan.burst) == (20_000, 30, None, 60.0)


def test_variables_are_filled_in():
    """As the whole or a part of a text, several in one, and where a number or a duration is expected."""
    text = (
        ONE.replace("127.0.0.1:1", "${H}:${P:-80}") + 'server: {port: "${PORT}", drain_timeout: "${N}s", host: "${NONE:-::1}"}\n'
    )
    config = parse(text, env={"H": "host", "PORT": "81", "N": "5"})
    assert config.models[0].replicas[0].url == "http://host:80/v1"
    assert (config.server.port, config.server.drain_timeout, config.server.host) == (81, 5, "::1")


def test_a_default_stands_in_for_an_empty_variable():
    """As in a shell: `:-` is for unset and for empty; without it empty is a value."""
    text = ONE.replace("name: a,", 'name: a, version: "${A:-x}${B:-y}${A}",')
    assert parse(text, env={"A": "", "B": "b"}).models[0].version == "xb"


def test_a_variable_is_not_expanded_twice():
    """A value that looks like a variable is a value, and a doubled dollar writes one down."""
    text = ONE.replace("name: a,", 'name: a, version: "${A} $${A} $A",')
    assert parse(text, env={"A": "${B}"}).models[0].version == "${B} ${A} $A"


def test_an_empty_variable_is_no_limit():
    """Where null is allowed, a variable may say so."""
    assert parse(ONE + 'plans: {p: {rpm: "${R:-}", tpm: "${T:-null}"}}', env={}).plans["p"].rpm is None


def test_an_emptied_section_has_its_defaults():
    """A section, a list or a map whose lines are commented out is as if it were left out."""
    assert parse(ONE + "server:\ncache:\n  exact:\ntenants:\nplans:\n") == parse(ONE)


def test_paths_are_relative_to_the_file():
    """Whatever the working directory is; an absolute path stays."""
    assert parse(ONE, "/etc/tiergate/config.yaml").keys.path == Path("/etc/tiergate/data/keys.json")
    assert parse(ONE + "keys: {path: k.json}", "/etc/x.yaml").keys.path == Path("/etc/k.json")
    assert parse(ONE + "keys: {path: /k.json}", "/etc/x.yaml").keys.path == Path("/k.json")


def paths_of(value):
    """Every path in a config."""
    if isinstance(value, Path):
        yield value
    elif dataclasses.is_dataclass(value):
        for one in dataclasses.fields(value):
            yield from paths_of(getattr(value, one.name))
    elif isinstance(value, tuple):
        for one in value:
            yield from paths_of(one)


def test_no_path_is_one_of_the_working_directory(tmp_path):
    """Whatever key it stands at."""
    shutil.copy(SHIPPED, tmp_path / "own.policy")
    tls = "{ca: ca.pem, cert: c.pem, key: k.pem}"
    text = f"""
server: {{tls: {{cert: c.pem, key: k.pem, client_ca: ca.pem}}}}
models:
  - name: m
    tls: {tls}
    warm: {{prompts: [{{file: p.txt, tools: t.json}}]}}
    replicas: [{{name: r, url: "https://127.0.0.1:1/v1", tls: {tls}}}]
routing:
  classifier: {{kind: learned, policy: own.policy}}
"""
    learned = parse(text, tmp_path / "config.yaml")
    remote = text.replace("kind: learned, policy: own.policy", f"kind: remote, url: 'https://c:1/', tls: {tls}")
    found = [*paths_of(learned), *paths_of(parse(remote, tmp_path / "config.yaml"))]
    assert {path.parent for path in found} >= {tmp_path}
    assert [path for path in found if not path.is_relative_to(tmp_path)] == []
    assert len(found) >= 24


def test_tiers_have_an_order_by_default():
    """small, medium and large in this order, then others as they appear; the dearest takes what cannot be rated."""
    assert parse(MODELS).routing.tiers == ("small", "large")
    routing = parse(MODELS.replace("tier: small", "tier: huge")).routing
    assert (routing.tiers, routing.classifier.default_tier) == (("large", "huge"), "huge")
    assert parse(MODELS + "routing: {tiers: [large, small]}").routing.classifier.default_tier == "small"


def test_a_model_may_override_single_deadlines():
    """What it leaves out is the fleet's."""
    config = parse(MODELS.replace("tier: small", "tier: small\n    timeouts: {total: 10s}") + "timeouts: {connect: 1s}")
    first, second = (config.timeouts_of(model) for model in config.models)
    assert (first.connect, first.total, second.total) == (1, 10, 290)


def test_aliases_of_yaml_are_values():
    """An anchor may be used again, with the same meaning."""
    config = parse(MODELS + "plans: {a: &p {rpm: 5}, b: *p}")
    assert config.plans["a"] == config.plans["b"]


def test_keys_of_the_config_may_expire():
    """A date is the end of that day, a time without a zone is UTC."""
    key = "{{id: k{0}, sha256: '{0:064x}', expires: {1}}}"
    times = ["1970-01-02", "1970-01-02T00:00:01", "'1970-01-02 01:00:01+01:00'"]
    keys = ", ".join(key.format(index, moment) for index, moment in enumerate(times))
    tenant = parse(ONE + f"tenants: [{{name: t, keys: [{keys}]}}]").tenants[0]
    assert [key.expires for key in tenant.keys] == [2 * 86400 - 1, 86401, 86401]


def test_a_secret_does_not_show_itself():
    """Neither printed nor formatted, alone or inside the tree; `reveal` gives it."""
    config = parse(MODELS + "admin: {key: hunter2}")
    assert (str(config.admin.key), repr(config.admin.key), f"{config.admin.key:>3}") == ("***",) * 3
    assert "hunter2" not in repr(config)
    assert "sk-1" not in repr(config)
    assert config.admin.key.reveal() == "hunter2"
    assert config.admin.key == Secret("hunter2")
    assert config.admin.key
    assert not config.models[0].replicas[0].api_key


def test_a_byte_order_mark_is_no_error(tmp_path):
    """Some editors write one."""
    file = tmp_path / "config.yaml"
    file.write_text("\ufeff" + ONE)
    assert load(file).models[0].name == "a"


def test_limits_on_a_server():
    """They need the extra `redis`, have a deadline of their own, and say who decides without the server."""
    config = parse(ONE + "limits: {store: redis}\n")
    assert (config.limits.store, config.limits.timeout, config.limits.on_outage) == ("redis", 0.05, "local")
    assert missing(config, lambda _: True) == []
    assert missing(config, lambda module: module != "redis") == [
        (("limits", "store"), "not installed: redis: pip install 'tiergate[redis]'")
    ]

"""Discovery, TLS and trusted proxies in the config: what is accepted, what is refused and where."""

import importlib.util
from pathlib import Path

import pytest

from gateway.config import ConfigError, effective, parse

BASE = "models:\n  - name: m\n"
STATIC = '    replicas: [{name: r, url: "https://h/v1"}]\n'


def problems(text):
    with pytest.raises(ConfigError) as error:
        parse(text, "/etc/tiergate/config.yaml", {})
    return [f"{problem.line}:{problem.column}: {problem.path}: {problem.message}" for problem in error.value.errors]


def discover(entry):
    return f"{BASE}    discover:\n      - {entry}\n"


def test_each_kind_of_discovery():
    """A model with `discover` needs no replicas; a file's path starts from the config's folder; what is shown reads back."""
    text = f"""{BASE}    discover:
      - {{kind: dns, name: vllm.svc, port: 8000, scheme: http, path: /v1, every: 10s}}
      - {{kind: srv, name: _http._tcp.vllm.svc, servers: ["127.0.0.1:8600", "[::1]:53"]}}
      - {{kind: file, path: ./replicas.yaml, api_key: hunter2}}
"""
    config = parse(text, "/etc/tiergate/config.yaml", {})
    dns, srv, file = config.models[0].discover
    assert (dns.port, dns.every, srv.every, srv.servers) == (8000, 10.0, None, ("127.0.0.1:8600", "[::1]:53"))
    assert file.path == "/etc/tiergate/replicas.yaml"
    assert "hunter2" not in effective(config)
    again = parse(effective(config), "/etc/tiergate/config.yaml", {})
    assert again.models[0].discover[:2] == (dns, srv)


@pytest.mark.parametrize(
    ("entry", "problem"),
    [
        ("{kind: dns, name: a}", '4:9: models[0].discover[0]: missing key "port": kind dns needs it'),
        ("{kind: dns, port: 1}", '4:9: models[0].discover[0]: missing key "name": kind dns needs it'),
        ("{kind: file}", '4:9: models[0].discover[0]: missing key "path": kind file needs it'),
        ("{kind: file, path: x, port: 1}", "4:37: models[0].discover[0].port: has no meaning for kind file"),
        ("{kind: srv, name: a, port: 1}", "4:36: models[0].discover[0].port: has no meaning for kind srv"),
        ("{kind: dns, name: a b, port: 1}", "4:27: models[0].discover[0].name: not a name that can be looked up"),
        ("{kind: dns, name: a/b@c, port: 1}", "4:27: models[0].discover[0].name: not a name that can be looked up"),
        ("{kind: dns, name: a, port: 1, path: v1}", "4:45: models[0].discover[0].path: expected the path of a URL such as /v1"),
        ("{kind: dns, name: a, port: 1, path: /?x}", "4:45: models[0].discover[0].path: expected the path of a URL such as /v1"),
        ("{kind: dns, name: a, port: 0}", "4:36: models[0].discover[0].port: expected a whole number from 1 to 65535"),
        ("{kind: consul, name: a}", '4:16: models[0].discover[0].kind: unknown kind of discovery "consul"'),
        ("{kind: srv, name: a, every: 0s}", "4:37: models[0].discover[0].every: expected a duration"),
        ("{kind: srv, name: a, servers: [x]}", "4:40: models[0].discover[0].servers[0]: expected a listener"),
        ("{kind: srv, name: a}\n      - {kind: srv, name: a}", "5:9: models[0].discover[1]: this very source is taken already"),
    ],
)
def test_mistakes_in_discovery(entry, problem):
    """Each is found at its place, alone."""
    (found,) = problems(discover(entry))
    assert found.startswith(problem)


@pytest.mark.parametrize("entry", ["{kind: srv, name: a}", '{kind: dns, name: a, port: 1, servers: ["127.0.0.1:53"]}'])
def test_dnspython_is_missed_when_it_is_needed(monkeypatch, entry):
    """Only what needs it asks for it, with the extra's name."""
    real = importlib.util.find_spec
    monkeypatch.setattr("gateway.config.fleet_checks.find_spec", lambda name: None if name == "dns" else real(name))
    assert problems(discover(entry)) == ["4:9: models[0].discover[0]: needs the package dnspython: install tiergate[dns]"]
    assert parse(discover("{kind: dns, name: a, port: 1}"), "c.yaml", {}).models


@pytest.mark.parametrize("tail", ["", "    replicas: []\n", "    discover: []\n"])
def test_a_model_needs_replicas_or_discovery(tail):
    """Neither is an error at the model."""
    (found,) = problems(BASE + "    tier: small\n" + tail)
    assert found.endswith('models[0].replicas: must not be empty where there is no "discover"')


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("server: {tls: {cert: a}}\n", '1:15: server.tls: missing key "key"'),
        ("server: {tls: {cert: a, key: b, ca: c}}\n", "1:33: server.tls.ca: unknown key"),
        ("server: {trusted_proxies: [10.0.0.0/33]}\n", "1:28: server.trusted_proxies[0]: expected a network such as 10.0.0.0/8"),
        ("server: {trusted_proxies: [10.0.0.1/8]}\n", "1:28: server.trusted_proxies[0]: expected a network such as"),
    ],
)
def test_mistakes_in_the_server(text, problem):
    """TLS needs both files, a network is one."""
    (found,) = problems(text + BASE + STATIC)
    assert found.startswith(problem)


@pytest.mark.parametrize(
    ("tls", "problem"),
    [
        ("{key: k}", "3:16: models[0].tls.key: a key without a cert"),
        ("{ca: c, verify: false}", "3:26: models[0].tls.verify: a ca is given, but nothing is verified"),
    ],
)
def test_mistakes_in_tls_to_the_replicas(tls, problem):
    """Settings that contradict each other."""
    assert problems(f"{BASE}    tls: {tls}\n{STATIC}") == [problem]


def test_tls_for_plain_http_is_a_mistake():
    """Somebody meant https."""
    plain = STATIC.replace("https", "http")
    assert problems(f"{BASE}    tls: {{verify: false}}\n{plain}") == ["3:10: models[0].tls: tls needs an https:// URL"]


def test_paths_start_from_the_config():
    """Of the listener's and of each backend's files; secrets are hidden."""
    tls = "{ca: ./ca.pem, cert: /abs/c.pem, key: k.pem, key_password: hunter2}"
    text = f"server: {{tls: {{cert: c.pem, key: k.pem, key_password: hunter2}}}}\n{BASE}    tls: {tls}\n{STATIC}"
    config = parse(text, "/etc/tiergate/config.yaml", {})
    assert config.server.tls.cert == Path("/etc/tiergate/c.pem")
    assert config.models[0].tls.ca == Path("/etc/tiergate/ca.pem")
    assert config.models[0].tls.cert == Path("/abs/c.pem")
    assert "hunter2" not in effective(config)
    assert "hunter2" not in repr(config)


HEARD = """models:
  - name: m
    balance: {precise: {}}
    replicas: [{name: r, url: "http://h/v1", events: "tcp://h:5557", replay: "ipc:///run/kv"}]
"""


def test_engines_that_are_heard():
    """`precise: {}` is enough, and what is shown reads back."""
    config = parse(HEARD, "/c.yaml", {})
    assert config.models[0].balance.precise.timeout == 0.02
    assert config.models[0].replicas[0].events == "tcp://h:5557"
    assert parse(effective(config), "/c.yaml", {}) == config


@pytest.mark.parametrize(
    ("change", "by", "complaint"),
    [
        (', events: "tcp://h:5557", replay: "ipc:///run/kv"', "", "balance.precise: no replica has `events`"),
        (', events: "tcp://h:5557"', "", "replicas[0].replay: without `events` there is nothing to replay"),
        ("precise: {}", "kind: work_cost", "replicas[0].events: nobody would listen"),
        ("precise: {}", "kind: round_robin, precise: {}", "balance.precise: is for kind openai, with a balance of kind"),
        ("tcp://h:5557", "http://h:5557", "replicas[0].events: expected an address such as tcp://"),
        ("tcp://h:5557", "tcp://*:5557", "replicas[0].events: expected an address such as tcp://"),
        ("tcp://h:5557", "tcp://h:0", "replicas[0].events: expected an address such as tcp://"),
    ],
)
def test_engines_that_cannot_be_heard(change, by, complaint):
    """What would be listened to by nobody, or says nothing, is an error at its place."""
    assert any(complaint in problem for problem in problems(HEARD.replace(change, by)))


def heard(*models):
    """Models of replicas that each are (name, URL's host, events' port, replay's port)."""
    text = "models:\n"
    for number, replicas in enumerate(models):
        text += f"  - name: m{number}\n    balance: {{precise: {{}}}}\n    replicas:\n"
        for name, host, events, replay in replicas:
            text += f'      - {{name: {name}, url: "http://{host}/v1", events: "tcp://h:{events}", replay: "tcp://h:{replay}"}}\n'
    return text


@pytest.mark.parametrize(
    ("models", "place", "whose"),
    [
        ([[("a", "x", 1, 2), ("b", "y", 1, 4)]], "6:47: models[0].replicas[1].events", '`events` of replica "a"'),
        ([[("a", "x", 1, 2), ("b", "y", 3, 2)]], "6:68: models[0].replicas[1].replay", '`replay` of replica "a"'),
        ([[("a", "x", 1, 2), ("b", "y", 3, 1)]], "6:68: models[0].replicas[1].replay", '`events` of replica "a"'),
        ([[("a", "x", 1, 1)]], "5:68: models[0].replicas[0].replay", '`events` of replica "a"'),
        ([[("a", "x", 1, 2)], [("a", "y", 1, 4)]], "9:47: models[1].replicas[0].events", '`events` of replica "a" of "m0"'),
    ],
)  # fmt: skip
def test_two_replicas_of_one_address_of_events(models, place, whose):
    """A line that was copied and not changed to its end: the error is at the second one and names the first."""
    (found,) = problems(heard(*models))
    assert found.startswith(place)
    assert f"{whose} already (on line 5)" in found


def test_one_engine_of_two_models_is_heard_by_both():
    """Its URL is the same then."""
    assert parse(heard([("a", "x", 1, 2)], [("b", "x", 1, 2)]), "/c.yaml", {}).models


def test_gateways_that_share_need_one_secret():
    """Without it they would not understand each other; with it, and by default, nothing is missing."""
    share = "fleet: {share: redis}\n"
    assert [it for it in problems(f"{BASE}{STATIC}{share}") if "fleet.share: share redis needs cache.secret" in it]
    (short,) = problems(f"{BASE}{STATIC}{share}cache: {{secret: 0123456789abcde}}\n")
    assert short.startswith("5:17: cache.secret: too short for fleet.share")
    assert "0123" not in short
    long = f"{BASE}{STATIC}{share}cache: {{secret: 0123456789abcdef}}\n"
    assert parse(long, "/etc/tiergate/config.yaml", {}).fleet.share == "redis"
    assert parse(f"{BASE}{STATIC}cache: {{secret: s}}\n", "/etc/tiergate/config.yaml", {}).cache.secret
    assert parse(f"{BASE}{STATIC}", "/etc/tiergate/config.yaml", {}).fleet.share == "none"

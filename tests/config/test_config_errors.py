"""Every mistake is found at its place, all of them at once, and no message says too much."""

import pytest

from gateway.config import ConfigError, load, parse

HASH = "0" * 63 + "1"
BASE = """\
server: {port: 8000}
models:
  - name: a
    tier: small
    replicas:
      - {name: r1, url: "http://10.0.0.1:8000/v1"}
  - name: b
    tier: large
    replicas:
      - {name: r1, url: "http://10.0.0.2:8000/v1"}
routing:
  aliases: {x: a}
plans:
  pro: {rpm: 10}
tenants:
  - name: acme
    plan: pro
    models: ["*"]
"""

CASES = {
    "an unknown key": ("server: {port", "server: {prot", '1:10: server.prot: unknown key; did you mean "port"?'),
    "an unknown top-level key": ("plans:\n", "planz:\n", '13:1: planz: unknown key; did you mean "plans"?'),
    "a key like nothing": ("server: {port", "server: {zzzzzz", "1:10: server.zzzzzz: unknown key"),
    "a key in a replica": (
        '{name: r1, url: "http://10.0.0.2',
        '{name: r1, urll: "http://10.0.0.2',
        '10:20: models[1].replicas[0].urll: unknown key; did you mean "url"?',
    ),
    "a duplicate key": (
        "tier: small",
        "tier: small\n    tier: large",
        "5:5: models[0].tier: duplicate key; the first is on line 4",
    ),
    "a missing key": ("- name: b\n    tier: large", "- tier: large", '7:5: models[1]: missing key "name"'),
    "a list too few": ('models: ["*"]', 'models: "*"', "18:13: tenants[0].models: expected a list, got a single value"),
    "a section too few": ("{port: 8000}", "8000", "1:9: server: expected keys and values, got a single value"),
    "a value too few": ("tier: small", "tier: [small]", "4:11: models[0].tier: expected a name of letters"),
    "no number": ("8000}", "http}", '1:16: server.port: expected a whole number from 0 to 65535, got "http"'),
    "a number out of range": ("8000}", "65536}", '1:16: server.port: expected a whole number from 0 to 65535, got "65536"'),
    "no limit at zero": ("rpm: 10", "rpm: 0", '14:14: plans.pro.rpm: expected a whole number, at least 1, got "0"'),
    "no fraction": ("rpm: 10", "rpm: 1.5", "14:14: plans.pro.rpm: expected a whole number"),
    "a burst too short": ("rpm: 10", "rpm: 10, burst: 500ms", "14:25: plans.pro.burst: expected a duration from 1s to 1h"),
    "a burst too long": ("rpm: 10", "rpm: 10, burst: 2h", "14:25: plans.pro.burst: expected a duration from 1s to 1h"),
    "no duration": ("{port: 8000}", "{drain_timeout: 2 fortnights}", "1:25: server.drain_timeout: expected a duration such as"),
    "a duration of nothing": ("{port: 8000}", "{drain_timeout: 0}", "1:25: server.drain_timeout: expected a duration from 1ms"),
    "no size": ("{port: 8000}", "{max_body: 16 blocks}", "1:20: server.max_body: expected a size such as"),
    "no flag": (
        "routing:",
        "cache: {exact: {enabled: maybe}}\nrouting:",
        '11:26: cache.exact.enabled: expected true or false, got "maybe"',
    ),
    "no threshold": (
        "routing:",
        "routing:\n  classifier: {threshold: 2}",
        "12:27: routing.classifier.threshold: expected a number from 0 to 1",
    ),
    "nothing": (
        "{port: 8000}",
        "{port: ~}",
        "1:16: server.port: expected a whole number from 0 to 65535, got nothing; leave the key out",
    ),
    "no URL": ("http://10.0.0.1:8000/v1", "10.0.0.1:8000", "6:25: models[0].replicas[0].url: expected a URL such as"),
    "another scheme": ("http://10.0.0.1:8000/v1", "ftp://10.0.0.1/", "6:25: models[0].replicas[0].url: expected a URL such as"),
    "a URL with a password": (
        "http://10.0.0.1:8000/v1",
        "http://u:p@10.0.0.1/",
        "6:25: models[0].replicas[0].url: a URL must not hold credentials",
    ),
    "a URL with a query": (
        "http://10.0.0.1:8000/v1",
        "http://10.0.0.1/?",
        "6:25: models[0].replicas[0].url: a URL must not hold a query",
    ),
    "a port that is none": (
        "http://10.0.0.1:8000/v1",
        "http://10.0.0.1:99999/",
        "6:25: models[0].replicas[0].url: expected a URL such as",
    ),
    "no listener": ("{port: 8000}", '{metrics: "9090"}', "1:19: server.metrics: expected a listener such as"),
    "no balance kind": (
        "tier: small",
        "tier: small\n    balance: {kind: best}",
        '5:21: models[0].balance.kind: unknown balance kind "best"; expected one of round_robin, ',
    ),
    "an unknown endpoint": (
        "tier: small",
        "tier: small\n    endpoints: [chat, images]",
        '5:23: models[0].endpoints[1]: unknown endpoint "images"; expected one of chat, completions, embeddings, responses, ',
    ),
    "no endpoint": (
        "tier: small",
        "tier: small\n    endpoints: [images]",
        '5:17: models[0].endpoints[0]: unknown endpoint "images"',
    ),
    "no endpoints": ("tier: small", "tier: small\n    endpoints: []", "5:16: models[0].endpoints: must not be empty"),
    "no capability": (
        "tier: small",
        "tier: small\n    capabilities: [tool]",
        '5:20: models[0].capabilities[0]: unknown capability "tool"',
    ),
    "a concurrency that nobody knows": (
        "tier: small",
        "tier: small\n    concurrency: {kind: adaptve}",
        '5:25: models[0].concurrency.kind: unknown concurrency kind "adaptve"; expected one of fixed, adaptive',
    ),
    "more slots at least than at most": (
        "tier: small",
        "tier: small\n    concurrency: {kind: adaptive, max: 8, min: 9}",
        "5:48: models[0].concurrency.min: must not be above max, which is 8",
    ),
    "no workers": ("{port: 8000}", "{workers: 0}", '1:19: server.workers: expected a whole number from 1 to 256, got "0"'),
    "a preset that is none": (
        "routing:",
        "cache: {semantic: {preset: lax}}\nrouting:",
        '11:28: cache.semantic.preset: unknown preset "lax"; expected one of strict, balanced',
    ),
    "a judge that is no model": (
        "routing:",
        "cache: {semantic: {shadow: {judge: nobody}}}\nrouting:",
        '11:36: cache.semantic.shadow.judge: unknown model "nobody"',
    ),
    "an embedder without its model": (
        "routing:",
        "cache: {semantic: {embedder: {kind: pool}}}\nrouting:",
        "11:37: cache.semantic.embedder.kind: embedder kind pool needs a model",
    ),
    "no store of limits": (
        "routing:",
        "limits: {store: file}\nrouting:",
        '11:17: limits.store: unknown limits store "file"; expected one of memory, redis',
    ),
    "a remote classifier without an address": (
        "routing:",
        "routing:\n  classifier: {kind: remote}",
        "12:22: routing.classifier.kind: classifier kind remote needs a url",
    ),
    "tls of a classifier that nobody asks over it": (
        "routing:",
        "routing:\n  classifier: {kind: remote, url: 'http://c:1/', tls: {verify: false}}",
        "12:55: routing.classifier.tls: tls needs an https:// URL",
    ),
    "tls of a classifier that is not asked": (
        "routing:",
        "routing:\n  classifier: {tls: {verify: false}}",
        "12:21: routing.classifier.tls: classifier kind rules has no tls",
    ),
    "a cascade of two models where there is one": (
        "routing:",
        "routing:\n  routes: {auto: {cascade: {check: models}}}",
        '12:36: routing.routes.auto.cascade.check: needs two models of the tier "small"',
    ),
    "examples of one tier": (
        "routing:",
        "routing:\n  classifier: {kind: embedding, examples: {small: [x]}}",
        "12:22: routing.classifier.kind: classifier kind embedding needs examples of two tiers",
    ),
    "examples that nobody reads": (
        "routing:",
        "routing:\n  classifier: {examples: {small: [x], large: [y]}}",
        "12:26: routing.classifier.examples: classifier kind rules has no examples",
    ),
    "a fixed classifier without a tier": (
        "routing:",
        "routing:\n  classifier: {kind: fixed}",
        "12:22: routing.classifier.kind: classifier kind fixed needs a tier",
    ),
    "no tier": (
        "routing:",
        "routing:\n  classifier: {kind: fixed, tier: smal}",
        '12:35: routing.classifier.tier: unknown tier "smal"; did you mean "small"?',
    ),
    "no default tier": (
        "routing:",
        "routing:\n  classifier: {default_tier: medium}",
        '12:30: routing.classifier.default_tier: unknown tier "medium"',
    ),
    "a tier forgotten": (
        "routing:",
        "routing:\n  tiers: [small]",
        '8:11: models[1].tier: the tier "large" is missing from routing.tiers',
    ),
    "a tier too many": (
        "routing:",
        "routing:\n  tiers: [small, medium, large]",
        '12:18: routing.tiers[1]: unknown tier "medium"',
    ),
    "a tier twice": (
        "routing:",
        "routing:\n  tiers: [small, large, small]",
        '12:25: routing.tiers[2]: the tier "small" is taken already: on line 12',
    ),
    "a fallback of nothing": (
        "routing:",
        "routing:\n  fallback: {small: lrge}",
        '12:21: routing.fallback.small: unknown tier "lrge"; did you mean "large"?',
    ),
    "a fallback from nothing": (
        "routing:",
        "routing:\n  fallback: {smal: large}",
        '12:20: routing.fallback.smal: unknown tier "smal"; did you mean "small"?',
    ),
    "a fallback to itself": (
        "routing:",
        "routing:\n  fallback: {small: small}",
        "12:21: routing.fallback.small: a tier cannot be its own fallback",
    ),
    "an alias of nothing": ("{x: a}", "{x: aa}", '12:16: routing.aliases.x: unknown model "aa"'),
    "an alias of an alias": ("{x: a}", "{x: a, y: x}", '12:22: routing.aliases.y: "x" is an alias itself: name a model'),
    "an alias that is a model": ("{x: a}", "{b: a}", '12:16: routing.aliases.b: the model name "b" is taken already: on line 7'),
    "an alias that is auto": (
        "{x: a}",
        "{auto: a}",
        '12:19: routing.aliases.auto: the model name "auto" is taken already: routing.auto',
    ),
    "a model twice": ("name: b", "name: a", '7:11: models[1].name: the model name "a" is taken already: on line 3'),
    "an adapter that is a model": (
        "tier: small",
        "tier: small\n    adapters: [{name: b}]",
        '8:11: models[1].name: the model name "b" is taken already: on line 5',
    ),
    "a model called auto": (
        "name: b",
        "name: auto",
        '7:11: models[1].name: the model name "auto" is taken already: routing.auto',
    ),
    "no model name": (
        "name: b",
        "name: b c",
        '7:11: models[1].name: expected a name of letters, digits and . _ - : @ + / (at most 200), got "b c"',
    ),
    "a replica twice": (
        'url: "http://10.0.0.1:8000/v1"}',
        'url: "http://h"}\n      - {name: r1, url: "http://i"}',
        '7:16: models[0].replicas[1].name: a replica "r1" of this model is taken already: on line 6',
    ),
    "no replicas": (
        '    replicas:\n      - {name: r1, url: "http://10.0.0.1:8000/v1"}',
        "    replicas: []",
        "5:15: models[0].replicas: must not be empty",
    ),
    "a model's fallback to nothing": (
        "tier: small",
        "tier: small\n    fallback: [c]",
        '5:16: models[0].fallback[0]: unknown model "c"',
    ),
    "a model's fallback to itself": (
        "tier: small",
        "tier: small\n    fallback: [a]",
        "5:16: models[0].fallback[0]: a model cannot be its own fallback",
    ),
    "no plan": ("plan: pro", "plan: prp", '17:11: tenants[0].plan: unknown plan "prp"; did you mean "pro"?'),
    "limits of no model": ("{rpm: 10}", "{rpm: 10, models: {c: {rpm: 1}}}", '14:30: plans.pro.models.c: unknown model "c"'),
    "no priority": (
        "{rpm: 10}",
        "{priority: urgent}",
        '14:19: plans.pro.priority: unknown priority "urgent"; expected one of realtime, standard, batch',
    ),
    "a tenant's model that is none": ('["*"]', '[a, "b*", c]', '18:23: tenants[0].models[2]: unknown model "c"'),
    "no model pattern": ('["*"]', '["a b"]', "18:14: tenants[0].models[0]: expected a model name or a pattern"),
    "a tenant twice": (
        "tenants:\n",
        "tenants:\n  - {name: acme}\n",
        '17:11: tenants[1].name: the tenant "acme" is taken already: on line 16',
    ),
    "a tenant with a slash": ("name: acme", "name: a/cme", "16:11: tenants[0].name: expected a name of letters"),
    "a key id twice": (
        "plan: pro",
        f"plan: pro\n    keys: [{{id: k, sha256: {HASH}}}, {{id: k, sha256: {HASH[:-1]}2}}]",
        '18:100: tenants[0].keys[1].id: a key "k" of this tenant is taken already: on line 18',
    ),
    "a key twice": (
        "plan: pro",
        f"plan: pro\n    keys:\n      - {{id: k, sha256: {HASH}}}\n      - {{id: l, sha256: {HASH}}}",
        "20:25: tenants[0].keys[1].sha256: this very key is taken already: on line 19",
    ),
    "no hash": (
        "plan: pro",
        "plan: pro\n    keys: [{id: k, sha256: abc}]",
        "18:28: tenants[0].keys[0].sha256: expected 64 hex digits: the SHA-256 of the key",
    ),
    "no date": (
        "plan: pro",
        f"plan: pro\n    keys: [{{id: k, sha256: {HASH}, expires: soon}}]",
        "18:103: tenants[0].keys[0].expires: expected a date such as",
    ),
    "an unset variable": (
        "8000}",
        '"${NOT_SET}"}',
        "1:16: server.port: environment variable NOT_SET is not set, and has no default",
    ),
    "a malformed variable": ("name: b", 'name: "b${1}"', "7:11: models[1].name: expected ${NAME} or ${NAME:-default}"),
    "an unclosed variable": ("name: b", 'name: "b${X"', "7:11: models[1].name: expected ${NAME} or ${NAME:-default}"),
    "an entry larger than the cache": (
        "routing:",
        "cache: {exact: {max_bytes: 1KiB}}\nrouting:",
        "11:16: cache.exact.max_entry: larger than max_bytes",
    ),
    "a breaker that opens too long": ("routing:", "breaker: {open: 2m}\nrouting:", "11:17: breaker.open: longer than max_open"),
    "no secret": ("routing:", 'admin: {key: "a b"}\nrouting:', "11:14: admin.key: expected at most 512 visible ASCII characters"),
    "no redis": ("routing:", 'redis: {url: "http://x"}\nrouting:', "11:14: redis.url: expected a URL such as redis://"),
    "a variable without quotes": (
        "8000}",
        "${PORT}, host: h}",
        "; ${…} inside braces needs quotes",
    ),
    "no size at all": (
        "{port: 8000}",
        "{max_body: 0}",
        "1:20: server.max_body: expected a size from 1 byte to 1024 TiB",
    ),
    "a plan's name": ("pro: {rpm: 10}", 'pro: {rpm: 10}\n  "a/b": {}', "15:3: plans.a/b: expected a name of letters"),
    "an alias of a list": ("{x: a}", "{x: [a]}", "12:16: routing.aliases.x: expected a name of letters"),
    "a moment too late": (
        "plan: pro",
        f"plan: pro\n    keys: [{{id: k, sha256: {HASH}, expires: 9999-12-31T23:59:59-05:00}}]",
        "18:103: tenants[0].keys[0].expires: expected a moment from 1970 to 9998",
    ),
    "no path": ("routing:", 'keys: {path: ""}\nrouting:', "11:14: keys.path: expected a path"),
    "a tab": ("  aliases", "\t aliases", "12:1: not valid YAML: "),
    "an open bracket": ('["*"]', '["*"', "not valid YAML: "),
    "a tag": ("name: b", "name: !!python/name:os.system b", "7:11: YAML tags (!…) are not supported"),
    "a plain tag": ("name: b", "name: !!str b", "7:11: YAML tags (!…) are not supported"),
    "a merge key": ("{rpm: 10}", "{<<: {rpm: 1}}", "14:9: plans.pro: merge keys (<<) are not supported"),
    "a key that is a list": ("{rpm: 10}", "{[a]: 1}", "14:9: plans.pro: a key must be a word"),
    "an alias of its own": ("{x: a}", "&x {x: *x}", '12:19: the alias "x" holds itself'),
    "an anchor that is none": ("{x: a}", "*x", "12:12: "),
    "two documents": ("tenants:\n", "---\ntenants:\n", "15:1: a second YAML document"),
    "a control character": ("name: acme", "name: ac\x1bme", "16:13: the character U+001B is not allowed"),
}


def problems(text, path="config.yaml", env=None):
    with pytest.raises(ConfigError) as caught:
        parse(text, path, env if env is not None else {})
    return [str(problem) for problem in caught.value.errors]


def test_the_text_that_the_cases_start_from_is_valid():
    """So that what is found is what was planted."""
    assert parse(BASE, env={}).tenants[0].name == "acme"


@pytest.mark.parametrize("case", CASES)
def test_a_planted_mistake_is_found_at_its_place(case):
    """One line for it: file, line, column, path and what is wrong; and nothing but that."""
    old, new, expected = CASES[case]
    assert BASE.count(old) == 1
    found = problems(BASE.replace(old, new))
    if case == "an unknown top-level key":  # then the tenant's plan is unknown, too
        found = found[:1]
    assert len(found) == 1, found
    assert found[0].startswith("config.yaml:")
    assert expected in found[0]


def test_all_mistakes_come_at_once_and_by_line():
    """Faults of form and faults of meaning together, in the order of the file."""
    text = (
        BASE.replace("8000}", "x}").replace("name: b", "nme: b").replace("plan: pro", "plan: pri").replace("rpm: 10", "rpm: -1")
    )
    lines = [int(line.split(":")[1]) for line in problems(text)]
    assert lines == [1, 7, 14, 17]


def test_a_name_that_could_not_be_read_causes_no_further_errors():
    """With a model's name unreadable, nothing that names a model is called unknown."""
    found = problems(BASE.replace("name: a\n", "name: ${A}\n"))
    assert found == ["config.yaml:3:11: models[0].name: environment variable A is not set, and has no default"]


def test_values_of_the_environment_are_never_repeated():
    """Neither where they are wrong, nor as what another value may have meant."""
    env = {"V": "hunter2", "W": "hunter22"}
    text = BASE.replace("name: b", 'name: "${V}"').replace("{x: a}", "{x: hunter3, y: '${W}', z: '${V}-'}")
    text = text.replace("8000}", '"${V}"}').replace("plan: pro", 'plan: "${V}"').replace("rpm: 10", 'rpm: "x${V}"')
    found = problems(text.replace("tier: large", 'tier: large\n    balance: {kind: "${V}"}'), env=env)
    assert len(found) == 7
    assert not any("hunter2" in line for line in found)


def test_secrets_are_never_repeated():
    """A malformed key, hash or URL is not echoed."""
    text = BASE.replace('v1"}\nrouting', 'v1", api_key: "hunter2 x"}\nadmin: {key: "hunter2\\n"}\nrouting')
    text += "    keys: [{id: k, sha256: hunter2}]\nredis: {url: 'http://:hunter2@h'}\ncache: {secret: 'hunter2 '}\n"
    found = problems(text.replace("http://10.0.0.1:8000/v1", "http://u:hunter2@h:x/"))
    assert len(found) == 6
    assert not any("hunter2" in line for line in found)


def test_every_error_is_one_printable_line():
    """Whatever a key or a value holds."""
    found = problems('"a\\nb\\e[2J": 1\nserver: {host: "\\e[2J", port: "\\u2028"}\n' + "x" * 500 + ": 1\nmodels: []\n")
    assert len(found) == 5
    assert all(line.isprintable() and len(line) < 300 for line in found)


@pytest.mark.parametrize("text", ["", "# nothing\n", "~", "{}", "---\n..."])
def test_an_empty_file_misses_its_models(text):
    """An empty config is one error, not a traceback."""
    assert problems(text) == ['config.yaml:1:1: missing key "models"']


@pytest.mark.parametrize("text", ["just a word", "- a\n- b", "42"])
def test_a_file_that_is_no_mapping_says_so(text):
    """A list or a word at the top."""
    assert "expected keys and values" in problems(text)[0]


def test_many_mistakes_are_cut_off():
    """A file of nothing but mistakes costs little, and the last line counts the rest."""
    found = problems("".join(f"key{number}: 1\n" for number in range(60_000)))
    assert len(found) == 201
    assert found[-1].endswith("and 59801 more errors")


def test_an_alias_bomb_is_refused():
    """What aliases expand to is counted before anything is built from them."""
    levels = [f"l{n}: &l{n} [{', '.join([f'*l{n - 1}'] * 9)}]" for n in range(1, 12)]
    assert "more than 200,000 values" in problems("l0: &l0 [a, a]\n" + "\n".join(levels))[0]


@pytest.mark.parametrize("text", ["[" * 5000, "{a: " * 5000, "- " * 5000, "? " * 3000, "&a [" * 3000])
def test_deep_nesting_is_refused(text):
    """No recursion without a bound."""
    assert len(problems(text)) == 1


def test_a_large_file_is_refused(tmp_path):
    """Over four MiB nothing is parsed, from a file or from a text."""
    file = tmp_path / "config.yaml"
    file.write_text("# " + "x" * 2**22)
    with pytest.raises(ConfigError, match="larger than 4 MiB"):
        load(file)
    assert "larger than 4 MiB" in problems(file.read_text())[0]


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"models:\n  \xff\xfe", ":2:1: not UTF-8 text"),
        (b"\x7fELF\x00\x01", ":1:1: the character U+007F is not allowed"),
        (b"a\x00b", "U+0000"),
    ],
)
def test_a_binary_file_is_one_clear_line(tmp_path, data, message):
    """With its place, where there is one."""
    file = tmp_path / "config.yaml"
    file.write_bytes(data)
    with pytest.raises(ConfigError) as caught:
        load(file)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_file_that_cannot_be_read_is_one_clear_line(tmp_path):
    """Missing, a directory, or not a path at all."""
    for path, reason in ((tmp_path / "no.yaml", "No such file"), (tmp_path, "directory"), ("a\0b", "not a path")):
        with pytest.raises(ConfigError, match=reason) as caught:
            load(path)
        assert str(caught.value).startswith(f"{path}: cannot be read: ")

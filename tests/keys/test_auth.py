"""From headers to who calls."""

import hashlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.auth import Authenticator
from gateway.config import parse
from gateway.errors import ApiError
from gateway.keyfile import KeyFile, Terms
from gateway.keys import KeyRing
from limits.types import Scope
from limits.waiting import Priority

NOW = 1_800_000_000.0


def sha(key):
    return hashlib.sha256(key.encode("latin-1")).hexdigest()


CONFIG = f"""
models:
  - {{name: small, replicas: [{{name: r, url: "http://h/v1"}}]}}
  - {{name: org/large, replicas: [{{name: r, url: "http://h/v1"}}]}}
plans:
  pro: {{rpm: 100, tpm: 1000, priority: realtime, weight: 8, models: {{org/large: {{rpm: 6}}, small: {{}}}}}}
  open: {{priority: batch}}
tenants:
  - name: acme
    plan: pro
    max_parallel: 9
    keys:
      - {{id: k1, sha256: {sha("key-one")}, rpm: 5}}
      - {{id: k2, sha256: {sha("key-two")}, models: ["org/*", auto]}}
      - {{id: k3, sha256: {sha("key-old")}, expires: 2020-01-01}}
      - {{id: k4, sha256: {sha("k" * 513)}}}
      - {{id: k5, sha256: {sha("ké")}}}
      - {{id: k6, sha256: {sha("")}}}
  - {{name: beta, plan: open, models: [small, "sm*ll", auto], keys: [{{id: k1, sha256: {sha("key-beta")}}}]}}
  - {{name: solo, priority: batch, weight: 3, keys: [{{id: k, sha256: {sha("key-solo")}, models: []}}]}}
"""


class Clock:
    def __init__(self):
        self.now = NOW

    def __call__(self):
        return self.now


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def file(tmp_path, clock):
    return KeyFile(tmp_path / "keys.json", clock)


@pytest.fixture
def ring(tmp_path):
    return KeyRing(tmp_path / "keys.json", ["acme", "beta", "solo"])


@pytest.fixture
def auth(ring, clock):
    return Authenticator(parse(CONFIG), ring, clock)


def bearer(key):
    return [(b"host", b"x"), (b"authorization", b"Bearer " + key.encode("latin-1"))]


def refusal(auth, headers):
    with pytest.raises(ApiError) as caught:
        auth.authenticate(headers)
    assert caught.value.status == 401
    assert caught.value.headers == {"www-authenticate": "Bearer"}
    return caught.value


@pytest.mark.parametrize(
    "headers",
    [
        [(b"authorization", b"Bearer key-one")],
        [(b"authorization", b"bearer key-one")],
        [(b"authorization", b"BEARER   key-one ")],
        [(b"api-key", b"key-one")],
        [(b"x-api-key", b"key-one")],
        [(b"x-api-key", b"key-one"), (b"accept", b"*/*"), (b"authorization", b"Bearer key-one"), (b"api-key", b"key-one")],
        [(b"api-key", b"key-one"), (b"api-key", b"key-one")],
    ],
)
def test_a_key_is_taken_from_any_of_three_headers(auth, headers):
    """Once, or several times the same."""
    principal = auth.authenticate(headers)
    assert (principal.tenant, principal.key_id, principal.plan) == ("acme", "k1", "pro")
    assert auth.authenticate(iter(headers)) is principal


@pytest.mark.parametrize(
    ("headers", "code"),
    [
        ([], "missing_api_key"),
        ([(b"cookie", b"key-one"), (b"Authorization-2", b"Bearer key-one")], "missing_api_key"),
        ([(b"authorization", b"Bearer key-on")], "invalid_api_key"),
        ([(b"authorization", b"Bearer key-one2")], "invalid_api_key"),
        ([(b"authorization", b"Bearer KEY-ONE")], "invalid_api_key"),
        ([(b"authorization", b"Bearer")], "invalid_api_key"),
        ([(b"authorization", b"Bearer ")], "invalid_api_key"),
        ([(b"authorization", b"")], "invalid_api_key"),
        ([(b"authorization", b"key-one")], "invalid_api_key"),
        ([(b"authorization", b"Basic key-one")], "invalid_api_key"),
        ([(b"authorization", b"Basic a2V5"), (b"api-key", b"key-one")], "invalid_api_key"),
        ([(b"api-key", b"")], "invalid_api_key"),
        ([(b"api-key", b"Bearer key-one")], "invalid_api_key"),
        ([(b"api-key", b"k" * 513)], "invalid_api_key"),
        ([(b"api-key", "ké".encode("latin-1"))], "invalid_api_key"),
        ([(b"api-key", b"\x00\xff" * 200)], "invalid_api_key"),
        ([(b"api-key", b"key-old")], "expired_api_key"),
        ([(b"api-key", b"key-one"), (b"api-key", b"key-two")], "conflicting_api_keys"),
        ([(b"authorization", b"Bearer key-one"), (b"api-key", b"key-two")], "conflicting_api_keys"),
        ([(b"authorization", b"Bearer key-one"), (b"authorization", b"Bearer nonsense")], "conflicting_api_keys"),
        ([(b"authorization", b"Bearer key-one"), (b"x-api-key", b"")], "conflicting_api_keys"),
    ],
)
def test_anything_else_is_a_401(auth, headers, code):
    """With a code for what to mend."""
    assert refusal(auth, headers).code == code


@given(st.binary(max_size=600), st.sampled_from([b"authorization", b"api-key", b"x-api-key"]), st.sampled_from([b"", b"Bearer "]))
def test_no_bytes_get_in_or_break_anything(value, name, scheme):
    """Any value is a clean 401 that does not repeat it."""
    auth = Authenticator(parse(CONFIG), KeyRing(parse(CONFIG).keys.path, []))
    error = refusal(auth, [(name, scheme + value)])
    assert len(value) < 6 or value.decode("latin-1") not in error.message


def test_the_message_never_repeats_the_key(auth):
    """Neither of a wrong nor of an expired one, nor of two."""
    for headers in (bearer("hunter2hunter2"), bearer("key-old"), [*bearer("key-one"), *bearer("key-two")]):
        text = refusal(auth, headers).body().decode()
        assert "hunter2" not in text
        assert "key-o" not in text


def test_all_scopes_that_limit_something_are_there(auth):
    """The key's, the tenant's and the plan's; a plan's limits hold for each of its tenants by itself."""
    assert auth.authenticate(bearer("key-one")).scopes == (
        Scope("key:acme/k1", "key", rpm=5, name="k1"),
        Scope("tenant:acme", "tenant", max_parallel=9, name="acme"),
        Scope("plan:acme/pro", "plan", rpm=100, tpm=1000, name="pro"),
    )


def test_scopes_without_a_limit_are_left_out(auth):
    """So that they cost nothing; the others are shared by the tenant's keys as objects."""
    one, two = auth.authenticate(bearer("key-one")), auth.authenticate(bearer("key-two"))
    assert [scope.id for scope in two.scopes] == ["tenant:acme", "plan:acme/pro"]
    assert two.scopes[0] is one.scopes[1]
    assert auth.authenticate(bearer("key-beta")).scopes == ()
    assert auth.authenticate(bearer("key-solo")).scopes == ()


def test_a_plan_may_limit_single_models(auth):
    """In a scope of its own for each tenant, where there is a limit."""
    limits = auth.authenticate(bearer("key-two")).model_scopes
    assert dict(limits) == {"org/large": Scope("model:acme/org/large", "model", rpm=6, name="org/large")}


def test_class_and_weight_are_the_tenants_or_the_plans(auth):
    """Standard and one where neither says."""
    facts = {key: auth.authenticate(bearer(f"key-{key}")) for key in ("one", "beta", "solo")}
    assert {key: (one.priority, one.weight) for key, one in facts.items()} == {
        "one": (Priority.REALTIME, 8),
        "beta": (Priority.BATCH, 1),
        "solo": (Priority.BATCH, 3),
    }
    assert facts["solo"].plan == ""


def test_key_and_tenant_must_both_allow_a_model(auth):
    """By its name or by a pattern."""
    one, two, beta, solo = (auth.authenticate(bearer(f"key-{key}")) for key in ("one", "two", "beta", "solo"))
    assert one.may_call("anything/at:all")
    assert [two.may_call(name) for name in ("org/large", "auto", "small", "ORG/large", "org")] == [
        True,
        True,
        False,
        False,
        False,
    ]
    assert [beta.may_call(name) for name in ("small", "smaaall", "auto", "large", "small2")] == [True, True, True, False, False]
    assert not solo.may_call("small")
    assert [beta.may_call(name) for name in ("small", "large")] == [True, False]


def test_names_that_callers_make_up_are_not_kept(auth):
    """What is remembered of asked names is bounded in number and length, and pattern tests in length."""
    beta = auth.authenticate(bearer("key-beta"))
    for number in range(1000):
        assert not beta.may_call(f"made-up-{number}")
    assert not beta.may_call("sm" + "x" * 10_000_000 + "ll")
    assert len(beta._memo) <= 64
    assert max(map(len, beta._memo)) <= 256


def test_a_made_key_works_from_the_next_look_at_the_file(auth, ring, file):
    """With the limits that it was made with."""
    _, secret = file.create("beta", Terms(tpm=50, models=("small",)))
    assert refusal(auth, bearer(secret)).code == "invalid_api_key"
    ring.refresh()
    principal = auth.authenticate(bearer(secret))
    assert (principal.tenant, principal.scopes[0].tpm) == ("beta", 50)
    assert (principal.may_call("small"), principal.may_call("auto")) == (True, False)


def test_a_revoked_key_is_refused_and_says_so(auth, ring, file):
    """Its holder is told why; others learn nothing."""
    record, secret = file.create("acme", Terms())
    ring.refresh()
    auth.authenticate(bearer(secret))
    file.revoke(record.id)
    ring.refresh()
    assert refusal(auth, bearer(secret)).code == "revoked_api_key"


def test_both_keys_live_while_rotated(auth, ring, file, clock):
    """Until the overlap has passed, without another look at the file."""
    record, old = file.create("acme", Terms())
    _, _, new = file.rotate(record.id, 3600)
    ring.refresh()
    clock.now += 3599
    assert auth.authenticate(bearer(old)).tenant == auth.authenticate(bearer(new)).tenant == "acme"
    clock.now += 1
    assert refusal(auth, bearer(old)).code == "expired_api_key"
    assert auth.authenticate(bearer(new)).expires_at is None


def test_the_config_has_the_say_over_the_file(auth, ring, file, tmp_path, caplog):
    """The same key in both is the config's, also where the file revokes it, and that is said."""
    record, secret = file.create("acme", Terms())
    file.revoke(record.id)
    path = tmp_path / "keys.json"
    path.write_text(path.read_text().replace(sha(secret), sha("key-one")))
    ring.refresh()
    assert auth.authenticate(bearer("key-one")).key_id == "k1"
    assert "also in the config" in caplog.text


def test_a_principal_does_not_show_a_key(auth):
    """Its repr has names and limits only."""
    shown = repr(auth.authenticate(bearer("key-one")))
    assert sha("key-one") not in shown
    assert "key-one" not in shown

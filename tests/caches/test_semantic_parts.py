"""The gate, the partition, the ids and the refused pairs of the semantic cache."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from caches.scope import Scope
from caches.semantic.gate import Gate, words_of
from caches.semantic.ids import exact_of, hit_id, point_id, read_hit
from caches.semantic.packed import Packed, pack, unpack
from caches.semantic.partition import READ, partition, split
from caches.semantic.refused import Refused, pair_of
from caches.semantic.types import SemanticPolicy

SECRET = b"0" * 32
POLICY = SemanticPolicy("strict", None, 60.0, 1.0, multi_turn=False, skip_personal=False)
TURNS = SemanticPolicy("strict", None, 60.0, 1.0, multi_turn=True, skip_personal=False)
USER = {"role": "user", "content": "how do I reset my password"}
SYSTEM = {"role": "system", "content": "be brief"}
ACME = Scope("acme")
WORDS = st.lists(st.sampled_from(["alpha", "beta", "gamma", "delta", "epsilon", "zeta", "eta"]), min_size=1, max_size=6)


def room(body: dict[str, Any], policy: SemanticPolicy = POLICY, *, scope: Scope = ACME, version: str = "1", **also: Any) -> str:
    found = split("chat", body, policy)
    assert found.reason == ""
    return partition(
        secret=SECRET,
        scope=scope,
        endpoint=also.get("endpoint", "chat"),
        models=[("m", version)],
        rest=found.rest(),
        tier=also.get("tier"),
    )


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"tools": [{"type": "function"}]}, "tools"),
        ({"functions": [{"name": "f"}]}, "functions"),
        ({"n": 2}, "n"),
        ({"logprobs": True}, "logprobs"),
        ({"modalities": ["audio"]}, "modalities"),
        ({"temperature": 1.5}, "temperature"),
        ({"temperature": "hot"}, "temperature"),
        ({"messages": []}, "no message"),
        ({"messages": "text"}, "no message"),
        ({"messages": [USER, {"role": "assistant", "content": "x"}]}, "last message is not the user's"),
        ({"messages": [USER, {"role": "assistant", "content": "x"}, USER]}, "several turns"),
        ({"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "u"}}]}]}, "not text"),
        ({"messages": [{"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "input_audio"}]}]}, "not text"),
        ({"messages": [{"role": "user", "content": None}]}, "not text"),
        ({"messages": [{"role": "user", "content": "  "}]}, "not text"),
        ({"messages": [{"role": ["user"], "content": "x"}]}, "last message is not the user's"),
    ],
)
def test_what_has_no_part_in_it(change: dict[str, Any], reason: str) -> None:
    """Tools, images, several choices, heat and other people's turns are told by name."""
    assert split("chat", {"messages": [USER], **change}, POLICY).reason == reason


def test_other_endpoints_have_no_part_in_it() -> None:
    """Embeddings and raw completions are compared exactly or not at all."""
    assert split("embeddings", {"input": "x"}, POLICY).reason == "endpoint"


def test_a_text_in_parts_is_a_text() -> None:
    """Parts that are all text are read as one."""
    parts = [{"type": "text", "text": "how do I"}, {"type": "text", "text": "reset it"}]
    assert split("chat", {"messages": [{"role": "user", "content": parts}]}, POLICY).text == "how do I\nreset it"


@pytest.mark.parametrize(
    "other",
    [
        {"messages": [SYSTEM, USER], "seed": 2},
        {"messages": [SYSTEM, USER], "max_tokens": 5},
        {"messages": [SYSTEM, USER], "response_format": {"type": "json_object"}},
        {"messages": [{"role": "system", "content": "be long"}, USER]},
        {"messages": [USER]},
        {"messages": [SYSTEM, SYSTEM, USER]},
        {"messages": [{"role": "developer", "content": "be brief"}, USER]},
        {"messages": [SYSTEM, {**USER, "name": "bob"}]},
        {"messages": [SYSTEM, USER], "chat_template_kwargs": {"thinking": True}},
        {"messages": [SYSTEM, USER], "some_new_field": 1},
    ],
)
def test_everything_but_the_question_is_part_of_the_partition(other: dict[str, Any]) -> None:
    """Any other field that changes gives another partition."""
    assert room({"messages": [SYSTEM, USER]}) != room(other)


def test_scope_model_version_endpoint_and_tier_are_part_of_the_partition() -> None:
    """A shared scope of a tenant's name is not the tenant; a new version begins anew."""
    body = {"messages": [USER]}
    rooms = {
        room(body), room(body, scope=Scope("beta")), room(body, scope=Scope("acme", shared=True)), room(body, version="2"),
        room(body, endpoint="responses"), room(body, tier="large"),
    }  # fmt: skip
    assert len(rooms) == 6


def test_the_question_itself_and_the_form_of_the_answer_are_not() -> None:
    """Two questions, streamed or not, meet in one partition."""
    assert room({"messages": [SYSTEM, USER]}) == room({"stream": True, "messages": [SYSTEM, {**USER, "content": "other"}]})


def test_the_whole_history_is_part_of_the_partition() -> None:
    """The same last words after another conversation are another question."""
    first = {"messages": [USER, {"role": "assistant", "content": "It is 5."}, USER]}
    other = {"messages": [USER, {"role": "assistant", "content": "It is 6."}, USER]}
    assert room(first, TURNS) != room(other, TURNS)


def test_what_is_beyond_the_part_that_is_read_must_be_equal() -> None:
    """Two long messages that differ at their end only are in different partitions."""
    start = "a" * READ
    one, two = ({"messages": [{"role": "user", "content": start + end}]} for end in ("x", "y"))
    assert room(one) != room(two)
    assert split("chat", one, POLICY).text == start


@given(kept=st.lists(WORDS, min_size=1, max_size=20), words=WORDS)
def test_the_gate_lets_pass_what_shares_all_its_words(kept: list[list[str]], words: list[str]) -> None:
    """A question whose words, all of them, are those of a kept one always passes, and nothing passes where nothing is kept."""
    gate = Gate()
    for number, each in enumerate([*kept, words]):
        gate.add(str(number), "room", " ".join(each), 1.0)
    assert str(len(kept)) in (gate.resembling("room", " ".join(reversed(words))) or [])
    assert gate.resembling("other", " ".join(words)) == []
    for number in range(len(kept) + 1):
        gate.remove(str(number))
    assert (len(gate), gate.partitions) == (0, 0)
    assert gate.resembling("room", " ".join(words)) == []


def test_the_gate_turns_away_what_shares_only_common_words() -> None:
    """A word that everybody uses weighs little."""
    gate = Gate()
    for number in range(200):
        gate.add(str(number), "room", f"account topic{number} number", 1.0)
    assert gate.resembling("room", "topic7 of the account") == ["7"]
    assert gate.resembling("room", "closing hours of the account desk") == []


def test_a_gate_that_must_look_at_too_much_cannot_tell() -> None:
    """The bound on what is looked at is kept, and nothing is turned away for it."""
    gate = Gate(most=10)
    for number in range(20):
        gate.add(str(number), "room", "account", 1.0)
    assert gate.resembling("room", "account") is None
    assert gate.resembling("room", "? !") is None


def test_the_gate_forgets_what_is_over() -> None:
    """Expired questions let nothing pass."""
    gate = Gate()
    gate.add("1", "room", "reset my password", 10.0)
    gate.expire(11.0)
    assert gate.resembling("room", "reset my password") == []


@given(
    steps=st.lists(st.tuples(st.sampled_from("abcdefgh"), st.sampled_from(["one", "two"]), st.booleans()), max_size=40),
    bound=st.integers(min_value=1, max_value=5),
)
def test_the_gate_keeps_what_was_added_last(steps: list[tuple[str, str, bool]], bound: int) -> None:
    """However many are added, and to whichever partitions, the youngest within the bound are there; added again is young."""
    gate = Gate(max_entries=bound)
    young: dict[str, str] = {}
    for name, room, stays in steps:
        young.pop(name, None)
        if stays:
            gate.add(name, room, f"question {name}name", 1.0)
            young[name] = room
        else:
            gate.remove(name)
        if len(young) > bound:
            del young[next(iter(young))]
        assert (len(gate), gate.partitions) == (len(young), len(set(young.values())))
    for name in "abcdefgh":
        found = [room for room in ("one", "two") if name in (gate.resembling(room, f"{name}name") or [])]
        assert found == [room for room in [young.get(name)] if room]


def test_words_of_chinese_are_pairs() -> None:
    """A language without spaces is read in pairs of characters."""
    assert words_of("如何重置密码") >= {"重置", "密码"}


def test_ids_are_read_back_and_nothing_else_is() -> None:
    """A hit's id tells its point and pair to its tenant and the operator; a changed digit, or another secret, nothing."""
    pair = pair_of(SECRET, "aa", "one", "two")
    point = point_id(SECRET, "aa", "two")
    exact = "ce-" + "5" * 24
    for made, behind in ((hit_id(SECRET, point, pair, "acme"), ""), (hit_id(SECRET, point, pair, "acme", exact), exact)):
        for tenant in ("acme", None):
            known = read_hit(SECRET, made, tenant)
            assert known is not None
            assert (known.point, known.pair) == (point, pair)
        assert exact_of(made) == behind
        assert read_hit(SECRET, made, "beta") is None
        for at in range(3, len(made)):
            changed = made[:at] + ("0" if made[at] != "0" else "1") + made[at + 1 :]
            assert read_hit(SECRET, changed, "acme") is None
        assert read_hit(b"1" * 32, made, "acme") is None
        assert read_hit(SECRET, made.upper(), None) is None
        assert read_hit(SECRET, made + "-00", None) is None
    for wrong in ("", "cs", "cs-", "cs-zz", "ce-" + "0" * 24, "cs-" + "é" * 24):
        assert read_hit(SECRET, wrong, None) is None
    assert (exact_of(exact), exact_of(point), exact_of("")) == (exact, "", "")


def test_refused_pairs_are_bounded_and_kept() -> None:
    """The oldest pair is forgotten first; packed and loaded they are the same."""
    refused, again = Refused(SECRET, most=3), Refused(SECRET)
    pairs = [pair_of(SECRET, "aa", str(number), "kept") for number in range(4)]
    for pair in pairs:
        refused.refuse(pair, None)
    again.load(refused.packed())
    assert [again.bars(pair, "acme") for pair in pairs] == [False, True, True, True]


def test_a_pair_is_refused_for_all_or_for_one_tenant() -> None:
    """So is a request whose exact answer was deleted; neither is the other, nor another tenant's."""
    refused, pair, exact = Refused(SECRET), pair_of(SECRET, "aa", "asked", "kept"), "ce-" + "5" * 24
    refused.refuse(pair, "acme")
    refused.refuse_request(exact, "acme")
    assert [refused.bars(pair, who) for who in ("acme", "beta")] == [True, False]
    assert [refused.bars_request(exact, who) for who in ("acme", "beta")] == [True, False]
    refused.refuse(pair, None)
    refused.refuse_request(exact, None)
    assert refused.bars(pair, "beta")
    assert refused.bars_request(exact, "beta")
    assert not refused.bars_request("", "beta")


@given(data=st.binary(max_size=200))
def test_a_foreign_answer_is_none(data: bytes) -> None:
    """Whatever a store gives back, it is an answer of ours or none."""
    found = unpack(data)
    assert found is None or isinstance(found, Packed)


@given(body=st.binary(max_size=2000))
def test_an_answer_comes_back_as_it_was(body: bytes) -> None:
    """Packed, compressed or not, and unpacked."""
    packed = Packed("chat", "small", 1, 2, body)
    assert unpack(pack(packed)) == packed

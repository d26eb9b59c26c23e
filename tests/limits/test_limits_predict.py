"""How long an answer is thought to be: from what is seen of the request, and from those before it."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from limits.predict import Predictor
from limits.waiting import Priority, SlotAsk


def ask(tenant="acme", form="chat", *, prompt=100, most=None) -> SlotAsk:
    return SlotAsk(Priority.STANDARD, tenant, 1, 1, 0.0, prompt=prompt, form=form, most=most)


def taught(*lessons, times=50) -> Predictor:
    predictor = Predictor()
    for _ in range(times):
        for one, output in lessons:
            predictor.learn(one, output)
    return predictor


def test_tenants_are_told_apart():
    """Each tenant's answers are thought to be as long as its last ones were."""
    predictor = taught((ask("labels"), 5), (ask("essays"), 1500))
    assert predictor.predict(ask("labels")) < 40
    assert predictor.predict(ask("essays")) > 1200


def test_forms_are_told_apart():
    """What a tenant asks as JSON is known apart from its streams."""
    predictor = taught((ask(form="chat+json"), 20), (ask(form="chat+stream"), 600))
    assert predictor.predict(ask(form="chat+json")) < 60
    assert predictor.predict(ask(form="chat+stream")) > 500


def test_templates_are_told_apart_by_their_length():
    """Prompts of another size are another template, with answers of another length."""
    predictor = taught((ask(prompt=1000), 10), (ask(prompt=1300), 900))
    assert predictor.predict(ask(prompt=1010)) < 100
    assert predictor.predict(ask(prompt=1310)) > 800


def test_a_new_tenant_is_thought_to_be_like_the_others():
    """Of whom nothing is known, what is known of all is taken."""
    assert 90 <= taught((ask("a"), 100), (ask("b"), 100)).predict(ask("new", "completions", prompt=7)) <= 110


def test_what_changed_is_forgotten():
    """A tenant that writes shorter answers than it did is soon known for that."""
    predictor = taught((ask(), 2000), times=100)
    for _ in range(1000):
        predictor.learn(ask(), 50)
    assert predictor.predict(ask()) < 150


@given(st.lists(st.integers(0, 10**6), max_size=30), st.none() | st.integers(0, 10**12), st.integers(0, 10**7))
def test_never_beyond_the_clients_maximum(outputs, most, prompt):
    """Whatever was learned, a prediction is a number of tokens, and the client's own maximum is never passed."""
    predictor = Predictor()
    for output in outputs:
        predictor.learn(ask(prompt=prompt), output)
    told = predictor.predict(ask(prompt=prompt, most=most))
    assert 0 <= told <= (max([256, *outputs]) if most is None else most)


def test_memory_is_bounded():
    """However many tenants and sizes come, what is kept stays within bounds, and the last are still known."""
    predictor = Predictor()
    for number in range(20_000):
        predictor.learn(ask(f"t{number}", prompt=number), 3)
    assert len(predictor) <= 8192
    assert predictor.predict(ask("t19999", prompt=19_999)) < 150


class Plain:
    """The same, each group looked for by itself."""

    def __init__(self, generation: int) -> None:
        self.young: dict[tuple, list[float]] = {}
        self.old: dict[tuple, list[float]] = {}
        self.generation = generation

    def means(self, one: SlotAsk) -> list[list[float]]:
        most, size = -1 if one.most is None else one.most.bit_length(), int(math.log2(one.prompt + 1) * 8)
        about = one.tenant, one.form, most
        return [self.met(group) for group in ((), about[:1], about, (*about, size // 8), (*about, size, 8))]

    def met(self, group: tuple) -> list[float]:
        if group not in self.young:
            if len(self.young) >= self.generation:
                self.old, self.young = self.young, {}
            self.young[group] = self.old.pop(group, None) or [0.0, 0.0]
        return self.young[group]

    def predict(self, one: SlotAsk) -> int:
        value = 256.0
        for total, weight in self.means(one):
            value = (total + 4 * value) / (weight + 4)
        return round(value)

    def learn(self, one: SlotAsk, output: int) -> None:
        kept = 0.5 ** (1 / 200)
        for mean in self.means(one):
            mean[:] = [mean[0] * kept + output, mean[1] * kept + 1]


@given(st.lists(st.tuples(st.sampled_from("abc"), st.sampled_from([3, 30, 300, 3000]), st.integers(0, 999)), max_size=60))
def test_what_is_found_by_one_look_is_what_each_group_tells(steps):
    """Requests alike share one look; what is told of them, and what is forgotten, is as if each group were looked for."""
    predictor, plain = Predictor(), Plain(generation=12)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("limits.predict._GENERATION", 12)
        for tenant, prompt, output in steps:
            told = ask(tenant, prompt=prompt)
            assert predictor.predict(told) == plain.predict(ask(tenant, prompt=prompt))
            if output % 3:
                predictor.learn(ask(tenant, prompt=prompt), output)
                plain.learn(ask(tenant, prompt=prompt), output)

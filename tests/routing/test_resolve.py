import pytest

from routing.resolve import Catalog
from routing.types import EndpointNotServed, Model, ModelNotAllowed, UnknownModel

SMALL = Model("org/small", "small", "Org/Small-7B", context=8192, fallback=("large", "embedder"))
LARGE = Model("large", "large", "large", context=131072)
UNKNOWN_CONTEXT = Model("other", "large", "other")
EMBEDDER = Model("embedder", "embed", "embedder", context=512, endpoints=frozenset({"embeddings"}))
CATALOG = Catalog(
    [SMALL, LARGE, EMBEDDER],
    auto="auto",
    aliases={"gpt-4o-mini": "auto", "gpt-4o": "large", "helper": "team/support"},
    adapters={"team/support": ("org/small", "support-lora")},
)


def anything(name):
    return True


def only(*names):
    return lambda name: name in names


def test_auto_stands_for_every_model_that_serves_the_endpoint():
    """`auto` offers the models of the endpoint in config order, and no adapters."""
    resolution = CATALOG.resolve("auto", "chat", anything)
    assert resolution.auto
    assert resolution.pinned is None
    assert [target.name for target in resolution.candidates] == ["org/small", "large"]
    assert [target.name for target in CATALOG.resolve("auto", "embeddings", anything).candidates] == ["embedder"]


def test_an_alias_of_auto_is_auto_and_remembers_what_was_asked():
    """An alias resolves first; the requested name is kept for the answer."""
    resolution = CATALOG.resolve("gpt-4o-mini", "chat", anything)
    assert (resolution.auto, resolution.requested) == (True, "gpt-4o-mini")


def test_an_alias_of_a_model_pins_it():
    """An alias of a model is a pin."""
    assert CATALOG.resolve("gpt-4o", "chat", anything).pinned.model is LARGE


def test_an_adapter_is_a_target_of_its_pool_under_its_own_served_name():
    """An adapter runs in its pool's model, is called by its own name, and has no fallback."""
    resolution = CATALOG.resolve("team/support", "chat", anything)
    assert (resolution.pinned.name, resolution.pinned.served_name, resolution.pinned.model) == (
        "team/support",
        "support-lora",
        SMALL,
    )
    assert resolution.candidates == (resolution.pinned,)
    assert CATALOG.resolve("helper", "chat", anything).pinned == resolution.pinned


def test_a_pinned_model_brings_its_own_fallbacks_that_may_and_can_answer():
    """Fallback names that the key may not call, or that do not serve the endpoint, are left out."""
    assert [t.name for t in CATALOG.resolve("org/small", "chat", anything).candidates] == ["org/small", "large"]
    assert [t.name for t in CATALOG.resolve("org/small", "chat", only("org/small")).candidates] == ["org/small"]


@pytest.mark.parametrize("name", ["nope", "", "Org/Small-7B", "AUTO", "org/small/", "embeddings", "x" * 100_000])
def test_an_unknown_name_is_refused_with_a_short_message(name):
    """Names are compared exactly, served names are not public, and a huge name does not make a huge message."""
    with pytest.raises(UnknownModel) as caught:
        CATALOG.resolve(name, "chat", anything)
    assert caught.value.requested == name
    assert len(str(caught.value)) < 300


def test_permission_is_judged_on_what_would_run():
    """An alias grants nothing: its target must be allowed, and the alias itself need not be."""
    with pytest.raises(ModelNotAllowed):
        CATALOG.resolve("gpt-4o", "chat", only("gpt-4o"))
    assert CATALOG.resolve("gpt-4o", "chat", only("large")).pinned.model is LARGE
    with pytest.raises(ModelNotAllowed):
        CATALOG.resolve("team/support", "chat", only("org/small"))


def test_auto_needs_no_permission_and_gives_none():
    """`auto` offers just what the key may call; a key that lists `auto` alone may call nothing."""
    assert [t.name for t in CATALOG.resolve("auto", "chat", only("large")).candidates] == ["large"]
    with pytest.raises(ModelNotAllowed):
        CATALOG.resolve("auto", "chat", only("auto"))


def test_an_endpoint_that_is_not_served_is_refused_after_permission():
    """A key that may not call a model does not learn which endpoints it serves."""
    with pytest.raises(EndpointNotServed) as caught:
        CATALOG.resolve("large", "embeddings", anything)
    assert (caught.value.model, caught.value.endpoint) == ("large", "embeddings")
    with pytest.raises(ModelNotAllowed):
        CATALOG.resolve("large", "embeddings", only("org/small"))
    with pytest.raises(EndpointNotServed):
        CATALOG.resolve("auto", "rerank", anything)
    with pytest.raises(EndpointNotServed):
        CATALOG.resolve("auto", "embeddings", only("large"))


def test_the_list_holds_what_the_key_may_call():
    """`auto`, aliases, models and adapters are listed for the key, with the most tokens that each can hold."""
    listed = {entry.name: entry for entry in CATALOG.names(anything)}
    assert list(listed) == ["auto", "gpt-4o-mini", "gpt-4o", "helper", "org/small", "large", "embedder", "team/support"]
    assert (listed["auto"].context, listed["gpt-4o"].context, listed["helper"].context) == (131072, 131072, 8192)
    assert (listed["helper"].kind, listed["helper"].stands_for) == ("alias", "team/support")
    assert [entry.name for entry in CATALOG.names(only("large"))] == ["auto", "gpt-4o-mini", "gpt-4o", "large"]
    assert CATALOG.names(only()) == []


def test_an_unknown_context_makes_that_of_auto_unknown():
    """No number is promised for `auto` while one of its models has none."""
    assert Catalog([SMALL.__class__("a", "t", "a", context=5), UNKNOWN_CONTEXT]).names(anything)[0].context is None


@pytest.mark.parametrize(
    "contradiction",
    [
        {"aliases": {"a": "nope"}},
        {"aliases": {"a": "b", "b": "large"}},
        {"aliases": {"large": "auto"}},
        {"aliases": {"auto": "large"}},
        {"adapters": {"x": ("nope", "x")}},
        {"adapters": {"large": ("large", "x")}},
        {"auto": "large"},
    ],
)
def test_a_contradiction_in_the_names_is_refused_at_once(contradiction):
    """A catalogue in which a name means nothing, or two things, cannot be built."""
    with pytest.raises(ValueError):
        Catalog([LARGE], **contradiction)


@pytest.mark.parametrize("fallback", [("nope",), ("me",), ("auto",)])
def test_a_fallback_must_name_another_model(fallback):
    """A model cannot fall back to itself, to `auto`, or to nothing."""
    with pytest.raises(ValueError):
        Catalog([Model("me", "small", "me", fallback=fallback)])


def test_a_model_name_given_twice_is_refused():
    """Two pools under one name are a mistake, not a merger."""
    with pytest.raises(ValueError, match="twice"):
        Catalog([LARGE, LARGE])


ROUTED = Catalog(
    [SMALL, LARGE, UNKNOWN_CONTEXT, EMBEDDER],
    auto="auto",
    routes={"thrifty": None, "team/cheap": ("large", "org/small"), "auto": ("org/small", "large")},
    aliases={"gpt-4o-mini": "thrifty"},
)


def test_a_route_is_auto_with_its_own_name_and_models():
    """A route offers the models that it names, in config order, or all; so may `auto`; aliases may stand for it."""
    resolution = ROUTED.resolve("team/cheap", "chat", anything)
    assert (resolution.auto, resolution.pinned, resolution.route) == (True, None, "team/cheap")
    assert [target.name for target in resolution.candidates] == ["org/small", "large"]
    assert [target.name for target in ROUTED.resolve("thrifty", "chat", anything).candidates] == ["org/small", "large", "other"]
    assert ROUTED.resolve("gpt-4o-mini", "chat", anything).route == "thrifty"
    assert ROUTED.resolve("auto", "chat", anything).route == ""
    assert [target.name for target in ROUTED.resolve("auto", "chat", anything).candidates] == ["org/small", "large"]


def test_a_route_grants_nothing():
    """A key that may call none of a route's models may not call it; where none serves the endpoint, that is said."""
    with pytest.raises(ModelNotAllowed):
        ROUTED.resolve("team/cheap", "chat", only("other"))
    with pytest.raises(EndpointNotServed):
        ROUTED.resolve("team/cheap", "embeddings", anything)
    assert [t.name for t in ROUTED.resolve("team/cheap", "chat", only("large", "other")).candidates] == ["large"]


def test_routes_are_listed_for_who_may_call_one_of_their_models():
    """`auto` first, then the routes, with the most that their models hold."""
    listed = {line.name: (line.kind, line.stands_for, line.context) for line in ROUTED.names(anything)}
    assert listed["auto"] == ("auto", "auto", 131072)
    assert listed["team/cheap"] == ("route", "team/cheap", 131072)
    assert listed["thrifty"] == ("route", "thrifty", None)
    assert listed["gpt-4o-mini"] == ("alias", "thrifty", None)
    assert {line.name for line in ROUTED.names(only("other"))} == {"thrifty", "gpt-4o-mini", "other"}


@pytest.mark.parametrize("routes", [{"large": None}, {"x": ()}, {"x": ("nothing",)}, {"helper": None}])
def test_routes_that_contradict_the_catalogue_are_refused(routes):
    """A route with a name that is taken, or that chooses from what is no model."""
    with pytest.raises(ValueError, match=r"route|twice"):
        Catalog([SMALL, LARGE, EMBEDDER], routes=routes, aliases={"helper": "large"})

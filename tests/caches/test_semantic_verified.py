"""The semantic cache with a verifier: what its yes serves, and what no yes can."""

import pytest
from semantic_world import World, ask

from caches.verify.types import VerifierAway

KEPT = "what is the best way to clean a cast iron pan"
ASKED = "what is the right method to clean a cast iron skillet"
SURE = ("how do I reset my password", "my password how do I reset")


class Says:
    """A verifier that says what it is told to."""

    def __init__(self, word=True, *, all=False):  # noqa: A002
        self.word = word
        self.all = all
        self.asked = []
        self.closed = False

    async def approves(self, question, kept, *, scope=""):
        self.asked.append((question, kept, scope))
        if isinstance(self.word, str):
            raise VerifierAway(self.word)
        return self.word

    async def open(self):
        if isinstance(self.word, str):
            raise VerifierAway(self.word)

    async def close(self):
        self.closed = True


async def world_with(verifier, kept=KEPT):
    world = World()
    world.cache.verifier = verifier
    await world.open()
    await world.fill(ask(kept))
    return world


async def test_without_a_verifier_it_is_nearly_served():
    """What the tests below rest on: alike, no guard objects, not enough alike to be served."""
    found = await (await world_with(None)).cache.look(ask(ASKED, wants_grey=True))
    assert (found.entry, found.grey.text) == (None, KEPT)


async def test_a_yes_serves_the_nearest_doubtful_one():
    """With the score that it had, for what is learned of it."""
    verifier = Says()
    found = await (await world_with(verifier)).cache.look(ask(ASKED))
    assert found.entry.id.startswith("cs-")
    assert 0 < found.score < 0.5
    assert (found.kept, verifier.asked) == (KEPT, [(ASKED, KEPT, "acme")])


async def test_a_no_is_a_miss_that_nothing_is_learned_of():
    """It names who objected; nobody is asked about the pair a second time."""
    found = await (await world_with(Says(word=False))).cache.look(ask(ASKED, wants_grey=True))
    assert (found.entry, found.grey, found.why, found.away) == (None, None, "verifier", "")


@pytest.mark.parametrize("word", ["loading", "timeout", "breaker", "overload", "failed"])
async def test_no_word_is_a_miss_with_a_reason(word):
    """The cache opens and serves what is sure all the same."""
    world = await world_with(Says(word))
    found = await world.cache.look(ask(ASKED))
    assert (found.entry, found.grey, found.away) == (None, None, f"verifier {word}")
    await world.fill(ask(SURE[0]))
    assert (await world.cache.look(ask(SURE[1]))).entry is not None


async def test_what_is_sure_is_not_put_to_it():
    """Unless all is to be."""
    verifier = Says(word=False)
    world = await world_with(verifier, SURE[0])
    assert (await world.cache.look(ask(SURE[1]))).entry is not None
    assert verifier.asked == []
    verifier.all = True
    assert (await world.cache.look(ask(SURE[1]))).why == "verifier"


async def test_a_trap_is_not_put_to_it():
    """Another number is another question, whatever a verifier would say."""
    verifier = Says()
    world = await world_with(verifier, "how many calories do 2 boiled eggs have")
    found = await world.cache.look(ask("how many calories do 3 boiled eggs have"))
    assert (found.entry, verifier.asked) == (None, [])


async def test_a_pair_that_was_refused_is_not_put_to_it():
    """A complaint about what it approved holds for ever."""
    verifier = Says()
    world = await world_with(verifier)
    question = ask(ASKED)
    await world.cache.look(question)
    await world.cache.feedback("acme", question.request_id, 0.0)
    assert (await world.cache.look(ask(ASKED))).entry is None
    assert len(verifier.asked) == 1


async def test_a_scope_that_is_off_serves_nothing_to_its_yes():
    """Shown wrong too often, the scope is served nothing; the neighbour still stands there to be learned of."""
    verifier = Says()
    world = await world_with(verifier)
    for _ in range(400):
        world.cache.evidence.learn("t:acme", 0.99, right=False)
    found = await world.cache.look(ask(ASKED, max_error=0.02, wants_grey=True))
    assert (found.entry, verifier.asked) == (None, [])
    assert found.grey is not None
    taken = await world.cache.take(ask(ASKED, max_error=0.02), found.grey)
    assert taken.entry is None, "nor to the yes of a model, which is asked outside"


async def test_it_is_closed_with_the_cache():
    """Its threads end."""
    verifier = Says()
    world = await world_with(verifier)
    await world.cache.close()
    assert verifier.closed

"""Two clocks that are set at will, and an answer that must never look younger than it is."""

from hypothesis import given
from hypothesis import strategies as st

from caches.redis.clocks import Clocks

LATENCY = st.floats(0, 0.05)
STEPS = st.tuples(st.sampled_from(["hear", "ours", "theirs", "wait"]), st.floats(-300, 300), LATENCY, LATENCY)


class World:
    """True time, and what either clock shows."""

    def __init__(self):
        self.now = 1000.0
        self.ours = self.theirs = 0.0
        self.clocks = Clocks(3600)

    def hear(self, there=0.0, back=0.0):
        self.now += there
        server = self.now + self.theirs
        self.now += back
        self.clocks.observe(server, self.now + self.ours, self.now)

    def step(self, step):
        what, seconds, there, back = step
        if what == "hear":
            self.hear(there, back)
        elif what == "ours":
            self.ours += seconds
        elif what == "theirs":
            self.theirs += seconds
        else:
            self.now += abs(seconds)

    @property
    def wall(self):
        return self.now + self.ours

    def off(self):
        """How far from the truth it takes the server's present to be."""
        return self.clocks.server_time(self.wall) - (self.now + self.theirs)


@given(before=st.lists(STEPS, max_size=8), meanwhile=st.lists(STEPS, max_size=8), after=st.lists(STEPS, max_size=8))
def test_an_answer_is_never_taken_for_younger_than_it_is(before, meanwhile, after):
    """What began before a flush is put after it: its moment is before the flush's, or the sender's present gives it away."""
    world = World()
    world.hear()
    for step in before:
        world.step(step)
    world.hear()  # a lookup comes before the making, and the clocks were right for a moment
    began = world.wall
    for step in meanwhile:
        world.step(step)
    flushed = world.now + world.theirs
    for step in after:
        if step[0] != "theirs":
            world.step(step)
    born, present = world.clocks.server_time(began), world.clocks.present(world.now)
    told_of_it = world.now + world.theirs < present - 1e-6
    assert born <= flushed + 0.1 or told_of_it  # a clock that is set twice within a minute, by less than that, is not noticed


def test_it_is_near_where_nothing_is_set():
    """With steady clocks the error is the quickest way back, not the slowest."""
    world = World()
    world.theirs, world.ours = 7.0, 3.0
    for latency in (0.04, 0.001, 0.03):
        world.hear(0.01, latency)
    assert -0.0011 <= world.off() <= 1e-6


def test_an_hour_is_remembered():
    """A clock that was wrong for a moment counts until no answer's making can reach back to then, and no longer."""
    world = World()
    world.theirs, world.ours = -50.0, 20.0
    world.hear()
    world.theirs = world.ours = 0.0
    for minute in range(70):
        world.now += 60
        world.hear()
        assert (world.off() < -69) is (minute < 61)
    assert abs(world.off()) < 1e-6


def test_it_knows_nothing_at_first():
    """Before the first answer there is nothing to tell."""
    clocks = Clocks(3600)
    assert not clocks.known
    clocks.observe(1.0, 2.0, 3.0)
    assert clocks.known

"""Fault rules by themselves: drawn, merged, healed."""

from gateway.lab.fake.faults import Faults


def test_probability_is_drawn_from_the_seed() -> None:
    """The same seed draws the same faults; about as many as the probability says."""

    def drawn(seed: int) -> list[bool]:
        faults = Faults(seed)
        faults.add(status=500, probability=0.3)
        return [faults.draw("POST", "/v1/x") is not None for _ in range(200)]

    assert drawn(1) == drawn(1) != drawn(2)
    assert 30 < sum(drawn(1)) < 90


def test_rules_add_up() -> None:
    """Rules that hit the same request are merged, the older one first."""
    faults = Faults()
    faults.add(slow=0.1, drop_done=True)
    faults.add(slow=0.9, split=3, times=1)
    both = faults.draw("POST", "/v1/x")
    assert both is not None
    assert (both.slow, both.drop_done, both.split) == (0.1, True, 3)
    alone = faults.draw("POST", "/v1/x")
    assert alone is not None
    assert alone.split is None
    assert faults.draw("GET", "/health") is None

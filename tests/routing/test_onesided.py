"""A router that always picks one model is noticed, and noticed once."""

from routing.onesided import BLOCK, CLEAR, OneSided


def feed(router, models):
    """What `model` was after each change."""
    return [router.model for model in models if router.saw(model)]


def test_a_block_of_one_model_is_one_sided():
    """It is told when the block is full, and not again while it lasts."""
    router = OneSided()
    assert feed(router, ["large"] * (BLOCK - 1)) == []
    assert feed(router, ["large"] * (3 * BLOCK)) == ["large"]
    assert router.blocks == 3


def test_a_router_that_chooses_is_sound():
    """However small the share of the others is, as long as each block has one."""
    router = OneSided()
    assert feed(router, (["large"] * (BLOCK - 1) + ["small"]) * 5) == []
    assert (router.model, router.blocks) == ("", 0)


def test_it_is_sound_again_when_enough_go_elsewhere():
    """One stray choice does not clear it; so many in one block do, and that is told once."""
    router = OneSided()
    feed(router, ["large"] * BLOCK)
    assert feed(router, ["large"] * (BLOCK - 1) + ["small"]) == []
    assert router.model == "large"
    assert feed(router, (["large"] * (BLOCK - CLEAR) + ["small"] * CLEAR) * 2) == [""]


def test_the_other_side_is_another_change():
    """From all large to all small is told as well."""
    router = OneSided()
    assert feed(router, ["large"] * BLOCK + ["small"] * BLOCK) == ["large", "small"]

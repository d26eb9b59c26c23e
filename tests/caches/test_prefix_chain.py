import pytest
from hypothesis import given
from hypothesis import strategies as st

from caches.chain import BLOCK, MOST_BLOCKS, Chain, chain, chain_key, chain_root, chain_steps

KEY = chain_key("m", None, "salt")


def chained(data, key=KEY, **options):
    return Chain.unpack(chain(key, [data], **options))


@given(st.binary(max_size=900), st.binary(max_size=900), st.integers(1, 70))
def test_two_prompts_share_the_whole_blocks_that_they_begin_with(one, other, block):
    """As many digests are equal as there are equal whole blocks at the start, and none behind the first difference."""
    first, second = chained(one, block=block).blocks, chained(other, block=block).blocks
    same = 0
    while one[: (same + 1) * block] == other[: (same + 1) * block] and (same + 1) * block <= min(len(one), len(other)):
        same += 1
    assert list(first[:same]) == list(second[:same])
    assert not set(first[same:]) & set(second[same:])


@given(st.lists(st.binary(max_size=200), max_size=8), st.integers(1, 70))
def test_where_one_part_ends_and_the_next_begins_says_nothing(parts, block):
    """A prompt in pieces is the same prompt."""
    assert chain(KEY, parts, block) == chain(KEY, [b"".join(parts)], block)


@given(st.lists(st.binary(min_size=1, max_size=200), min_size=2, max_size=8), st.integers(1, 70), st.data())
def test_what_an_answer_was_given_to_is_that_prompt(parts, block, data):
    """The digest in front of an answer is that of the prompt which ended there, wherever blocks lie."""
    start = data.draw(st.integers(1, len(parts) - 1))
    stop = data.draw(st.integers(start + 1, len(parts)))
    later = Chain.unpack(chain(KEY, parts, block, (start, stop)))
    assert later.asked == Chain.unpack(chain(KEY, parts[:start], block)).end
    assert (later.start, later.stop) == (len(b"".join(parts[:start])), len(b"".join(parts[:stop])))
    assert list(later.blocks) == list(Chain.unpack(chain(KEY, parts, block)).blocks)


def test_the_end_of_a_prompt_is_not_the_end_of_a_block():
    """A prompt of whole blocks is told from the same blocks as the beginning of a longer one."""
    whole = chained(b"x" * BLOCK * 3)
    assert whole.end not in whole.blocks


def test_what_is_not_to_be_shared_has_nothing_in_common():
    """Another model, adapter or salt is another chain, and no two of them can be confused by where a name ends."""
    keys = {
        chain_key(*parts)
        for parts in [("m", None, "s"), ("m", "a", "s"), ("m", None, "t"), ("n", None, "s"), ("m", "", "s"), ("ma", None, "s")]
    }
    assert len(keys) == 6
    blocks = [digest for key in keys for digest in chained(b"the same words " * 100, key).blocks]
    assert len(set(blocks)) == len(blocks)


@pytest.mark.parametrize("answer", [None, (0, 1), (1, 2)])
@pytest.mark.parametrize("blocks", [1, 511, 512, 1500, MOST_BLOCKS + 5])
def test_the_chain_of_a_long_prompt_is_made_in_steps(blocks, answer):
    """One for each 128 KiB, and what they make is the chain."""
    parts, digests = [b"x" * 700, b"y" * BLOCK * blocks, b"z"], [b""]
    steps = sum(1 for _ in chain_steps(digests, chain_root(KEY), parts, answer=answer))
    assert steps >= min(blocks, MOST_BLOCKS) // 512
    assert b"".join(digests) == chain(KEY, parts, answer=answer)
    assert list(Chain.unpack(b"".join(digests)).blocks) == list(chained(b"".join(parts)).blocks)


def test_a_prompt_without_end_is_looked_at_only_so_far():
    """Past the bound nothing is read, and the end of such a prompt is unknown."""
    data = b"y" * BLOCK * (MOST_BLOCKS + 5)
    endless = Chain.unpack(chain(KEY, [data[:100], data[100:200], data[200:]], answer=(1, 2)))
    assert (len(endless.blocks), endless.size) == (MOST_BLOCKS, len(data))
    assert (endless.end, endless.asked) == (0, 0)


@pytest.mark.parametrize("packed", [b"", b"x" * 31, b"x" * 33, b"\0" * 32, chain(KEY, [b"words"])[:-1]])
def test_what_is_no_chain_is_refused(packed):
    """Bytes that nobody packed raise one kind of error."""
    with pytest.raises(ValueError, match="no chain"):
        Chain.unpack(packed)


@given(st.binary(max_size=80))
def test_any_bytes_are_a_chain_or_refused(packed):
    """Nothing else is raised, and what is taken can be asked for its tokens."""
    try:
        read = Chain.unpack(packed)
    except ValueError:
        return
    assert 0 <= read.tokens_of(read.stop - read.start, 1000) <= 1000

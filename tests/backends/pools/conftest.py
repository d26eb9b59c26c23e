from functools import partial

import pytest
from pool_fleet import Clock, make_pool, make_replica


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def replica():
    return make_replica


@pytest.fixture
def pool(clock):
    """Makes a pool of that many replicas, all of them up."""
    return partial(make_pool, clock)

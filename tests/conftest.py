"""What every test gets: the event loop that the product runs on, steady hypothesis settings, a free port."""

import gc
import os
import socket
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import fastapi.dependencies.models
import hypothesis
import pytest
import uvloop

# Two workers on two cores: how long one example takes says nothing, so no deadline and no complaint about slowness.
hypothesis.settings.register_profile("dev", deadline=None, suppress_health_check=[hypothesis.HealthCheck.too_slow])
# The same examples on every run: a change is judged by what it did, not by the draw. `dev` explores.
hypothesis.settings.register_profile("ci", parent=hypothesis.settings.get_profile("dev"), derandomize=True, print_blob=True)
hypothesis.settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE") or ("ci" if os.environ.get("CI") else "dev"))


def pytest_asyncio_loop_factories(config: pytest.Config, item: pytest.Item) -> Mapping[str, Callable[[], Any]]:
    """Every async test runs on uvloop, as the gateway does."""
    return {"uvloop": uvloop.new_event_loop}


def pytest_collection_finish(session: pytest.Session) -> None:
    """What thousands of collected tests are made of is not walked again by each of their collections."""
    gc.collect()
    gc.freeze()


KEPT = [kept for kept in vars(fastapi.dependencies.models).values() if hasattr(kept, "cache_clear")]


@pytest.fixture(autouse=True)
def no_gateway_is_kept() -> Iterator[None]:
    """FastAPI remembers the endpoints of each application there was, and with them a gateway of every test."""
    yield
    for kept in KEPT:
        kept.cache_clear()


@pytest.fixture
def free_port() -> int:
    """A port of 127.0.0.1 that was free a moment ago, for a program that wants a number; else listen on port 0."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
    return port

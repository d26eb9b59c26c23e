import pytest
from vector_stores import Stores, serving


@pytest.fixture
async def standin(tmp_path):
    async with serving(tmp_path) as server:
        yield server


@pytest.fixture
async def stores(request, tmp_path):
    """By the parameter: `embedded`, `rest` (over the stand-in) or `local` (the client's own mode, in memory)."""
    kind = getattr(request, "param", "embedded")
    pytest.importorskip("qdrant_edge", reason="qdrant-edge-py is not installed (the extra `semantic`)")
    if kind != "embedded":
        pytest.importorskip("qdrant_client", reason="qdrant-client is not installed (the extra `qdrant`)")
    if kind != "rest":
        found = Stores(kind, tmp_path, 0)
        yield found
        await found.close()
        return
    async with serving(tmp_path) as server:
        found = Stores(kind, tmp_path, server.port)
        yield found
        await found.close()

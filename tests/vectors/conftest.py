import tempfile
from pathlib import Path

import pytest
from vector_stores import Stores, serving

MEMORY = Path("/dev/shm")


@pytest.fixture
def folder(tmp_path):
    """In memory where there is such a place: an engine writes through to the disk, and nothing here is about disks."""
    if not MEMORY.is_dir():
        yield tmp_path
        return
    with tempfile.TemporaryDirectory(prefix="tiergate-", dir=MEMORY) as name:
        yield Path(name)


@pytest.fixture
async def standin(folder):
    pytest.importorskip("qdrant_edge", reason="qdrant-edge-py is not installed (the extra `semantic`)")
    async with serving(folder) as server:
        yield server


@pytest.fixture
async def stores(request, folder):
    """By the parameter: `embedded`, `rest` (over the stand-in) or `local` (the client's own mode, in memory)."""
    kind = getattr(request, "param", "embedded")
    pytest.importorskip("qdrant_edge", reason="qdrant-edge-py is not installed (the extra `semantic`)")
    if kind != "embedded":
        pytest.importorskip("qdrant_client", reason="qdrant-client is not installed (the extra `qdrant`)")
    if kind != "rest":
        found = Stores(kind, folder, 0)
        yield found
        await found.close()
        return
    async with serving(folder) as server:
        found = Stores(kind, folder, server.port)
        yield found
        await found.close()

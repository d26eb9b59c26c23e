"""Stores for tests, of every kind. What may not be installed is imported where it is used."""

import contextlib
import random
import warnings

from vector_points import DIMENSION, Clock


@contextlib.asynccontextmanager
async def serving(folder):
    from qdrant_standin import StandIn

    server = await StandIn(folder / "standin").start()
    try:
        yield server
    finally:
        await server.stop()


def patient(**changes):
    """No deadline that a busy machine could miss, and nothing in the background: what these tests want done they do."""
    from caches.vectors.store import Times

    return Times(**{"search": 30.0, "write": 30.0, "tend": 3600.0, "sweep": 3600.0, "retry": 0.0, **changes})


class Stores:
    """Opens stores of one kind and closes them; each further one finds what the one before has left."""

    def __init__(self, kind, folder, port):
        self.kind = kind
        self.folder = folder
        self.port = port
        self.clock = Clock()
        self.steady = Clock(0.0)
        self.opened = []

    def made(self, **options):
        from caches.vectors.rows import collection_name

        name = collection_name("test", "0123456789", DIMENSION)
        options = {"times": patient(), "clock": self.clock, "steady": self.steady, "rng": random.Random(1), **options}
        if self.kind == "embedded":
            from caches.vectors.embedded import embedded_store

            store = embedded_store(self.folder / "edge", name, DIMENSION, **options)
        else:
            from caches.vectors.remote import remote_store

            store = remote_store(self.connect, name, DIMENSION, **options)
        self.opened.append(store)
        return store

    def connect(self):
        from qdrant_client import AsyncQdrantClient

        from caches.vectors.remote import client_of

        if self.kind == "local":
            return AsyncQdrantClient(":memory:")
        return client_of(f"http://127.0.0.1:{self.port}")

    async def open(self, **options):
        store = self.made(**options)
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "Payload indexes have no effect in the local Qdrant")
            await store.open()
        return store

    async def close(self):
        for store in self.opened:
            await store.close()

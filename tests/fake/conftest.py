"""A fake with the usage's details on, and a client for it."""

import ssl
from collections.abc import AsyncIterator

import httpx
import pytest

from gateway.lab.fake import FakeVLLM, Options

_NO_TLS = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)  # httpx reads every certificate there is for each client otherwise


@pytest.fixture
async def client() -> AsyncIterator[httpx.AsyncClient]:
    async with httpx.AsyncClient(timeout=10, verify=_NO_TLS) as client:
        yield client


@pytest.fixture
async def fake() -> AsyncIterator[FakeVLLM]:
    async with FakeVLLM(Options(enable_prompt_tokens_details=True)) as fake:
        yield fake

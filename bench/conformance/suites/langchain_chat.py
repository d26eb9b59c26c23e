"""LangChain's standard integration tests of a chat model, for ChatOpenAI.

Those with pictures, sounds and documents fetch them from the internet; here they get what langchain_media.py makes.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import httpx
import langchain_media
import pytest
from langchain_core.language_models import BaseChatModel
from langchain_openai import ChatOpenAI
from langchain_tests.integration_tests import ChatModelIntegrationTests
from record import KEY, MODEL, URL
from under_pytest import main


class TestStandard(ChatModelIntegrationTests):
    @pytest.fixture(autouse=True)
    def made_here(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(httpx, "get", langchain_media.get)

    @property
    def chat_model_class(self) -> type[BaseChatModel]:
        return ChatOpenAI

    @property
    def chat_model_params(self) -> dict[str, Any]:
        return {"model": MODEL, "base_url": URL, "api_key": KEY, "stream_usage": True, "max_retries": 0, "timeout": 20}

    @property
    def supports_json_mode(self) -> bool:
        return True

    @property
    def supports_image_inputs(self) -> bool:
        return True

    @property
    def supports_image_urls(self) -> bool:
        return True

    @property
    def supports_image_tool_message(self) -> bool:
        return True

    @property
    def supports_audio_inputs(self) -> bool:
        return True

    @property
    def supports_pdf_inputs(self) -> bool:
        return True

    @property
    def supports_pdf_tool_message(self) -> bool:
        return True

    @property
    def supports_anthropic_inputs(self) -> bool:
        return True

    @property
    def supports_model_override(self) -> bool:
        return True

    @property
    def model_override_value(self) -> str:
        return MODEL


if __name__ == "__main__":
    ours = ["-c", os.devnull, "--rootdir", str(Path(__file__).parent), "-o", "asyncio_mode=auto"]
    loops = ["-o", "asyncio_default_test_loop_scope=session"]  # the client is shared by all cases, and so is its loop
    raise SystemExit(main([__file__, *ours, *loops], folder="langchain_chat.py::TestStandard::"))

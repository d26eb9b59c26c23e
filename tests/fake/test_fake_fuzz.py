"""Hostile requests: whatever the fields hold, the answer is a 200, or a 4xx in vLLM's shape, and nothing is left behind."""

import json
import random
from typing import Any

import httpx
import pytest
from fake_talk import talk

from gateway.lab.fake import FakeVLLM, fields

VALUES: list[Any] = [
    None, True, False, 0, 1, -1, 5, 1e400, 1.5, "", "x", "5", "\ud800", 2**70, -(2**70), 100_000, [], [1], ["a"], [None], [{}],
    {}, [[]], [[1, 2], [3]], [[["x"]]], {"type": "json_schema", "json_schema": 5}, {"type": "json_schema", "json_schema": {}},
    {"json": 5}, {"json": "{"},
    {"choice": [1]}, {"choice": "ab"}, {"include_usage": "yes"}, {"type": "function", "function": {"name": "f"}},
    [{"type": "function", "function": {"name": "f", "parameters": {"type": ["string"], "properties": 5}}}], "required", "auto",
    [{"role": "user", "content": 5}], [{"role": "user"}], [{"role": 5, "content": [1, None, {"text": 5}, {"image_url": {}}]}],
    [{"role": "user", "content": [1, None, {"text": 5}, {"image_url": {}}]}], {"function": {"name": 5}}, "[[say: a]]",
]  # fmt: skip
PATHS = {
    "/v1/chat/completions": (talk(), fields.CHAT),
    "/v1/completions": ({"prompt": "x"}, fields.COMPLETIONS),
    "/v1/embeddings": ({"input": "x"}, fields.EMBEDDINGS),
    "/v1/responses": ({"input": "x"}, fields.RESPONSES),
    "/v1/messages": ({**talk(), "max_tokens": 8}, fields.MESSAGES),
    "/v1/messages/count_tokens": (talk(), fields.MESSAGES),
    "/v1/rerank": ({"query": "x", "documents": ["y"]}, fields.SCORING),
    "/v1/score": ({"text_1": "x", "text_2": "y"}, fields.SCORING),
    "/tokenize": ({"prompt": "x"}, fields.TOKENIZE),
    "/detokenize": ({"tokens": [1]}, fields.DETOKENIZE),
}
OTHERS = ["stop", "tool_choice", "input", "prompt", "tokens", "messages", "guided_json", "system", "documents", "text_2"]


@pytest.mark.parametrize("path", PATHS)
async def test_no_request_is_a_server_error(fake: FakeVLLM, client: httpx.AsyncClient, path: str) -> None:
    """Hundreds of bodies with fields of every shape: none is a 5xx, and places and blocks are free at the end."""
    rng = random.Random(path)
    base, kinds = PATHS[path]
    names = [*kinds, *OTHERS]
    for _ in range(400):
        body = base | {name: rng.choice(VALUES) for name in rng.sample(names, rng.randint(1, 3))}
        if isinstance(body.get("n"), (int, float)) and body["n"] > 100:
            body["n"] = 3
        answer = await client.post(fake.root + path, content=json.dumps(body), headers={"content-type": "application/json"})
        assert answer.status_code in (200, 400, 404), (body, answer.text)
        if answer.status_code != 200:
            told = answer.json()
            assert set(told["error"]) >= {"message", "type"}
            assert told.get("type") == "error" or list(told["error"]) == ["message", "type", "param", "code"]
    assert (fake.engine.running, fake.engine.waiting, fake.engine.cache.used) == (0, 0, 0)

async def test_a_pinned_model_answers(stack):
    """A chat request for a named model comes back as the backend wrote it, with headers that say where it went."""
    answer = await stack.chat("hello")
    assert answer.status_code == 200
    assert answer.json()["choices"][0]["message"]["role"] == "assistant"
    assert answer.headers["x-tiergate-model"] == "small-model"
    assert answer.headers["x-tiergate-tier"] == "small"
    assert answer.headers["x-tiergate-route"] == "pinned"
    assert answer.headers["x-tiergate-replica"] == "s1"

"""How large a prompt is thought to be, without a tokenizer."""

import json

import pytest
from hypothesis import given
from json_texts import VALUES

from gateway.wire import parse, prompt_size, prompts


def sized(**fields):
    return prompt_size(parse(json.dumps({"model": "m", **fields}).encode()))


def message(*parts):
    return [{"role": "user", "content": list(parts)}]


def test_text_counts_its_bytes():
    """Without pictures or token ids the size is the body's."""
    raw = json.dumps({"model": "m", "messages": [{"role": "user", "content": "x" * 1000}]}).encode()
    assert prompt_size(parse(raw)) == (len(raw), 0)


@pytest.mark.parametrize(
    "part",
    [
        {"type": "image_url", "image_url": {"url": "data:image/png;base64," + "A" * 400_000}},
        {"type": "image_url", "image_url": "data:image/png;base64," + "A" * 400_000},
        {"type": "input_audio", "input_audio": {"data": "A" * 400_000, "format": "wav"}},
        {"type": "video_url", "video_url": {"url": "data:video/mp4;base64," + "A" * 400_000}},
        {"type": "audio_url", "audio_url": {"url": "data:audio/mp3;base64," + "A" * 400_000}},
    ],
)
def test_embedded_media_count_as_a_flat_sum(part):
    """A picture's base64 is no prompt text: it counts a thousand tokens, not a hundred thousand."""
    size, tokens = sized(messages=message({"type": "text", "text": "what?"}, part, part))
    assert size < 500
    assert tokens == 2000


def test_linked_media_count_the_same():
    """A picture behind a URL costs the model as much as one in the body."""
    size, tokens = sized(messages=message({"type": "image_url", "image_url": {"url": "https://example.org/a.png"}}))
    assert size < 150
    assert tokens == 1000


@pytest.mark.parametrize("field", ["prompt", "input"])
def test_ready_token_ids_count_one_each(field):
    """A list of ids, or of lists of ids, is counted, not guessed from its digits."""
    assert sized(**{field: [12345] * 1000})[1] == 1000
    assert sized(**{field: [[1, 2, 3], [4, 5]]})[1] == 5
    assert sized(**{field: ["one", "two"]})[1] == 0
    assert sized(**{field: []})[1] == 0


def test_a_size_is_never_negative():
    """Escapes and short ids can make the parts seem longer than the whole."""
    assert sized(prompt=[1] * 1000)[0] == 0
    raw = b'{"model":"m","messages":[{"content":[' + b",".join([b'{"image_url":"\\u00e9"}'] * 9) + b"]}]}"
    assert prompt_size(parse(raw))[0] >= 0


def test_prompts_are_counted():
    """/v1/completions takes one prompt or a list of them; a list of ids is one."""
    for prompt, count in (("a", 1), (["a", "b", "c"], 3), ([1, 2, 3], 1), ([[1], [2]], 2), ([], 1), (None, 1), ({}, 1), (7, 1)):
        assert prompts(parse(json.dumps({"model": "m", "prompt": prompt}).encode())) == count


@given(VALUES, VALUES, VALUES)
def test_hostile_shapes_are_no_more_than_bytes(messages, prompt, part):
    """Any JSON in the place of messages, prompts and parts is sized without an exception."""
    for text in (messages, f"[{part}]", f'[{{"content":[{part},{{"image_url":{part}}},{{"input_audio":{{"data":{part}}}}}]}}]'):
        ask = parse(f'{{"model":"m","messages":{text},"prompt":{prompt},"input":[{part}]}}'.encode())
        size, tokens = prompt_size(ask)
        assert size >= 0
        assert tokens >= 0
        assert prompts(ask) >= 1

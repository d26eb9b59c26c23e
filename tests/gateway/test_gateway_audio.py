"""/v1/audio/transcriptions and /translations: multipart in, the model's name replaced in place, settled by the sound's length."""

import asyncio
import hashlib

import openai
import pytest

from gateway.lab.fake import Options

KEY = "tg-test-key-of-acme"
PATH = "/v1/audio/transcriptions"
SOUND = b"RIFF" + bytes(range(256)) * 375  # 96,004 bytes: four seconds of the fake's


@pytest.fixture
async def gateway(start):
    """The small model hears, the large one does not."""
    return await start({"models": {0: {"endpoints": ["chat", "audio"]}}, "tenants": {0: {"tpm": 1_000_000}}})


@pytest.fixture
async def sdk(gateway):
    async with openai.AsyncOpenAI(base_url=f"{gateway.url}/v1", api_key=KEY, max_retries=0) as sdk:
        yield sdk


async def ask(gateway, path=PATH, sound=SOUND, **fields):
    data = {"model": "small-model", "prompt": "[[say: hello]]", **fields}
    return await gateway.client.post(
        path, data=data, files={"file": ("a b.wav", sound, "audio/wav")}, headers={"authorization": f"Bearer {KEY}"}
    )


@pytest.mark.parametrize("path", [PATH, "/audio/transcriptions", "/openai/deployments/small-model/audio/transcriptions"])
async def test_a_transcription(gateway, path):
    """The form arrives whole under its own boundary, with the served name; a second of sound is fifty tokens."""
    answer = await ask(gateway, path)
    assert answer.status_code == 200
    assert answer.json() == {"text": "hello", "usage": {"type": "duration", "seconds": 4}}
    line = await gateway.line()
    assert (line["endpoint"], line["outcome"], line["requested"]) == ("transcriptions", "ok", "small-model")
    assert (line["prompt_tokens"], line["completion_tokens"], line["charged_tokens"]) == (200, 0, 200)
    assert answer.headers["x-tiergate-model"] == "small-model"
    await gateway.at_rest()


@pytest.mark.parametrize("times", [1, 160])
async def test_every_other_byte_arrives_as_sent(gateway, times):
    """The backend gets the client's bytes, with `fake` where `small-model` stood, and the client's content-type line."""
    mark = "x-'():=?-boundary"
    body = (
        f'--{mark}\r\nContent-Disposition: form-data; name="file"; filename="a.wav"\r\nContent-Type: audio/wav\r\n\r\n'.encode()
        + SOUND[:5000] * times
        + f'\r\n--{mark}\r\nContent-Disposition: form-data; name="model"\r\n\r\nsmall-model\r\n--{mark}--\r\n'.encode()
    )
    kind = f'multipart/form-data; boundary="{mark}"'
    headers = {"authorization": f"Bearer {KEY}", "content-type": kind}
    answer = await gateway.client.post(PATH, content=body, headers=headers)
    assert answer.status_code == 200
    sent, expected = gateway.small.calls[-1], body.replace(b"\r\nsmall-model\r\n", b"\r\nfake\r\n")
    if times == 1:
        assert sent.raw == expected
    else:
        assert sent.sha256 == hashlib.sha256(expected).hexdigest()
    assert sent.headers["content-type"] == kind
    assert int(sent.headers["content-length"]) == len(expected)


async def test_translations(gateway):
    """An answer without usage costs what was estimated from the size of the form, and nothing for its words."""
    answer = await ask(gateway, "/v1/audio/translations")
    assert answer.json() == {"text": "hello"}
    line = await gateway.line()
    assert line["endpoint"] == "translations"
    assert 300 <= line["charged_tokens"] <= 310  # 96 kB at 16,000 bytes a second are six seconds


@pytest.mark.parametrize("text", ["1\n00:00:00,000 --> 00:00:01,000\nhello\n", "WEBVTT\n", "just words", "null"])
async def test_a_transcript_that_is_no_json(gateway, text):
    """Text, SRT and VTT are answers, with the backend's own content-type; they cost what was estimated."""
    gateway.small.faults.add(status=200, body=text, headers={"content-type": "text/plain"}, times=1)
    answer = await ask(gateway, response_format="srt")
    assert (answer.status_code, answer.text, answer.headers["content-type"]) == (200, text, "text/plain")
    assert (await gateway.line())["charged_tokens"] > 300


@pytest.mark.parametrize("text", ["", "<html>proxy</html>", '{"text": "cut sh'])
async def test_a_success_without_a_transcript_moves_on(gateway, text):
    """A proxy's page, a body cut short or none at all is a failure of the replica, and costs nothing."""
    gateway.small.faults.add(status=200, body=text, times=1)
    answer = await ask(gateway)
    assert (answer.status_code, answer.json()["error"]["code"]) == (502, "upstream_error")
    assert (await gateway.line())["charged_tokens"] == 0


async def test_a_verbose_transcription(gateway):
    """vLLM tells its duration and no usage: the duration counts."""
    assert (await ask(gateway, response_format="verbose_json")).json()["duration"] == 4.0
    assert (await gateway.line())["charged_tokens"] == 200


@pytest.mark.parametrize("usage", [True, False])
async def test_a_stream(gateway, usage):
    """`stream` is a field of the form; usage is told where the client asked for it, and is what is paid then."""
    answer = await ask(gateway, stream="true", stream_include_usage="true" if usage else "false")
    assert answer.headers["content-type"].startswith("text/event-stream")
    assert answer.text.endswith("data: [DONE]\n\n")
    assert ('"usage"' in answer.text) == usage
    line = await gateway.line()
    assert (line["stream"], line["outcome"]) == (True, "ok")
    assert line["charged_tokens"] == line["prompt_tokens"] + line["completion_tokens"]
    assert (line["prompt_tokens"] < 300) == usage  # estimated from the size of the form where nobody counted


async def test_a_stream_that_breaks(gateway):
    """Cut in the middle: an error event ends it."""
    gateway.small.faults.add(cut_after_tokens=2, times=1)
    answer = await ask(gateway, stream="true", prompt="[[tokens: 9]]")
    assert '"code":"stream_broken"' in answer.text
    assert (await gateway.line())["outcome"] == "broken_stream"


@pytest.mark.parametrize("stream", ["false", "true"])
async def test_a_client_that_leaves(gateway, stream):
    """Streamed or not, its form's work ends at the engine, and nothing is held for it."""
    gateway.small.faults.add(hang_before_headers=True, times=1)
    waiting = asyncio.create_task(ask(gateway, stream=stream))
    await gateway.until(lambda: gateway.small.calls)
    waiting.cancel()
    await gateway.until(lambda: gateway.small.calls[0].aborted)
    assert (await gateway.line())["outcome"] == "client_gone"
    await gateway.at_rest()


@pytest.mark.parametrize(
    ("fields", "status", "code"),
    [
        ({"model": "large-model"}, 404, "endpoint_not_served"),
        ({"model": "nope"}, 404, "model_not_found"),
        ({"model": ""}, 400, "missing_model"),
    ],
)
async def test_refusals(gateway, fields, status, code):
    """Refused before anything is sent, in the usual shape."""
    answer = await ask(gateway, **fields)
    assert (answer.status_code, answer.json()["error"]["code"]) == (status, code)
    assert not gateway.small.calls
    assert not gateway.large.calls


async def test_no_form_is_a_415(gateway):
    """JSON is not read here; it is refused before the body is asked for."""
    answer = await gateway.client.post(PATH, json={"model": "small-model"}, headers={"authorization": f"Bearer {KEY}"})
    assert (answer.status_code, answer.json()["error"]["code"]) == (415, "unsupported_media_type")


async def test_a_failed_replica_is_replaced(start):
    """As for any other endpoint, another replica takes over before the first byte."""
    gateway = await start({"models": {0: {"endpoints": ["audio"]}}}, fakes={"s1": Options(), "s2": Options(), "l1": Options()})
    for name in ("s1", "s2"):
        gateway.fakes[name].faults.add(status=503, times=1)
    gateway.fakes["s2"].faults.clear()
    assert (await ask(gateway)).status_code == 200
    assert (await ask(gateway)).status_code == 200


async def test_the_sdk(gateway, sdk):
    """The OpenAI SDK's transcriptions, whole and streamed, and Azure's client, which puts the model into the path."""
    answer = await sdk.audio.transcriptions.create(model="small-model", file=("a.wav", SOUND), prompt="[[say: hello there]]")
    assert answer.text == "hello there"
    stream = await sdk.audio.transcriptions.create(
        model="small-model", file=("a.wav", SOUND), prompt="[[say: hello there]]", stream=True
    )
    assert [event async for event in stream]
    with pytest.raises(openai.NotFoundError):
        await sdk.audio.transcriptions.create(model="large-model", file=("a.wav", SOUND))
    async with openai.AsyncAzureOpenAI(azure_endpoint=gateway.url, api_key=KEY, api_version="2024-10-21", max_retries=0) as azure:
        heard = await azure.audio.transcriptions.create(model="small-model", file=("a.wav", SOUND), prompt="[[say: yes]]")
        assert heard.text == "yes"

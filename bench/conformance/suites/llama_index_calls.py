"""LlamaIndex with `OpenAILike` and its embeddings."""

from __future__ import annotations

import uuid

import pydantic
from llama_index.core.llms import ChatMessage, ImageBlock, TextBlock
from llama_index.core.prompts import PromptTemplate
from llama_index.core.tools import FunctionTool
from llama_index.embeddings.openai_like import OpenAILikeEmbedding
from llama_index.llms.openai_like import OpenAILike
from record import KEY, MODEL, URL, fault, run


def model(**fields):
    fields = {"is_chat_model": True, "is_function_calling_model": True, "context_window": 100_000} | fields
    return OpenAILike(model=MODEL, api_base=URL, api_key=KEY, max_retries=0, timeout=20, **fields)


def said(text):
    return [ChatMessage(role="system", content=uuid.uuid4().hex), ChatMessage(role="user", content=text)]


class City(pydantic.BaseModel):
    """A city."""

    city: str
    country: str


def weather(city: str) -> str:
    """The weather of a city."""
    return f"sunny in {city}"


TOOL = FunctionTool.from_defaults(weather)


def chat():
    assert model().chat(said("[[say: hello]]")).message.content == "hello"


def chat_streamed():
    pieces = list(model().stream_chat(said("[[say: hello there]]")))
    assert "".join(piece.delta or "" for piece in pieces) == "hello there"
    assert pieces[-1].message.content == "hello there"


def complete():
    """Through chat for a chat model, through completions for another one."""
    assert model().complete("[[say: hello]]").text == "hello"
    assert model(is_chat_model=False).complete("[[say: hello]]").text == "hello"


def complete_streamed():
    for kind in (True, False):
        pieces = list(model(is_chat_model=kind).stream_complete("[[say: hello there]]"))
        assert pieces[-1].text == "hello there"


def tools():
    llm = model()
    answer = llm.chat_with_tools([TOOL], user_msg='[[tool: weather {"city": "Paris"}]]')
    (call,) = llm.get_tool_calls_from_response(answer)
    assert (call.tool_name, call.tool_kwargs) == ("weather", {"city": "Paris"})


def tools_streamed():
    llm = model()
    *_, last = llm.stream_chat_with_tools([TOOL], user_msg='[[tool: weather {"city": "Paris"}]]')
    (call,) = llm.get_tool_calls_from_response(last)
    assert call.tool_kwargs == {"city": "Paris"}


def tool_required():
    llm = model()
    answer = llm.chat_with_tools([TOOL], user_msg="x", tool_required=True)
    assert llm.get_tool_calls_from_response(answer)[0].tool_name == "weather"


def predict_and_call():
    answer = model().predict_and_call([TOOL], '[[tool: weather {"city": "Paris"}]]')
    assert "sunny in Paris" in str(answer)


def structured():
    """By a tool call, and by a JSON schema."""
    for by_schema in (False, True):
        llm = model(should_use_structured_outputs=by_schema)
        assert isinstance(llm.structured_predict(City, PromptTemplate("{x}"), x="x"), City)


def structured_streamed():
    asked = '[[tool: City {"city": "Paris", "country": "France"}]]'
    seen = list(model().stream_structured_predict(City, PromptTemplate("{x}"), x=asked))
    assert len(seen) > 1
    assert (seen[-1].city, seen[-1].country) == ("Paris", "France")


def image():
    blocks = [TextBlock(text="[[say: a cat]]"), ImageBlock(image=b"\x89PNG\r\n\x1a\n" + bytes(2000), image_mimetype="image/png")]
    assert model().chat([ChatMessage(role="user", blocks=blocks)]).message.content == "a cat"


def logprobs():
    answer = model(logprobs=True, top_logprobs=2).chat(said("[[say: a b c]]"))
    assert answer.logprobs
    assert len(answer.logprobs[0]) == 2


def embeddings():
    embed = OpenAILikeEmbedding(model_name=MODEL, api_base=URL, api_key=KEY, max_retries=0)
    assert [len(vector) for vector in embed.get_text_embedding_batch(["a", "b"])] == [64, 64]


async def asynchronous():
    assert (await model().achat(said("[[say: hello]]"))).message.content == "hello"
    pieces = [piece async for piece in await model().astream_chat(said("[[say: hello there]]"))]
    assert pieces[-1].message.content == "hello there"


def errors():
    fault(status=422, body={"error": {"message": "cannot be processed", "type": "x", "param": None, "code": 422}})
    try:
        model().chat(said("x"))
    except Exception as error:  # noqa: BLE001 - the SDK's
        assert "cannot be processed" in str(error), error  # noqa: PT017
        return
    raise AssertionError("no error")


CASES = [
    chat, chat_streamed, complete, complete_streamed, tools, tools_streamed, tool_required, predict_and_call, structured,
    structured_streamed, image, logprobs, embeddings, asynchronous, errors,
]  # fmt: skip

if __name__ == "__main__":
    run(CASES)

"""DSPy: its language model, modules with each adapter, tools, streams, embeddings."""

from __future__ import annotations

import os
import uuid
from typing import Literal

os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"

import dspy
from record import KEY, MODEL, URL, fault, run


def model(**fields):
    return dspy.LM(f"openai/{MODEL}", api_base=URL, api_key=KEY, cache=False, num_retries=0, **fields)


class Capital(dspy.Signature):
    """Name the capital."""

    country: str = dspy.InputField()
    capital: str = dspy.OutputField()
    certain: Literal["yes", "no"] = dspy.OutputField()


def weather(city: str) -> str:
    """The weather of a city."""
    return f"sunny in {city}"


MARKED = "capital of France, in marks"  # the engines' script has the answer
AS_JSON = '[[json: {"reasoning": "as is known", "capital": "Paris", "certain": "yes"}]]'


def country(text):
    """What the engine is told to say comes last in the prompt of a module, behind the adapter's own words."""
    return f"{uuid.uuid4().hex} {text}"


def asked(adapter, text, module=dspy.Predict, signature=Capital):
    with dspy.context(lm=model(), adapter=adapter):
        return module(signature)(country=country(text))


def text_of(answer):
    return answer["text"] if isinstance(answer, dict) else answer


def language_model():
    assert text_of(model()(country("[[say: hello]]"))[0]) == "hello"


def several_answers():
    assert len(model(temperature=1.0)(country("x"), n=3)) == 3


def text_model():
    assert text_of(model(model_type="text")("[[say: hello]]")[0]).startswith("hello")


def responses_model():
    assert text_of(model(model_type="responses")("[[say: hello]]")[0]) == "hello"


def json_adapter():
    found = asked(dspy.JSONAdapter(), AS_JSON)
    assert (found.capital, found.certain) == ("Paris", "yes")


def chat_adapter():
    found = asked(dspy.ChatAdapter(), MARKED)
    assert (found.capital, found.certain) == ("Paris", "yes")


def asks_again_as_json():
    """An answer without the chat adapter's marks is asked for again, as JSON."""
    assert asked(dspy.ChatAdapter(), AS_JSON).capital == "Paris"


def chain_of_thought():
    found = asked(dspy.JSONAdapter(), AS_JSON, dspy.ChainOfThought)
    assert (found.reasoning, found.capital) == ("as is known", "Paris")


def agent():
    """ReAct: a thought and a tool, then the answer out of what came of it."""
    told = '{"next_thought": "ask", "next_tool_name": "weather", "next_tool_args": {"city": "Paris"}, '
    told += '"reasoning": "asked", "answer": "sunny"}'
    with dspy.context(lm=model(), adapter=dspy.JSONAdapter()):
        found = dspy.ReAct("question -> answer", tools=[weather], max_iters=1)(question=country(f"[[json: {told}]]"))
    assert found.answer == "sunny"
    assert "sunny in Paris" in str(found.trajectory)


def native_tools():
    signature = dspy.Signature("question: str, tools: list[dspy.Tool] -> calls: dspy.ToolCalls")
    with dspy.context(lm=model(), adapter=dspy.ChatAdapter(use_native_function_calling=True)):
        found = dspy.Predict(signature)(question=country('[[tool: weather {"city": "Paris"}]]'), tools=[dspy.Tool(weather)])
    (call,) = found.calls.tool_calls
    assert (call.name, call.args) == ("weather", {"city": "Paris"})


def usage():
    with dspy.context(lm=model(), adapter=dspy.JSONAdapter(), track_usage=True):
        found = dspy.Predict(Capital)(country=country(AS_JSON))
    assert next(iter(found.get_lm_usage().values()))["total_tokens"] > 0


async def streamed():
    with dspy.context(lm=model(), adapter=dspy.JSONAdapter()):
        program = dspy.streamify(
            dspy.Predict(Capital), stream_listeners=[dspy.streaming.StreamListener(signature_field_name="capital")]
        )
        seen = [piece async for piece in program(country=country(AS_JSON))]
    assert isinstance(seen[-1], dspy.Prediction)
    assert seen[-1].capital


async def asynchronous():
    with dspy.context(lm=model(), adapter=dspy.JSONAdapter()):
        assert (await dspy.Predict(Capital).acall(country=country(AS_JSON))).capital


def embeddings():
    embed = dspy.Embedder(f"openai/{MODEL}", api_base=URL, api_key=KEY, caching=False)
    assert embed(["a", "b"]).shape == (2, 64)


def errors():
    fault(status=422, body={"error": {"message": "cannot be processed", "type": "x", "param": None, "code": 422}})
    try:
        model()(country("x"))
    except Exception as error:  # noqa: BLE001 - its class differs between engines of dspy
        assert "cannot be processed" in str(error), error  # noqa: PT017
        return
    raise AssertionError("no error")


CASES = [
    language_model, several_answers, text_model, responses_model, json_adapter, chat_adapter,
    asks_again_as_json, chain_of_thought, agent,
    native_tools, usage, streamed, asynchronous, embeddings, errors,
]  # fmt: skip

if __name__ == "__main__":
    run(CASES)

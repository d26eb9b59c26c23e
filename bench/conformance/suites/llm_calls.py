"""simonw's `llm`: its command with a model of its extra-openai-models.yaml, as its users set one up."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import uuid
from pathlib import Path

from record import KEY, MODEL, URL, fault, run

HOME = Path.cwd() / "llm"
LLM = str(Path(sys.executable).with_name("llm"))
MODELS = [
    {"model_id": "mine", "model_name": MODEL, "api_base": URL, "api_key_name": "mine", "supports_tools": True,
     "supports_schema": True, "vision": True, "reasoning": True},
    {"model_id": "older", "model_name": MODEL, "api_base": URL, "api_key_name": "mine", "completion": True},
]  # fmt: skip
TOOLS = """
def weather(city: str) -> str:
    "The weather of a city."
    return f"sunny in {city}"
"""


def llm(*words, code=0, model="mine", given=None):
    """What it prints; a prompt that nobody sent before."""
    command = [LLM, *words, *(("-m", model) if model else ())]
    env = {**os.environ, "LLM_USER_PATH": str(HOME)}
    done = subprocess.run(command, input=given or "", capture_output=True, text=True, env=env, timeout=60, check=False)
    assert done.returncode == code, done.stderr or done.stdout
    return done.stdout.strip() if not code else done.stderr.strip()


def fresh():
    return ("-s", uuid.uuid4().hex)


def prompt():
    assert llm("[[say: hello there]]", *fresh()) == "hello there"


def prompt_without_a_stream():
    assert llm("[[say: hello there]]", "--no-stream", *fresh()) == "hello there"


def from_stdin():
    assert llm(*fresh(), given="[[say: read]]") == "read"


def conversation():
    llm("[[say: one]]", *fresh())
    assert llm("[[say: two]]", "-c") == "two"


def options():
    llm("[[tokens: 50]]", "-o", "max_tokens", "5", "-o", "temperature", "0.5", "-o", "seed", "3", "-u", *fresh())


def usage():
    llm("[[tokens: 9]]", *fresh())
    (last,) = json.loads(llm("logs", "list", "-n", "1", "--json", model=None))
    assert last["output_tokens"] == 9, last


def schema():
    told = json.loads(llm("x", "--schema", "name, age int", *fresh()))
    assert set(told) == {"name", "age"}


def tools():
    asked = '[[tool: weather {"city": "Paris"}]] [[say: done]]'
    assert llm(asked, "--functions", TOOLS, *fresh()).endswith("done")
    (last,) = json.loads(llm("logs", "list", "-n", "1", "--json", model=None))
    assert "sunny in Paris" in json.dumps(last)


def tools_without_a_stream():
    asked = '[[tool: weather {"city": "Paris"}]] [[say: done]]'
    assert llm(asked, "--functions", TOOLS, "--no-stream", *fresh()).endswith("done")


def attachment():
    picture = HOME / "a.png"
    picture.write_bytes(b"\x89PNG\r\n\x1a\n" + bytes(2000))
    assert llm("[[say: a cat]]", "-a", str(picture), *fresh()) == "a cat"


def older_completions():
    assert llm("[[say: hello]]", model="older") == "hello"


def errors():
    fault(status=422, body={"error": {"message": "cannot be processed", "type": "x", "param": None, "code": 422}})
    assert "cannot be processed" in llm("x", code=1)


CASES = [
    prompt, prompt_without_a_stream, from_stdin, conversation, options, usage, schema, tools, tools_without_a_stream,
    attachment, older_completions, errors,
]  # fmt: skip

if __name__ == "__main__":
    HOME.mkdir()
    (HOME / "extra-openai-models.yaml").write_text(json.dumps(MODELS))
    (HOME / "keys.json").write_text(json.dumps({"mine": KEY}))
    run(CASES)

"""Schemathesis over OpenAI's API as the types of OpenAI's own package describe it: a source of requests nobody here wrote.

The document is made from the types of the `openai` package (Apache-2.0) of this environment when the suite runs: chat
completions, completions, embeddings, responses and models, what is asked and what is answered. Two things are ours: the
models' names, without which all would be a 404, and bounds of what is asked to be made. No answer may be a 5xx or of another
content type than the document says, no 200 of another shape. A case is an operation and a check.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from openai.types import Completion, CreateEmbeddingResponse, Model
from openai.types import completion_create_params as completions
from openai.types import embedding_create_params as embeddings
from openai.types.chat import ChatCompletion
from openai.types.chat import completion_create_params as chat
from openai.types.responses import Response
from openai.types.responses import response_create_params as responses
from pydantic import BaseModel, TypeAdapter
from record import KEY, MODEL, URL
from under_schemathesis import tried

EXAMPLES = 60
MODELS = {"enum": [MODEL, "no-such-model"]}
MOST = {"n": 4, "best_of": 4, "max_tokens": 64, "max_completion_tokens": 64, "max_output_tokens": 64}
_SCHEMAS = "#/components/schemas/"


class Models(BaseModel):
    data: list[Model]
    object: str


OPERATIONS: tuple[tuple[str, Any, Any], ...] = (
    ("/chat/completions", chat.CompletionCreateParams, ChatCompletion),
    ("/completions", completions.CompletionCreateParams, Completion),
    ("/embeddings", embeddings.EmbeddingCreateParams, CreateEmbeddingResponse),
    ("/responses", responses.ResponseCreateParams, Response),
    ("/models", None, Models),
    ("/models/{model}", None, Model),
)


def document() -> dict[str, Any]:
    paths: dict[str, Any] = {}
    schemas: dict[str, Any] = {}
    refused = {"description": "refused", "content": {"application/json": {"schema": {"type": "object", "required": ["error"]}}}}
    for at, (path, asked, answered) in enumerate(OPERATIONS):
        forms: dict[str, Any] = {"application/json": {"schema": _schema(answered, f"answer{at}", schemas)}}
        operation: dict[str, Any] = {"responses": {"200": {"description": "an answer", "content": forms}, "4XX": refused}}
        if asked is not None:
            forms["text/event-stream"] = {"schema": {}}
            body = _bounded(_schema(asked, f"ask{at}", schemas), schemas)
            operation["requestBody"] = {"required": True, "content": {"application/json": {"schema": body}}}
        elif "{" in path:
            operation["parameters"] = [{"name": "model", "in": "path", "required": True, "schema": MODELS}]
        paths[path] = {"get" if asked is None else "post": operation}
    vector = next(schema for name, schema in schemas.items() if name.endswith("_Embedding"))["properties"]
    vector["embedding"] = {"anyOf": [vector["embedding"], {"type": "string"}]}  # base64, which the SDK unpacks before its types
    return {"openapi": "3.1.0", "info": {"title": "OpenAI's", "version": "1"}, "components": {"schemas": schemas}, "paths": paths}


def _schema(kind: Any, prefix: str, schemas: dict[str, Any]) -> dict[str, Any]:
    """The type's schema; what it refers to goes among `schemas`, under names that no other type has."""
    made = TypeAdapter(kind).json_schema(ref_template=f"{_SCHEMAS}{prefix}_{{model}}")
    schemas.update({f"{prefix}_{name}": schema for name, schema in made.pop("$defs", {}).items()})
    return made


def _bounded(schema: dict[str, Any], schemas: dict[str, Any]) -> dict[str, Any]:
    """The same, with the models' names and with bounds in each form that the request may have."""
    for form in [schema, *(schemas[part["$ref"].removeprefix(_SCHEMAS)] for part in schema.get("anyOf", ()))]:
        properties = form.get("properties", {})
        properties.update({"model": MODELS} if properties else {})
        for name in MOST.keys() & properties.keys():
            properties[name]["maximum"] = MOST[name]
    return schema


if __name__ == "__main__":
    file = Path("openai.json").absolute()
    file.write_text(json.dumps(document()))
    tried("", str(file), URL, KEY, EXAMPLES, "--phases", "fuzzing")

"""One value as the type a field wants, with the leniency and the wording of vLLM's validator: "5" and 5.0 are the integer 5."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

INT, FLOAT, BOOL, STR, LIST, DICT, ANY = "int", "float", "bool", "str", "list", "dict", "any"
NO_DICT = "Input should be a valid dictionary"
NO_MODEL = "Input should be a valid dictionary or object to extract fields from"
EXACT: Mapping[str, type] = {INT: int, FLOAT: float, BOOL: bool, STR: str, LIST: list, DICT: dict, ANY: object}


class Wrong(Exception):  # noqa: N818 - carries a pydantic error, and is never seen outside
    def __init__(self, kind: str, message: str) -> None:
        super().__init__(message)
        self.kind = kind
        self.message = message


def to_int(value: object) -> int:
    if isinstance(value, bool):
        return int(value)
    if isinstance(value, float):
        if value.is_integer():
            return int(value)
        raise Wrong("int_from_float", "Input should be a valid integer, got a number with a fractional part")
    if isinstance(value, int):
        return value
    if isinstance(value, str):
        try:
            return int(value)
        except ValueError:
            raise Wrong("int_parsing", "Input should be a valid integer, unable to parse string as an integer") from None
    raise Wrong("int_type", "Input should be a valid integer")


def to_float(value: object) -> float:
    if isinstance(value, (int, float)):
        return float(value) if abs(value) < 1e300 else float("inf")
    if isinstance(value, str):
        try:
            return float(value)
        except ValueError:
            raise Wrong("float_parsing", "Input should be a valid number, unable to parse string as a number") from None
    raise Wrong("float_type", "Input should be a valid number")


def to_bool(value: object) -> bool:
    word = value.lower() if isinstance(value, str) else value
    if isinstance(word, (str, int, float)):
        if word in ("true", "t", "yes", "y", "on", "1", 1):
            return True
        if word in ("false", "f", "no", "n", "off", "0", 0):
            return False
        raise Wrong("bool_parsing", "Input should be a valid boolean, unable to interpret input")
    raise Wrong("bool_type", "Input should be a valid boolean")


def _refuse(kind: str, message: str) -> Callable[[object], Any]:
    def refuse(_: object) -> Any:
        raise Wrong(kind, message)

    return refuse


COERCE: Mapping[str, Callable[[Any], Any]] = {
    INT: to_int,
    FLOAT: to_float,
    BOOL: to_bool,
    STR: _refuse("string_type", "Input should be a valid string"),
    LIST: _refuse("list_type", "Input should be a valid list"),
    DICT: _refuse("dict_type", NO_DICT),
    ANY: lambda value: value,
}

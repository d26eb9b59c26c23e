"""Tool calls and function calls, put together from a stream's deltas.

Peers have merged parallel calls into one, and written a name twice. The rules here:
- a delta belongs to the call of its index; without an index, to the call under way;
- one that names a function and bears another id (or, where there are no ids, names another function after arguments came)
  starts a new call, even if a backend gives all of them one index;
- a name may come once, again with every delta, growing, or in pieces;
- arguments are concatenated, and the other fields are the last that are not null.
"""

from __future__ import annotations

from typing import Any

_NAMED_ONCE = frozenset({"id", "type"})  # of a call: the first that is not empty


class Function:
    """A function's name and arguments, in pieces."""

    __slots__ = ("arguments", "fields", "name")

    def __init__(self) -> None:
        self.name: str | None = None
        self.arguments: list[str] = []
        self.fields: dict[str, Any] = {}

    def add(self, piece: dict[str, Any]) -> None:
        for name, value in piece.items():
            if name == "arguments" and (value is None or type(value) is str):
                self.arguments.append(value or "")
            elif name == "name" and (value is None or type(value) is str):
                self._add_name(value or "")
            elif value is not None or name not in self.fields:
                self.fields[name] = value

    def _add_name(self, name: str) -> None:
        """Backends send a name once, again with every delta, growing, or in pieces: never write it twice."""
        if not self.name or name.startswith(self.name):
            self.name = name
        else:
            self.name += name

    def whole(self) -> dict[str, Any]:
        named = {} if self.name is None else {"name": self.name}
        return {**named, "arguments": "".join(self.arguments), **self.fields}


class _Call:
    """One tool call; `place` is where it belongs among its siblings."""

    __slots__ = ("fields", "function", "place")

    def __init__(self, place: int) -> None:
        self.place = place
        self.fields: dict[str, Any] = {}
        self.function: Function | None = None

    def add(self, delta: dict[str, Any]) -> None:
        for name, value in delta.items():
            if name == "function" and type(value) is dict:
                self.function = self.function or Function()
                self.function.add(value)
            elif name in _NAMED_ONCE:
                self.fields[name] = self.fields.get(name) or value
            elif name != "index" and (value is not None or name not in self.fields):
                self.fields[name] = value

    def whole(self) -> dict[str, Any]:
        if self.function is None:
            return self.fields
        call: dict[str, Any] = {"id": None, "type": "function"}
        call.update(self.fields)
        call["function"] = self.function.whole()
        return call


class Calls:
    """The tool calls of one choice."""

    __slots__ = ("by_index", "calls")

    def __init__(self) -> None:
        self.calls: list[_Call] = []
        self.by_index: dict[int, _Call] = {}

    def add(self, deltas: Any) -> None:
        if type(deltas) is not list:
            return
        for delta in deltas:
            if type(delta) is dict:
                self._call_of(delta).add(delta)

    def _call_of(self, delta: dict[str, Any]) -> _Call:
        index = delta.get("index")
        if isinstance(index, int):
            call, place = self.by_index.get(index), index
        else:
            call, place = (self.calls[-1] if self.calls else None), len(self.calls)
        if call is None or _starts_another(call, delta):
            call = self.by_index[place] = _Call(place)
            self.calls.append(call)
        return call

    def whole(self) -> list[dict[str, Any]]:
        return [call.whole() for call in sorted(self.calls, key=lambda call: call.place)]


def _starts_another(call: _Call, delta: dict[str, Any]) -> bool:
    """Whether a delta that seems to go on with a call begins the next: it names a function, and it is not this call's."""
    function = delta.get("function")
    name = function.get("name") if type(function) is dict else None
    if not name or call.function is None or not call.function.name:
        return False
    ident, known = delta.get("id"), call.fields.get("id")
    if ident and known:
        return bool(ident != known)
    return any(call.function.arguments) and name != call.function.name

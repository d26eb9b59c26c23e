"""How large a JSON schema becomes once its references are written out.

For some providers the library does that, each definition once along every path: a schema of two kilobytes can so become one
that fills the memory, while the event loop stands still. It is counted here first, and only as far as the bound.
"""

from __future__ import annotations

from typing import Any

MAX_EXPANDED = 20_000  # objects and lists within references, each counted with its parent and by itself
_MAX_CHAIN = 64  # references within references
_HOLDERS = ("$defs", "definitions")


def too_large(schema: Any) -> bool:
    """Would it, written out, be over the bound? Where two definitions have one name, both are counted."""
    definitions = _definitions(schema)
    todo: list[tuple[Any, tuple[str, ...]]] = [(schema, ())] if definitions else []
    expanded = 0
    while todo:
        node, chain = todo.pop()
        inner = _children(node)
        expanded += 1 + len(inner) if chain else 0
        if expanded > MAX_EXPANDED or len(chain) > _MAX_CHAIN:
            return True
        reference = node.get("$ref") if isinstance(node, dict) else None
        name = reference.rpartition("/")[2] if isinstance(reference, str) else ""
        if name in definitions and name not in chain:
            todo += [(target, (*chain, name)) for target in definitions[name]]
        todo += [(child, chain) for child in inner]
    return False


def _definitions(schema: Any) -> dict[str, list[Any]]:
    found: dict[str, list[Any]] = {}
    todo = [schema]
    while todo:
        node = todo.pop()
        for holder in _HOLDERS if isinstance(node, dict) else ():
            held = node.get(holder)
            for name, definition in held.items() if isinstance(held, dict) else ():
                found.setdefault(name, []).append(definition)
        todo += _children(node)
    return found


def _children(node: Any) -> list[Any]:
    inner = node.values() if isinstance(node, dict) else node if isinstance(node, list) else ()
    return [child for child in inner if isinstance(child, dict | list)]

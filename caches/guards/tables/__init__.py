"""The words that guards know: plain tables without code that reads a text, and how the longer ones are read from their files.

`words.txt` holds the words of four and more letters of BERT's vocabulary (google-research/bert, Apache-2.0); all other tables
were made for this project.
"""

from __future__ import annotations

from importlib.resources import files


def words(text: str) -> frozenset[str]:
    return frozenset(text.split())


def lines(name: str) -> list[str]:
    """The lines of a table beside this file, without its comments."""
    text = files(__name__).joinpath(name).read_text("utf-8")
    return [line for line in text.splitlines() if line and not line.startswith("#")]

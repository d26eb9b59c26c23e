"""What an embedder without capitals and accents cannot see, and questions that the guards cannot read."""

import pytest

from caches.guards import Reading, veto
from caches.semantic.eligible import refusal


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("What does ls -a do?", "What does ls -A do?"),
        ("What does `tar -c` do?", "What does `tar -C` do?"),
        ("what is the regex \\d for", "what is the regex \\D for"),
        ("What is blood type b?", "What is blood type o?"),
        ("What is é called?", "What is è called?"),
        ("What does résumé mean?", "What does resume mean?"),
    ],
)
def test_a_letter_that_says_something_else_is_a_veto(one: str, other: str) -> None:
    """Options, classes and letters alone are compared as they are written, accents too."""
    assert veto(Reading.of(one), Reading.of(other)) is not None
    assert veto(Reading.of(other), Reading.of(one)) is not None


@pytest.mark.parametrize(
    ("one", "other"),
    [("How do I load a file?", "how do i load a file"), ("What is Zürich known for?", "what is zürich known for")],
)
def test_capitals_of_words_are_no_veto(one: str, other: str) -> None:
    """Who writes without capitals means the same."""
    assert veto(Reading.of(one), Reading.of(other)) is None


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("¿Cómo activo el bluetooth del teléfono?", "language"),
        ("Quel est le prix sans taxe ?", "language"),
        ("Hoe zet ik de verwarming uit?", "language"),
        ("How do I say good morning in Spanish?", None),
        ("Cancel subscription", None),
    ],
)
def test_what_the_guards_cannot_read_is_not_looked_up(text: str, reason: str | None) -> None:
    """A question in Latin letters must show that it is English, unless it is so short that nothing can be told."""
    assert refusal(text) == reason

"""Which texts an embedder that reads Latin letters is asked about."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from caches.embed.scripts import KNOWN, Scripts

LATIN = Scripts(("latin",))


@pytest.mark.parametrize(
    "text",
    [
        "",
        "How do I reset my password?",
        "Où est la gare de Lyon, s'il vous plaît ?",
        "Wie groß ist die Straße? Größer als 10 km²?",
        "Çok teşekkür ederim, İstanbul'da hava nasıl?",
        "for (int i = 0; i < n; ++i) { sum += a[i] * b[i]; }",
        "12 345,67 € → 98 % ≤ ∞ 😀",
        "“quotes” — a dash… and a tab\t",
        "What does the letter π stand for in a circle?",
    ],
)
def test_latin_code_digits_and_signs_are_covered(text):
    """Latin letters with their accents, code, digits and signs are read; so is a lone letter of mathematics."""
    assert LATIN.covers(text)


@pytest.mark.parametrize(
    "text",
    [
        "怎么重置密码？",
        "Translate 我想订一张去北京的机票 into English",
        "Как сбросить пароль?",
        "パスワードをリセットするには？",
        "비밀번호를 어떻게 재설정하나요?",
        "كيف أعيد تعيين كلمة المرور؟",
        "איך מאפסים סיסמה?",
        "मैं अपना पासवर्ड कैसे रीसेट करूँ?",
        "ฉันจะรีเซ็ตรหัสผ่านได้อย่างไร",
        "Πώς επαναφέρω τον κωδικό μου;",
        "Làm thế nào để tôi đặt lại mật khẩu của mình?",
        "ስልኬን እንዴት እመልሳለሁ?",
        "Wie heißt 猫?",
    ],
)
def test_other_scripts_are_not(text):
    """Other scripts, known here or not, are turned away, among Latin letters too, and so is Vietnamese, whose accents matter."""
    assert not LATIN.covers(text)


def test_a_model_may_read_several_or_all():
    """What a model reads is what its description names."""
    both = Scripts(("latin", "han"))
    assert both.covers("Translate 我想订一张去北京的机票 into English")
    assert not both.covers("Как сбросить пароль?")
    assert not Scripts(("han",)).covers("plain English")
    assert Scripts(("all",)).covers("Как, 怎么 or ስልኬን")


@given(st.sets(st.sampled_from(sorted(KNOWN)), min_size=1), st.text())
def test_more_scripts_never_cover_less(names, text):
    """A model that reads one script more reads all that it read before."""
    one = Scripts((min(names),))
    assert Scripts(tuple(names)).covers(text) or not one.covers(text)


@given(st.text(st.characters(max_codepoint=127)))
def test_plain_ascii_is_always_latin(text):
    """The short cut for ASCII says what the count would say."""
    assert LATIN.covers(text)

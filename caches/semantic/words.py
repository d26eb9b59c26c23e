"""The words by which a question shows that one answer will not do for all who ask it."""

from __future__ import annotations

from caches.guards.tables import words

TIME = words(
    """
    today today's tonight tomorrow tomorrow's yesterday now nowadays currently current latest newest recent recently presently
    upcoming live ongoing trending breaking
    """
)
TIME_HAN = words(
    """
    现在 目前 当前 今天 今日 今晚 明天 后天 昨天 前天 刚刚 最新 最近 近期 本周 这周 上周 下周 本月 这个月 上个月 下个月 今年
    去年 明年 此刻 实时 眼下 如今
    """
)
TIMELESS = ("current account", "electric current", "live in", "live with")
"""Turns of phrase in which such a word says nothing about time."""

VARIED = words("random randomly another again surprise brainstorm reroll regenerate rephrase reword")
CREATIVE = words(
    """
    joke jokes poem poems haiku limerick story stories song songs lyrics riddle riddles pun puns rap tale essay slogan slogans
    tagline taglines caption captions name names ideas
    """
)
MAKING = words("write tell make create generate compose invent give suggest come imagine draft pick choose think")
"""Verbs that ask for something new, at the beginning of a text."""
CHANCE = words(
    """
    password passwords passphrase token tokens uuid uuids guid key keys secret secrets username usernames nickname nicknames
    number numbers idea pin captcha
    """
)
"""What is made for one person: behind a verb of making that is the first word of weight."""
POLITE = words("please can could would you i need want to a an me")
VARIED_HAN = words("随机 再来 再说 再写 再给 换一个 另一个 另外一个 笑话 写一首 写首 作一首 编一个 编个 讲个故事 讲一个")

CONTEXT = words("above aforementioned previously earlier former latter")
CONTEXT_ALONE = words(
    """
    it this that these those them they he she one ones and or but so ok okay yes no sure please thanks continue go on more why
    how what the a an is are do does did can could you i me explain tell do it's that's what's about with for to of
    """
)
"""A text of nothing but these says nothing by itself."""

SELF = words("i me")
OWN = words("i'm i've my mine myself we we're we've our ours us im ive")
"""Words of whoever asks about what is theirs."""

ENGLISH = words(
    """
    a about after all an and any are as at be before but by can could did difference do does each every explain
    find for from get give had has have how i if in into is it its list make me mean my name need not of off on or
    other our out over should show some tell than that the their them there these they this those to up use used
    using was way we were what what's when where which who whose why will with without work write would you your
    """
)
"""Small words of English that are hardly words of other languages in Latin letters."""

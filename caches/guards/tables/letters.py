"""Words that mean another thing with a capital, and tasks in which a counts as it is written."""

from __future__ import annotations

from caches.guards.tables import words

CAPITONYMS = words(
    """
    polish march may august turkey china jordan chile jaguar apple java python swift rust amazon oracle shell target gap ford
    mercury saturn us who aids reading bath nice mobile cork bill will mark jack frank grace hope joy rose lily iris pat
    rob sue drew faith catholic lent ram jam lima tangier georgia guinea hungary wales orange phoenix buffalo crystal ruby pearl
    amber daisy holly ivy violet dawn eve summer autumn harry basil sage word
    corona kindle puma dove caterpillar
    """
)
CASED_UNITS = words("mg ma mj mw mpa mm ms nm g k m db v")
"""Behind a number another unit with a capital."""
TASKS = words(
    """
    spell spelled spelt anagram rhyme backwards uppercase lowercase capitalize syllable vowel consonant plural singular
    pronounce translate conjugate palindrome punctuate alphabetize hyphenate scramble unscramble acronym
    """
)

"""English words that carry a sentence's grammar or its manners, and none of its matter."""

from __future__ import annotations

from caches.guards.tables import words

FUNCTION = words(
    """
    a an the this that these those there here some i me myself we us ourselves you yourself it itself they them themselves he
    him himself she her herself one ones am is are was were be been being isn do does did doing done have has had having can
    could will would shall should may might must ought of in on at for to from by with about into onto upon via as within
    during through over under up down out off per and or but if so then than because while though although whether since until
    till also both either before after what which who whom whose when where why how whatever whichever s t ll re ve d m o my
    mine your yours our ours their theirs his hers its any evenif
    """
)
"""Dropped when the matter of two texts is compared. What must not be dropped blindly (who is meant, off or on, before or
after) has a guard of its own, which reads the words before they are dropped."""

FILLER = words(
    """
    please pls plz kindly thanks thank thx cheers um uh er erm hmm oh okay yeah anyway just really actually basically
    literally quickly exactly precisely ever possibly perhaps maybe somehow usually normally typically generally actual truly
    genuinely indeed certainly definitely absolutely generally mostly mainly ever effectively properly very quite pretty
    rather too even still already again though like wondering wonder curious question anyone anybody somebody someone guys
    folks sir madam everyone
    """
)
"""Manners, hesitation and emphasis: their coming and going changes no answer, unless words are what is asked about."""

OPENINGS = words(
    """
    please pls plz kindly hi hello hey hiya greetings dear morning afternoon evening so um uh er well ok okay yo yes and but
    now right
    """
)
CLOSINGS = words("please pls plz lol asap guys folks anyone regards")
THANKS = words("thanks thank thx cheers ty tia")
WITH_THANKS = words("you very much so in advance a lot again all everyone guys")
"""Dropped at the very beginning and the very end of a text; the last only behind thanks."""

SPEECH = words(
    """
    say says said saying translate translated translation mean means meaning word words spell pronounce define called letter
    phrase
    """
)
"""With one of these, words are what the question is about: nothing is dropped as manners."""

LIGHT = words(
    """
    get got go make take do use have give put let tell say know find see show look want need like try keep way ways thing
    things stuff something anything step steps process method procedure help explain describe list provide share discuss
    define definition meaning mean know-how tip tips advice idea ideas possible able good detail details information info
    example examples kind type sort different various main people person man time place come happen call name most best top
    common all every each everything become begin happen exist question comment human available real easily
    well much several
    """
)
"""Words of little weight: one more or less is a hint of another question, not the proof of one."""

CONTRACTIONS = {
    "can't": ("can", "not"), "cannot": ("can", "not"), "cant": ("can", "not"), "won't": ("will", "not"), "wont": ("will", "not"),
    "shan't": ("shall", "not"), "dont": ("do", "not"), "doesnt": ("does", "not"), "didnt": ("did", "not"), "isnt": ("is", "not"),
    "arent": ("are", "not"), "wasnt": ("was", "not"), "werent": ("were", "not"), "shouldnt": ("should", "not"),
    "couldnt": ("could", "not"), "wouldnt": ("would", "not"), "hasnt": ("has", "not"), "havent": ("have", "not"),
    "hadnt": ("had", "not"), "ain't": ("is", "not"), "aint": ("is", "not"),
    "whats": ("what", "is"), "hows": ("how", "is"), "wheres": ("where", "is"), "whos": ("who", "is"), "whens": ("when", "is"),
    "whys": ("why", "is"), "thats": ("that", "is"), "theres": ("there", "is"), "heres": ("here", "is"), "lets": ("let", "us"),
    "let's": ("let", "us"), "im": ("i", "am"), "ive": ("i", "have"), "youre": ("you", "are"), "wanna": ("want", "to"),
    "gonna": ("going", "to"), "gotta": ("got", "to"), "gimme": ("give", "me"), "o'clock": ("oclock",),
    "u": ("you",), "ur": ("your",), "r": ("are",), "n": ("and",), "w": ("with",), "wo": ("without",),
    "teh": ("the",), "hte": ("the",), "adn": ("and",), "nad": ("and",), "waht": ("what",), "wat": ("what",), "wut": ("what",),
    "hwo": ("how",), "howto": ("how", "to"), "cna": ("can",), "yuo": ("you",), "fo": ("of",), "si": ("is",), "whcih": ("which",),
    "wich": ("which",), "taht": ("that",), "tehre": ("there",), "fro": ("for",), "wiht": ("with",), "wth": ("with",),
    "abt": ("about",), "bc": ("because",), "cuz": ("because",), "cos": ("because",), "coz": ("because",), "tho": ("though",),
}  # fmt: skip
"""Short, run-together and mistyped forms of function words."""

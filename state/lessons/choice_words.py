"""Multilingual patterns for a choice in words: numbers, positions, all, none and exceptions.

They read text with single blanks. Repetitions are bounded, so that no text takes long.
"""

import re
from typing import Final

from callsheet.state.lessons.student import ORDINALS, TEENS, TO_TWELVE

_CARDINALS: Final = (
    (*TO_TWELVE, *TEENS),
    ("uno", "dos", "tres", "cuatro", "cinco", "seis", "siete", "ocho", "nueve", "diez"),
    ("eins", "zwei", "drei", "vier", "fünf", "sechs", "sieben", "acht", "neun", "zehn"),
    ("un", "deux", "trois", "quatre", "cinq", "six", "sept", "huit", "neuf", "dix"),
    ("一", "二", "三", "四", "五", "六", "七", "八", "九", "十"),
)
_ORDINALS: Final = (
    ORDINALS,
    ("primero", "segundo", "tercero", "cuarto", "quinto", "sexto", "séptimo", "octavo", "noveno", "décimo"),
    ("ersten", "zweiten", "dritten", "vierten", "fünften", "sechsten", "siebten", "achten", "neunten"),
    ("premier", "deuxième", "troisième", "quatrième", "cinquième", "sixième", "septième", "huitième"),
)
_IRREGULAR: Final = {"แรก": 1, "two": 2, "both": 2, "两": 2, "primera": 1, "erste": 1, "première": 1}
NUMBERS: Final = {
    word: number for words in (*_CARDINALS, *_ORDINALS) for number, word in enumerate(words, 1)
} | _IRREGULAR
"""Values of cardinal and ordinal words."""
LAST: Final = frozenset({"last", "último", "última", "letzten", "letzte", "dernier", "dernière", "สุดท้าย"})

_ARTICLE: Final = r"(?:(?:the|el|la|los|las|die|der|das|den|dem|le|les) |l')?"
_NOUN: Final = (
    r"(?:facts?|images?|pictures?|photos?|numbers?|nos?\.?|points?|items?|hechos?|fakten|faits?|ข้อ(?:ที่)?)"
)
_PLURALS: Final = r"(?:facts|images|pictures|photos)"
_WORD: Final = "|".join(sorted((re.escape(word) for word in (*NUMBERS, *LAST)), key=len, reverse=True))
_NUM: Final = rf"(?:# ?)?(?:\d{{1,9}}(?:st|nd|rd|th|\.|º)?|第?(?:{_WORD})个?)"
_TAIL: Final = r"(?: (?:ones?|facts?|images?|pictures?|photos?|points?|hechos?|fakten|faits?))?"

NUMBER: Final = re.compile(rf"{_ARTICLE}(?:{_NOUN} ?)?(?P<at>{_NUM}){_TAIL}")
SPAN: Final = re.compile(
    rf"{_ARTICLE}(?:{_NOUN} ?)?(?P<at>{_NUM}){_TAIL} ?(?:-|–|to|through|until|bis|à|al) ?{_ARTICLE}"
    rf"(?:{_NOUN} ?)?(?P<to>{_NUM}){_TAIL}"
)
ONWARDS: Final = re.compile(rf"(?:everything |all )?from {_ARTICLE}(?P<at>{_NUM}){_TAIL} (?:on|onwards?)")
_FIRST: Final = r"(?:first|primer[oa]s|ersten|premi(?:ers|ères)|前)"
_FINAL: Final = r"(?:last|últim[oa]s|letzten|derni(?:ers|ères)|最?后)"
EDGE: Final = re.compile(
    rf"{_ARTICLE}(?:(?P<first>{_FIRST})|{_FINAL}) ?(?P<n>{_NUM}){_TAIL}"
    rf"|{_ARTICLE}(?P<m>{_NUM}) (?:(?P<premiers>{_FIRST})|{_FINAL}){_TAIL}"
)
IDS: Final = re.compile(r"(?:fact|image)-\w+")
BARE_NUMBERS: Final = re.compile(r"#?\d{1,9}(?: #?\d{1,9})+")
TOPIC: Final = re.compile(
    r"(?:(?:the|that|those|any|all|every) ){0,4}"
    r"(?P<many>ones|facts|images|pictures|photos|bits|points|everything|all)?"
    r"(?:one|fact|image|picture|photo|bit|point)? "
    r"(?:about|on|of|with|mentioning|that (?:say|mention|talk about|is|are about)s?) (?P<topic>.+)"
)
NAMED_TOPIC: Final = re.compile(
    r"(?:the )?(?P<topic>.{1,200}?) "
    r"(?:(?P<many>ones|facts|images|pictures|photos)|one|fact|image|picture|photo)"
)

SEPARATOR: Final = re.compile(
    r" ?(?:[,;&+、，]|\b(?:and also|as well as|along with|plus|and|y|und|et)\b|和|与|และ|กับ) ?"
)
LEADING_WORDS: Final = re.compile(
    r"(?:(?:ok(?:ay)?|yes|sure|great|please|well|so|then|and|also|just|only)\b[\s,.!:;–-]*"
    r"|i(?:'d| would) like(?: to (?:use|have|take|keep|choose))?\b\s*"
    r"|i(?:'ll| will)? (?:want|take|choose|pick|need|go with)\b\s*"
    r"|let(?:'s| us) (?:use|take|go with|keep|do|have)\b\s*"
    r"|(?P<asks>(?:can|could|may) (?:we|you|i)(?: please)? (?:have|use|take|keep|choose))\b\s*"
    r"|(?:use|take|keep|choose|select|pick|include|add|go (?:with|for)|give me|tell)\b\s*)*"
)
CHOICE_VERB: Final = re.compile(r"\b(?:use|take|keep|choose|select|pick|include|do|have|go (?:with|for))\b")
"""Verbs in the leading words that show a choice."""
TRAILING_WORDS: Final = re.compile(r"(?:(?<![\s,])[\s,]+)?\b(?:please|only|thanks|thank you)$")
EXCLUSION: Final = re.compile(
    r"(?:(?:please|but)\s+)?(?:not|drop|remove|delete|skip|forget|exclude|without|leave out|take out"
    r"|don't (?:use|tell|want|take|include)|i don't want)\b\s*|(?:ยกเว้น|ไม่เอา)\s*"
)
EXCEPT: Final = re.compile(
    r"(?:(?<![\s,])[\s,]+)?\b(?:but not|but|except(?: for)?|apart from|other than|without|excluding|minus|not"
    r"|menos|excepto|salvo|ausser|ohne|sauf|sans)\b ?| ?ยกเว้น ?"
)
CHINESE_EXCEPT: Final = re.compile(r"除了(?P<but>.{1,200}?)(?:以外|之外)?(?:都要|全部|都可以|全要|其他都要)")
ALL: Final = re.compile(
    rf"all(?: of (?:them|these|those|the {_PLURALS})| (?:the )?{_PLURALS}| (?:of )?these)?|everything"
    r"|every (?:one|fact|image|picture|photo)"
    r"|yes|y|ok|okay|sure|approved?|accept(?:ed)?|go (?:ahead|on)|(?:looks|sounds) (?:good|great|fine)"
    r"|perfect|todos|todo|alle|alles|tous|tout|全部|都要|所有|ทั้งหมด|ทุกข้อ"
)
ALL_COUNTED: Final = re.compile(rf"all (?:the |of the )?(?P<n>{_NUM}){_TAIL}")
NONE: Final = re.compile(
    rf"none|nothing|none of (?:them|these|those|the {_PLURALS})"
    r"|no (?:facts?|images?|pictures?|photos?)|ninguno|keine[ns]?|aucun|都不要|ไม่เอาเลย"
)
ADDITION: Final = re.compile(
    r"(?:^|(?:(?<![\s,;])[\s,;]+)?\band\s+)(?:please\s+)?(?:also\s+)?(?:add|include)\s*"
    r"(?:\s(?:(?:a|the|this|another|one)\s+)?(?:new |more )?fact\s*(?:that\s+|:\s*)|\sthat\s+|:\s*)"
    r"(?P<fact>.+)$",
    re.IGNORECASE | re.DOTALL,
)
CHOOSE_AGAIN: Final = re.compile(
    r"(?:(?:please|can i|could i|may i|let me|i want to|i'd like to) ){0,4}"
    r"(?:choose|select|pick|change|edit|see|show(?: me)?) "
    r"(?:(?:(?:the|my) )?(?:facts|selection|choice)(?: (?:again|anew|once more|that are told))?|again)\??"
)
STOP_WORDS: Final = frozenset(
    {"a", "an", "the", "of", "and", "on", "in", "to", "for", "about", "its", "their", "is", "are"}
)
VERB: Final = re.compile(
    r"\b(?:is|are|was|were|has|have|had|can|could|will|must|may|does|do|did|\w+(?:ed|es)"
    r"|needs?|grows?|eats?|makes?)\b"
)


def number(word: str) -> int:
    """Return the value of a number word or digits matched by these patterns; -1 means the last."""
    word_only = word.lstrip("# 第").rstrip("个.º")
    if word_only in LAST:
        return -1
    figures = re.match(r"\d+", word_only)
    return int(figures[0]) if figures else NUMBERS[word_only]

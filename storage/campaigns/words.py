"""Plain words of campaigns and queries, the same for every index.

Text becomes lower-case words without accents and punctuation, so nothing in a query is an operator. A number
is one word however it is written; a sign beside it is another (`5%`: `5 percent`). In scripts without spaces,
and in Korean, every character is a word, so that a phrase of them is found inside a text.
"""

import re
import sqlite3
import unicodedata
from collections.abc import Iterator, Sequence
from functools import cache
from threading import Lock
from typing import Final, NamedTuple

from callsheet.state.campaigns.campaign import Campaign, EmbeddingField
from callsheet.state.campaigns.filters import Filters, Values

MAX_QUERY_CHARS: Final = 10_000
MAX_QUERY_TERMS: Final = 32
"""Words and phrases of a query that count; further ones are ignored."""
SNIPPET_CHARS: Final = 160
_MAX_WORD_CHARS: Final = 100
# Thai, Lao, Tibetan, Burmese, Khmer, Japanese, Chinese, and Korean syllables.
_SPACELESS: Final = (
    "\u0e00-\u0fff\u1000-\u109f\u1780-\u17ff\u3005-\u3007\u3041-\u30ff\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff"
    "\uac00-\ud7a3\uf900-\ufaff\U00020000-\U0003ffff"
)
_CHARACTER: Final = re.compile(f"([{_SPACELESS}])")
# Vowel signs of Indian scripts, which are no letters for `re`, are parts of words.
_BREAKS: Final = re.compile(f"(?:[^\\w\u0900-\u0dff{_SPACELESS}]|_)+")
_ACCENTS: Final = re.compile("[\u0300-\u036f\u0591-\u05c7\u064b-\u065f\u0670]+")
_NUMBER: Final = re.compile(
    r"(?:(?P<currency>[$€£¥]) ?)?(?<![\w.,])"
    r"(?P<figure>\d{1,3}(?:,\d{3})+(?:\.\d+)?|\d{1,3}(?:\.\d{3})+(?:,\d+)?|\d+(?:[.,]\d+)?)"
    r"(?![\w]|[.,]\d)(?: ?(?P<percent>%))?"
)
_GROUPED: Final = re.compile(r"\d{1,3}(?:[.,]\d{3})+(?![.,]?\d{3})")
_SIGNS: Final = {"$": "dollar", "€": "euro", "£": "pound", "¥": "yen", "%": "percent"}
_POINT: Final = "p"
"""Stands for the decimal point inside a number, which has to be one word: `4p5`."""
_QUOTES: Final = str.maketrans(dict.fromkeys("“”„«»", '"'))
# Not `no`, `not` and `without`: they turn what a campaign says into its opposite.
_STOP_WORDS: Final = frozenset(
    (
        *("a", "an", "and", "are", "as", "at", "be", "but", "by", "for", "from", "has", "have", "if", "in"),
        *("into", "is", "it", "its", "of", "on", "or", "our", "so", "such", "that", "the", "their", "them"),
        *("then", "there", "these", "they", "this", "to", "was", "we", "were", "will", "with", "you", "your"),
    )
)
_ALWAYS_TRUE: Final = "campaign campaigns ad ads advert"
"""Words for what every record of a library is."""

Phrase = tuple[str, ...]
"""Adjacent words; often one."""


class Query(NamedTuple):
    """Phrases that a text must all have."""

    phrases: tuple[Phrase, ...]


def normalize(text: str) -> str:
    """Return the words of `text`, separated by single spaces."""
    text = text.casefold()
    if not text.isascii():
        text = unicodedata.normalize("NFC", _ACCENTS.sub("", unicodedata.normalize("NFKD", text))).casefold()
        text = _CHARACTER.sub(r" \1 ", text)
    words = _BREAKS.sub(" ", _NUMBER.sub(_number_words, text)).split()
    return " ".join(word[:_MAX_WORD_CHARS] for word in words)


def _number_words(match: re.Match[str]) -> str:
    """Return a number in its shortest form, between the words of its signs."""
    figure = match["figure"]
    grouped = _GROUPED.match(figure)
    end = grouped.end() if grouped else len(re.split(r"[.,]", figure)[0])
    units, decimals = re.sub(r"[.,]", "", figure[:end]), figure[end + 1 :].rstrip("0")
    number = f"{units}{_POINT}{decimals}" if decimals else units
    return f" {_SIGNS.get(match['currency'], '')} {number} {_SIGNS.get(match['percent'], '')} "


def parse(query: str) -> Query:
    """Return the phrases of a query: quoted text, and every other word that says something.

    A word with punctuation inside (`cash-back`, `2.5%`) is a phrase. A quote that is not closed is ignored.
    """
    phrases = list(dict.fromkeys(_phrases(query[:MAX_QUERY_CHARS])))
    telling = [phrase for phrase in phrases if len(phrase) > 1 or phrase[0] not in _STOP_WORDS]
    return Query(tuple((telling or phrases)[:MAX_QUERY_TERMS]))


def _phrases(query: str) -> Iterator[Phrase]:
    parts = query.translate(_QUOTES).split('"')
    for position, part in enumerate(parts):
        is_quoted = position % 2 == 1 and position < len(parts) - 1
        for text in [part] if is_quoted else part.split():
            if words := tuple(normalize(text).split()):
                yield words[:MAX_QUERY_TERMS]


def snippets(query: Query, texts: Sequence[str]) -> list[str]:
    """Return the words around the first match in each text; the beginning of one where none is seen."""
    patterns = [re.compile(_pattern(phrase), re.IGNORECASE) for phrase in query.phrases]
    return [_snippet(patterns, text) for text in texts]


def _snippet(patterns: Sequence[re.Pattern[str]], text: str) -> str:
    # As long as the text, so that a position is the same in both.
    plain = text if text.isascii() else "".join(map(_base, text))
    matches = (match for pattern in patterns if (match := pattern.search(plain)))
    first = next(matches, None)
    if not first or len(text) <= SNIPPET_CHARS:
        return text[:SNIPPET_CHARS]
    start = max(first.start() - SNIPPET_CHARS // 3, 0)
    # From the beginning of a word.
    start = max(text.rfind(" ", 0, start) + 1, start - SNIPPET_CHARS // 3) if start else 0
    end = start + SNIPPET_CHARS
    if end < len(text):
        end = max(text.rfind(" ", first.end(), end), min(first.end(), end), end - SNIPPET_CHARS // 3)
    return text[start:end].strip()


@cache
def _base(character: str) -> str:
    """Return one character for one, without its accent."""
    if _CHARACTER.match(character):
        return character
    return unicodedata.normalize("NFKD", character)[0]


def _pattern(phrase: Phrase) -> str:
    return r"[\W_]*".join(map(_word_pattern, phrase))


def _word_pattern(word: str) -> str:
    """Return a pattern of the forms of a word in a text."""
    if word in _SIGNS.values():
        sign = next(sign for sign, name in _SIGNS.items() if name == word)
        return f"(?:{re.escape(sign)}|{word}s?)"
    if word[0].isdigit():
        return rf"\b{'[.,]?'.join(word.replace(_POINT, ''))}"
    if _CHARACTER.match(word):
        return re.escape(word)
    stem = (stems(word) or [word])[0]
    return rf"\b{re.escape(stem[:-1] if stem[-1] in 'iy' and len(stem) > 1 else stem)}\w*"


def stems(text: str) -> list[str]:
    """Return the words of `text` as the full-text index keeps them. It blocks, for a moment."""
    words = normalize(text)
    with _STEMMING:
        connection = _stemmer()
        connection.execute("INSERT INTO words VALUES (?)", (words,))
        terms = connection.execute("SELECT term FROM stems ORDER BY offset").fetchall()
        connection.execute("DELETE FROM words")
    return [term for (term,) in terms]


_STEMMING: Final = Lock()


@cache
def _stemmer() -> sqlite3.Connection:
    connection = sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False)
    connection.execute(f"CREATE VIRTUAL TABLE words USING fts5 (text, tokenize = '{TOKENIZER}')")
    connection.execute("CREATE VIRTUAL TABLE stems USING fts5vocab (words, instance)")
    return connection


TOKENIZER: Final = "porter ascii"
"""English stems of words that `normalize` has separated by spaces."""


def distinctive_text(query: str, filters: Filters) -> str:
    """Return the query without the words that say the same of every candidate. It blocks, for a moment.

    These are words for a campaign, and the values of the filters: among Instagram campaigns, `Instagram` only
    favours those that speak of it. A query of nothing else stays as it is.
    """
    shared = set(stems(" ".join((_ALWAYS_TRUE, *_values(filters)))))
    words = query[:MAX_QUERY_CHARS].split()
    stems_of = {word: stems(word) for word in set(words)}
    kept = [word for word in words if not stems_of[word] or not shared.issuperset(stems_of[word])]
    return " ".join(kept) if any(stems_of[word] for word in kept) else query


def _values(values: Values) -> list[str]:
    """Return the values of all dimensions as words."""
    names = (*values.channel, *values.company, *values.product)
    enums = (*values.value_prop, *values.sentiment, *values.visual_style)
    return [text.replace("_", " ") for text in (*names, *enums)]


def copy_text(campaign: Campaign) -> str:
    """Return the text that full-text search reads."""
    short, full = campaign.campaign_text, campaign.full_campaign_text
    return full if short and short in full else f"{short} {full}".strip()


def embedding_texts(campaign: Campaign) -> dict[EmbeddingField, str]:
    """Return the texts whose meaning is compared."""
    offer = [campaign.offer, *campaign.incentives]
    visual = [
        campaign.imagery_visual_style,
        campaign.imagery_sentiment,
        campaign.imagery_primary_subject,
        *campaign.imagery_demographics,
    ]
    return {
        # The copy says what the value is good for.
        "value_prop": _sentences(
            [*campaign.key_value_props, *offer, campaign.primary_product, copy_text(campaign)]
        ),
        "copy": copy_text(campaign),
        "visual": _sentences(visual),
    }


def _sentences(parts: list[str | None] | list[str]) -> str:
    return ". ".join(part for part in parts if part)

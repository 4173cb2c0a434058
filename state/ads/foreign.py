"""Names, contacts and prices of a script that nobody has given: neither the brief nor the conversation.

Nothing is understood: a capitalised word, a number or an address occurs in a person's texts or does not. A
character's name is foreign as well, so these are told, not refused.
"""

import re
from collections.abc import Sequence
from typing import Final

from callsheet.state.ads.mandatory import MandatoryLine, compare, mandatory_lines
from callsheet.state.claims import Evidence, unproven_claims
from callsheet.state.languages import detect

MAX_FOREIGN: Final = 8
"""Claims that are named."""
PLACEHOLDER: Final = re.compile(
    r"<(?:[^<>/\n]{1,40} [^<>/\n]{1,60}|genre|tempo|instruments|name|client|offer|address|phone|price)>"
    r"|\{\{[^{}\n]{1,60}\}\}|\[(?:client|name|address|phone|price)\]"
)
"""A place of an example that was to be filled in."""
_CAPITALISED: Final = re.compile(
    r"[^\W\d_a-zà-ÿ][\w'’&-]*+"
    r"(?: (?:&|and|of|de|du|la)(?= [^\W\d_a-zà-ÿ])| [^\W\d_a-zà-ÿ][\w'’&-]*+){0,4}"
)
_ENDS_NAME: Final = re.compile(r"(?<!\s)\s*(?:[,;:.(\n–—|]|is\b|-\s|$)")


def foreign_claims(script: str, texts: Sequence[str], language: str) -> list[str]:
    """Return the names, prices and contacts of a script that no text of a person has."""
    given = "\n".join(texts)
    known = Evidence(passages=(given,), language=language, same_language=detect(given) in {language, None})
    contacts = [line for line in mandatory_lines(script) if line.kind in {"phone number", "address", "price"}]
    absent = [line.text for line in _absent(contacts, given)]
    wrong = unproven_claims(script, known).wrong
    named = [one for one in wrong if one[:1].isupper() and not any(one in line for line in absent)]
    return [*dict.fromkeys([*absent, *named])][:MAX_FOREIGN]


def _absent(lines: Sequence[MandatoryLine], given: str) -> Sequence[MandatoryLine]:
    comparison = compare(lines, given, "english")
    return [*comparison.missing, *comparison.check]


def client_name(description: str) -> str:
    """Return the name that a client's description begins with; empty where it begins with none.

    A single word is a name only if its phrase ends behind it: "Miel, a bakery", not "Lovely bakery".
    """
    match = _CAPITALISED.match(description.strip())
    if match is None or match[0].split()[0].casefold() in _ARTICLES:
        return ""
    is_name = " " in match[0] or _ENDS_NAME.match(description.strip(), match.end())
    return match[0] if is_name else ""


_ARTICLES: Final = frozenset({"a", "an", "we", "our", "i", "create", "make", "the", "my", "write", "please"})

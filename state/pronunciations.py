"""Pronunciations of names: a text with each name written as it is to be spoken, for speech alone."""

import re
import unicodedata
from collections.abc import Mapping
from typing import Annotated, Final

from pydantic import AfterValidator, Field

MAX_NAMES: Final = 200


def _checked_name(name: str) -> str:
    name = " ".join(unicodedata.normalize("NFC", name).split())
    if not any(map(str.isalnum, name)):
        raise ValueError("a name has a letter or a digit")
    return name


Name = Annotated[str, Field(min_length=1, max_length=80), AfterValidator(_checked_name)]
Respelling = Annotated[str, Field(min_length=1, max_length=160), AfterValidator(_checked_name)]
Pronunciations = Annotated[
    dict[Name, Respelling],
    Field(max_length=MAX_NAMES, description="Name as it is written, and how it is spoken: Miel, mee-ell"),
]


def respell(text: str, names: Mapping[str, str]) -> str:
    """Return the text with each whole name respelled, in one pass; a name counts in any case.

    Of two names that begin at the same place the longer one counts.
    """
    if not names:
        return text
    by_name = {name.casefold(): respelling for name, respelling in names.items()}
    longest = sorted(names, key=len, reverse=True)
    pattern = "|".join(r"\s+".join(map(re.escape, name.split())) for name in longest)
    occurrence = re.compile(rf"(?<!\w)(?:{pattern})(?!\w)", re.IGNORECASE)

    def respelling(match: re.Match[str]) -> str:
        # Some letters have more than one form in other cases.
        return by_name.get(" ".join(match[0].casefold().split()), match[0])

    return occurrence.sub(respelling, unicodedata.normalize("NFC", text))

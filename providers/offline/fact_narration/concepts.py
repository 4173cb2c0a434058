"""What a sentence is about, in one to four of its own words."""

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from providers.offline.fact_narration.cues import Cues
from providers.offline.fact_narration.ranking import Ranked, content_words, stem
from providers.offline.fact_narration.subjects import acts, subjects
from state.languages import find

_TOKEN = re.compile(r"[^\W\d_]+(?:['’-][^\W\d_]+)*|\d[\d.,]*|[^\w\s]")
_MOST_WORDS = 3
_BEFORE_VERBS = frozenset(["to", "will", "can", "may", "must", "should", "would", "could", "might", "not"])
_SOMEBODY = frozenset(["you", "we", "i", "they", "he", "she", "it"])
_SIZE_WORTH = {1: 0.0, 2: 0.6, 3: 0.65}
_SHORT_TEXT = 12
"""Sentences."""
_LONGEST = 190
"""Characters of a concept, which leave room for a number (`state.facts`)."""
_PART = re.compile(r"[,;:]\s+(?:(?:y|et|und|pero|mais|aber|por eso|c['’]est pourquoi|donc)\s+)*")
"""What stands between two clauses."""
_CLAUSE = re.compile(r"[，。、；：,;:!！?？\s]")


def frequencies(sentences: Sequence[Ranked]) -> Mapping[str, int]:
    """Return in how many sentences each word is."""
    return Counter(word for one in sentences for word in one.words)


def concept(text: str, cues: Cues, common: Mapping[str, int], used: frozenset[str]) -> str:
    """Return what a sentence is about, other than the concepts `used` (case-folded) where it can be."""
    term = trimmed(cues.term(text), cues)
    if term and term.casefold() not in used:
        return _capital(term)
    spoken = find(cues.language)
    if spoken and spoken.unit == "character":
        # Nothing tells where a word ends here, so a clause is the least that can be named.
        return _numbered(_CLAUSE.split(text.strip())[0][:_LONGEST] or text[:_LONGEST], used)
    for doer in _doers(text, cues):
        if doer.casefold() not in used:
            return _capital(doer)
    phrases = sorted(_phrases(_parted(text, cues), cues, common), key=lambda pair: (-pair[0], pair[1]))
    known = [_stems(one) for one in used]
    fresh = next((one for _, one in phrases if not any(_stems(one) <= stems for stems in known)), None)
    if fresh:
        return _capital(fresh)
    return _numbered(_capital(phrases[0][1] if phrases else _opening(text, cues)), used)


def _opening(text: str, cues: Cues) -> str:
    """Return the first words of a sentence that names nothing: "Save 100 dollars" of "If you save …"."""
    lead = cues.subordinate.match(text)
    words = text[lead.end() if lead else 0 :].split()
    said = words[1:] if len(words) > 1 and words[0].casefold() in _SOMEBODY else words
    return trimmed(" ".join(said[:_MOST_WORDS]), cues) or " ".join(words[:_MOST_WORDS])


def topic(headings: Sequence[str], sentences: Sequence[Ranked], cues: Cues) -> str:
    """Return what a whole text is about: its first heading, or what it defines or says most."""
    for heading in headings:
        title = heading.strip(" .:#*=-_")
        if any(content_words(title, cues)):
            return _capital(title.lower()) if title.isupper() and len(title) > 4 else title  # noqa: PLR2004
    common = frequencies(sentences)
    # Short texts begin with what they are about.
    first = sentences[:2] if len(sentences) <= _SHORT_TEXT else ()
    lead = next((doer for one in first for doer in _doers(one.sentence.text, cues)), "")
    if lead:
        return _capital(lead)
    defined = [one for one in sentences if "definition" in one.kinds]
    about = max(defined or sentences, key=lambda one: (one.score, -one.sentence.start))
    return concept(about.sentence.text, cues, common, frozenset())


def _doers(text: str, cues: Cues) -> Iterator[str]:
    """Yield what a sentence says something about, where the language's grammar is known here."""
    if cues.language == "english":
        yield from filter(None, (trimmed(one, cues) for one in subjects(text)))
    else:
        yield from (found["term"] for found in _begun(text, cues))


def _begun(text: str, cues: Cues) -> Iterator[re.Match[str]]:
    """Yield what the clauses of a sentence begin with that they speak of."""
    for start in (0, *(found.end() for found in _PART.finditer(text))):
        lead = cues.subordinate.match(text, start)
        found = cues.subject.match(text, start) or cues.subject.match(text, lead.end() + 1 if lead else start)
        if found and found["term"].split()[0].casefold() not in cues.stop:
            yield found


def _parted(text: str, cues: Cues) -> str:
    """Return a text with a stop behind what its clauses speak of: a verb follows, which names nothing."""
    for found in reversed([*_begun(text, cues)]):
        text = f"{text[: found.end('term')]} ; {text[found.end('term') :]}"
    return text


def trimmed(term: str, cues: Cues) -> str:
    """Return a term without the small words around it."""
    words = term.strip(" ,.;:\"'“”«»").split()
    while words and words[0].casefold() in cues.small | {"its", "this"}:
        words = words[1:]
    while words and words[-1].casefold() in cues.small:
        words = words[:-1]
    return " ".join(words)


def _phrases(text: str, cues: Cues, common: Mapping[str, int]) -> Iterator[tuple[float, str]]:
    """Yield runs of words that name something, with what speaks for each."""
    for place, (run, after_small) in enumerate(_runs(text, cues)):
        for size in range(1, min(_MOST_WORDS, len(run)) + 1):
            words = run[:size] if after_small else run[-size:]
            weight = sum(common.get(stem(word.casefold()), 0) for word in words) / size
            named = 0.8 * (place > 0 and all(word[0].isupper() for word in words))
            worth = weight**0.5 + _SIZE_WORTH[size] + 0.3 * after_small + named - 0.1 * min(place, 6)
            yield worth - _verbal(words, common, subject=place == 0), " ".join(words)


def _runs(text: str, cues: Cues) -> Iterator[tuple[list[str], bool]]:
    run: list[str] = []
    before = after_small = False
    previous = ""
    for token in _TOKEN.findall(text):
        verb, previous = previous in _BEFORE_VERBS, token.casefold()
        names = token[0].isalpha() and token.casefold() not in cues.stop and not token.endswith("ly")
        names = names and (cues.language != "german" or token[0].isupper())
        if names and not verb and len(token) > 2:  # noqa: PLR2004 -- letters
            after_small = after_small if run else before
            run.append(token)
            # "energy splits water", "bees visit flowers": what follows is another thing.
            if not token.endswith("s") or len(run) < 2:  # noqa: PLR2004
                continue
            names = False
        if run:
            yield run, after_small
        run, before = [], token.casefold() in cues.small
    if run:
        yield run, after_small


def _verbal(words: Sequence[str], common: Mapping[str, int], *, subject: bool) -> float:
    """Return how much speaks for the words being, or ending in, a verb."""
    last = words[-1].casefold()
    rare = common.get(stem(last), 0) <= 1 and not subject
    third_person = rare and last.endswith("s") and not last.endswith(("ss", "us")) and len(words) > 1
    return (
        0.6 * last.endswith(("ed", "ing", "ise", "ize", "en"))
        + 0.3 * words[0].endswith("ing")
        + 0.6 * (third_person or (len(words) > 1 and acts(last)))
    )


def _stems(phrase: str) -> frozenset[str]:
    return frozenset(stem(word) for word in phrase.casefold().split())


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]


def _numbered(text: str, used: frozenset[str]) -> str:
    if text.casefold() not in used:
        return text
    return next(name for number in range(2, 1000) if (name := f"{text} ({number})").casefold() not in used)

"""Proof of a narration: each sentence's claims are in the facts it names, and each fact is told (B22)."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from callsheet.state.claims import content, states, unsupported_claims
from callsheet.state.lessons.facts import Fact
from callsheet.state.lessons.narration import Sentence

_MIN_CONTENT: Final = 3
"""A sentence with fewer content words, such as a greeting, claims nothing."""
_QUESTION: Final = ("?", "？", "؟")


def sentence_problem(
    sentence: Sentence, facts: Mapping[str, Fact], known: Sequence[str], language: str
) -> str:
    """Return why a sentence is not proven by the facts it names; empty if it is, or if it claims nothing.

    `facts` are those it may name, by id; `known` are texts whose names and figures it may use freely.
    """
    if unknown := [one for one in sentence.factIds if one not in facts]:
        return f"names {', '.join(unknown)}, which are not among its facts"
    own = [facts[one] for one in sentence.factIds]
    texts = [*known, *(f"{fact.concept}\n{fact.details}" for fact in own)]
    if wrong := unsupported_claims(sentence.text, texts, language):
        rule = "which its facts do not say" if own else "and names no fact that says so"
        return f"says {', '.join(wrong)}, {rule}"
    question = sentence.text.rstrip("\"'”’»)").endswith(_QUESTION)
    if (
        own
        and not question
        and len(content(sentence.text)) >= _MIN_CONTENT
        and not proven_ids(sentence, facts)
    ):
        return "says nothing of the facts it names"
    return ""


def proven_ids(sentence: Sentence, facts: Mapping[str, Fact]) -> tuple[str, ...]:
    """Return the ids of the facts that a sentence names and has content of."""
    return tuple(
        one
        for one in sentence.factIds
        if one in facts and states(sentence.text, facts[one].concept, facts[one].details)
    )


def untold_facts(sentences: Iterable[Sentence], facts: Mapping[str, Fact]) -> list[str]:
    """Return the ids of the facts that no sentence proves."""
    proven = {one for sentence in sentences for one in proven_ids(sentence, facts)}
    return [one for one in facts if one not in proven]

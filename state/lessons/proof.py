"""Proof of a narration: each sentence's claims are in the facts it names, and each fact is told."""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from callsheet.state.claims import Evidence, content, states, unproven_claims
from callsheet.state.lessons.facts import Fact
from callsheet.state.lessons.narration import Narration, Sentence

_MIN_CONTENT: Final = 3
"""A sentence with fewer content words, such as a greeting, claims nothing."""
_QUESTION: Final = ("?", "？", "؟")


@dataclass(frozen=True)
class ProofContext:
    """Texts that sentences may refer to beside the facts they name, and their languages."""

    known: tuple[str, ...]
    """Texts whose names and figures need no fact: the topic, the interests, the teacher's wish."""
    chosen: tuple[Fact, ...]
    """All facts of the lesson, whose names any sentence may use."""
    language: str
    """The narration's."""
    same_language: bool = True
    """False if the facts are in another language, so that only digits can be compared."""


@dataclass(frozen=True)
class Problem:
    """A reason why a sentence is not proven."""

    reason: str
    sure: bool
    """False if the sentence may be right."""


def sentence_problem(
    sentence: Sentence, facts: Mapping[str, Fact], background: ProofContext
) -> Problem | None:
    """Return why a sentence is not proven by the facts it names; None if it is, or if it claims nothing.

    `facts` are those it may name, by id.
    """
    own = [facts[one] for one in sentence.factIds if one in facts]
    unproven = unproven_claims(
        sentence.text,
        Evidence(
            passages=tuple(map(_text, own)),
            known=background.known,
            named=tuple(map(_text, background.chosen)),
            language=background.language,
            same_language=background.same_language,
        ),
    )
    if claims := (*unproven.wrong, *unproven.doubtful):
        rule = "which its facts do not say" if own else "and names no fact that says so"
        return Problem(f"says {', '.join(claims)}, {rule}", sure=bool(unproven.wrong))
    if unknown := [one for one in sentence.factIds if one not in facts]:
        return Problem(f"names {', '.join(unknown)}, which are not among its facts", sure=False)
    return None


def says_nothing(sentence: Sentence, facts: Mapping[str, Fact], background: ProofContext) -> bool:
    """Return whether a sentence seems to claim something, but nothing of the facts it names."""
    question = sentence.text.rstrip("\"'”’»)").endswith(_QUESTION)
    named = any(one in facts for one in sentence.factIds)
    return named and not question and _has_claim(sentence) and not proven_ids(sentence, facts, background)


def proven_ids(sentence: Sentence, facts: Mapping[str, Fact], background: ProofContext) -> tuple[str, ...]:
    """Return the ids of the facts that a sentence names and says something of: words, a number or a name.

    In another language than the facts', words cannot be compared: the ids count if it claims anything.
    """
    if not background.same_language:
        return tuple(one for one in sentence.factIds if one in facts and _has_claim(sentence))
    alone = _claims(sentence.text, background)
    return tuple(
        one
        for one in sentence.factIds
        if one in facts
        and (
            states(sentence.text, facts[one].concept, facts[one].details)
            or len(_claims(sentence.text, background, facts[one])) < len(alone)
        )
    )


def segment_notes(
    script: Narration, own: Collection[str], facts: Mapping[str, Fact], background: ProofContext
) -> dict[str, list[str]]:
    """Return what is not proven in the segments that are a person's own, by segment; their words stay."""
    return {
        segment.id: notes
        for segment in script.segments
        if segment.id in own
        and (notes := [note for one in segment.sentences if (note := _note(one, facts, background))])
    }


def _note(sentence: Sentence, facts: Mapping[str, Fact], background: ProofContext) -> str:
    problem = sentence_problem(sentence, facts, background)
    if problem is None and not says_nothing(sentence, facts, background):
        return ""
    reason = problem.reason if problem else "says nothing of the facts it names"
    return f"check: “{sentence.text}” {reason}"


def untold_facts(
    sentences: Iterable[Sentence], facts: Mapping[str, Fact], background: ProofContext
) -> list[str]:
    """Return the ids of the facts that no sentence proves."""
    proven = {one for sentence in sentences for one in proven_ids(sentence, facts, background)}
    return [one for one in facts if one not in proven]


def _claims(text: str, background: ProofContext, *facts: Fact) -> tuple[str, ...]:
    """Return the claims of a text that neither these facts nor the topic and wishes prove."""
    passages = tuple(map(_text, facts))
    unproven = unproven_claims(text, Evidence(passages, background.known, language=background.language))
    return (*unproven.wrong, *unproven.doubtful)


def _has_claim(sentence: Sentence) -> bool:
    return len(content(sentence.text)) >= _MIN_CONTENT


def _text(fact: Fact) -> str:
    return f"{fact.concept}\n{fact.details}"

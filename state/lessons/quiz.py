"""A quiz about facts: each question names its fact, whose text holds the answer."""

import re
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from typing import Final, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from callsheet.state.figures import all_numbers, figures, number_tokens
from callsheet.state.languages import find
from callsheet.state.lessons.facts import Fact
from callsheet.state.lessons.narration import Sentence
from callsheet.state.lessons.proof import ProofContext, says_nothing, sentence_problem
from callsheet.state.names import COMMON, WORD, names, without_possessive
from callsheet.state.sentences import sentence_spans

GAP: Final = "_____"
"""Stands for the answer in a prompt."""
MAX_QUESTIONS: Final = 40
_PRONOUN: Final = re.compile(
    r"\b(?:it|them)\b|^(?:its|they|their|this|these|those|he|she|his|her)\b", re.IGNORECASE
)
"""A word that may mean something which stands before the sentence in the material."""
_MIN_WORDS: Final = 3
"""Words that a sentence keeps beside its gap."""
_MIN_SIGNS: Final = 6
"""Characters that it keeps in a script without blanks."""
_SIGNS: Final = " .,;:!?\"'“”’()"
_MIN_TERM: Final = 4
"""Letters of a word of the concept that may be left blank."""


class QuizQuestion(BaseModel):
    """One question."""

    model_config = ConfigDict(frozen=True, json_schema_serialization_defaults_required=True)

    id: str = Field(pattern="^q[0-9]{1,4}$")
    """Also a file's name in a QTI package."""
    factId: str  # noqa: N815 -- the wire's name
    kind: Literal["gap", "choice", "open", "card"]
    """`gap` has a blank in a sentence of the fact; `card` asks for all of a fact by its concept."""
    prompt: str = Field(min_length=1)
    answer: str = Field(min_length=1)
    choices: tuple[str, ...] = ()
    """Of a `choice`, in the order in which they are shown; one is the answer."""
    source: str
    """The fact's text, which holds the answer."""

    @model_validator(mode="after")
    def _has_answer(self) -> Self:
        if self.kind == "choice" and self.answer not in self.choices:
            raise ValueError(f"the answer {self.answer!r} is none of the choices")
        return self


class Quiz(BaseModel):
    """The questions about a lesson's chosen facts."""

    model_config = ConfigDict(frozen=True, json_schema_serialization_defaults_required=True)

    topic: str
    language: str
    """English name, lower case: the facts'."""
    madeBy: Literal["code", "model"]  # noqa: N815 -- the wire's name
    """`code` for blanks in the facts' own sentences."""
    questions: tuple[QuizQuestion, ...]
    notes: tuple[str, ...] = ()
    """Sentences on questions that were left out."""

    @model_validator(mode="after")
    def _has_distinct_ids(self) -> Self:
        if len({one.id for one in self.questions}) < len(self.questions):
            raise ValueError("two questions have the same id")
        return self


def gap_quiz(facts: Sequence[Fact], topic: str, language: str) -> Quiz:
    """Return a question for each fact, made by code: its sentence with a number, a name or its term blank."""
    questions = [
        _with_subject(_fact_question(number, fact, language), topic, language)
        for number, fact in enumerate(facts, 1)
    ]
    return Quiz(topic=topic, language=language, madeBy="code", questions=tuple(questions))


def _with_subject(question: QuizQuestion, topic: str, language: str) -> QuizQuestion:
    """Return a question that has a pronoun with the topic before it, unless this gives the answer away."""
    spec = find(language)
    is_loose = spec is not None and spec.name == "english" and _PRONOUN.search(question.prompt)
    if not is_loose or question.kind != "gap" or not topic or holds(topic, question.answer, language):
        return question
    return question.model_copy(update={"prompt": f"About {topic}: {question.prompt}"})


def current_quiz(written: Quiz, facts: Sequence[Fact]) -> Quiz | None:
    """Return a quiz without the questions on facts that have changed since; None if none are left."""
    texts = {fact.id: fact.details for fact in facts}
    kept = tuple(one for one in written.questions if texts.get(one.factId) == one.source)
    gone = len(written.questions) - len(kept)
    if not kept:
        return None
    note = (f"{gone} left out: their facts were changed, or are no longer chosen",) if gone else ()
    return written.model_copy(update={"questions": kept, "notes": (*written.notes, *note)})


def question_problem(question: QuizQuestion, facts: Mapping[str, Fact], background: ProofContext) -> str:
    """Return why a question is not proven by its fact; empty if it is.

    The answer stands in the fact, word for word or as the same number, and not in the question, which claims
    nothing that the fact does not say and says something of it. No other choice stands in the fact.
    """
    fact = facts.get(question.factId)
    if fact is None:
        return f"names {question.factId!r}, which is none of the facts"
    return next(_problems(question, fact, background), "")


def _problems(question: QuizQuestion, fact: Fact, background: ProofContext) -> Iterator[str]:
    language = background.language
    if not holds(fact.details, question.answer, language):
        yield f"has the answer {question.answer!r}, which does not stand in its fact"
    if holds(question.prompt, question.answer, language):
        yield "gives its own answer away"
    posed = Sentence(text=question.prompt, factIds=(fact.id,))
    if problem := sentence_problem(posed, {fact.id: fact}, background):
        yield problem.reason
    statement = Sentence(text=f"{posed.text.rstrip('?？؟ ')} {question.answer}", factIds=(fact.id,))
    if says_nothing(statement, {fact.id: fact}, background):
        yield "asks nothing that its fact says"
    wrong = [one for one in question.choices if one != question.answer]
    if also := next((one for one in wrong if holds(fact.details, one, language)), None):
        yield f"has the wrong choice {also!r}, which stands in its fact, too"


def holds(text: str, answer: str, language: str) -> bool:
    """Return whether a text has these words, or the one number that they are."""
    words = _plain(answer)
    if words and re.search(_word_pattern(words, language), _plain(text)):
        return True
    tokens = [each for each in number_tokens(words) if each != "."]
    return len(tokens) == 1 and not isinstance(tokens[0], str) and bool(tokens[0] & all_numbers(text))


def _plain(text: str) -> str:
    return " ".join(unicodedata.normalize("NFKC", text).casefold().split()).strip(_SIGNS)


def _has_blanks(language: str) -> bool:
    """Return whether words are parted in a language's script."""
    spec = find(language)
    return spec is None or spec.unit == "word"


def _word_pattern(words: str, language: str) -> str:
    """Return the pattern of these words, not as a part of a longer word or number."""
    sign = r"\w" if _has_blanks(language) else r"[\dA-Za-z]"
    return rf"(?<!{sign})(?<!\d[.,]){re.escape(words)}(?!{sign}|[.,]\d)"


def _fact_question(number: int, fact: Fact, language: str) -> QuizQuestion:
    for answer, sentence in _gaps(fact, language):
        pattern = re.compile(_word_pattern(answer, language), re.IGNORECASE)
        prompt = pattern.sub(GAP, sentence)
        rest = prompt.replace(GAP, " ")
        is_enough = len(rest.split()) >= _MIN_WORDS or (len(rest) >= _MIN_SIGNS and not _has_blanks(language))
        if is_enough and (match := pattern.search(sentence)):
            return _question(number, fact, "gap", prompt, match[0])
    return _question(number, fact, "card", fact.concept, fact.details)


def _question(
    number: int, fact: Fact, kind: Literal["gap", "card"], prompt: str, answer: str
) -> QuizQuestion:
    return QuizQuestion(
        id=f"q{number}", factId=fact.id, kind=kind, prompt=prompt, answer=answer, source=fact.details
    )


def _gaps(fact: Fact, language: str) -> Iterator[tuple[str, str]]:
    """Yield what may be blank, each with its sentence: numbers, then names, then words of the concept."""
    sentences = [
        " ".join(fact.details[start:end].split()) for start, end in sentence_spans(fact.details, language)
    ]
    for sentence in sentences:
        yield from ((figure, sentence) for figure in sorted(figures(sentence), key=len, reverse=True))
    for sentence in sentences:
        yield from ((name, sentence) for name in names(sentence, language))
    yield from ((term, sentence) for term in _terms(fact.concept, language) for sentence in sentences)


def _terms(concept: str, language: str) -> list[str]:
    """Return the words of a concept that may be blank, the longest first; all of it without blanks."""
    if not _has_blanks(language):
        return [concept.strip()]
    words = {without_possessive(word) for word in WORD.findall(concept)}
    terms = [one for one in words if len(one) >= _MIN_TERM and one.casefold() not in COMMON]
    return sorted(terms, key=lambda one: (-len(one), one))

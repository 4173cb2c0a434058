"""Quizzes about the chosen facts: written by a model and checked by code, or made by code alone."""

import random
from collections.abc import Mapping, Sequence
from typing import Any, Final

from pydantic import Field

from callsheet.state import pricing
from callsheet.state.errors import Invalid, Unavailable
from callsheet.state.lessons import student
from callsheet.state.lessons.facts import Fact
from callsheet.state.lessons.proof import ProofContext
from callsheet.state.lessons.quiz import MAX_QUESTIONS, Quiz, QuizQuestion, gap_quiz, question_problem
from callsheet.tools.call import Call
from callsheet.tools.lessons.arguments import LessonArguments
from callsheet.tools.lessons.forms import QUIZ_PROMPT, QuizSheet, WrittenQuestion
from callsheet.tools.models.structured import FilledForm, fill_in, is_offline, model_for
from callsheet.tools.policy import ToolOptions
from callsheet.tools.registry import tool

_READS: Final = ("confirmed", "facts", "student")


class QuizRequest(LessonArguments):
    """The quiz to write."""

    count: int | None = Field(None, ge=1, le=MAX_QUESTIONS, description="Questions; one for each fact")


@tool(
    schema=QuizRequest,
    display="Writing the quiz",
    reads=_READS,
    writes=("quiz",),
    options=ToolOptions(timeout_s=300.0, tries=1),
    internal=True,
)
async def writeQuizTool(args: QuizRequest, call: Call) -> dict[str, Any]:  # noqa: N802 -- named like its like
    """Write a quiz about the chosen facts; without a model, blanks in their sentences."""
    heads = await call.artefact.stream_heads(_READS)
    data = {name: head.newest.data if head.newest else {} for name, head in heads.items()}
    facts = [Fact.model_validate(one) for one in data["confirmed"].get("facts", ())]
    if not facts:
        raise Invalid("no facts are chosen to ask about", remedy="choose facts first")
    topic = str(data["facts"].get("topic") or facts[0].concept)
    language = str(data["facts"].get("language") or "english")
    cost: float | None = 0.0
    duration_s = 0.0
    if is_offline(call.scope.model):
        quiz = gap_quiz(facts[: args.count], topic, language)
    else:
        writer = _QuizWriter(facts, ProofContext((topic,), tuple(facts), language))
        child_age = data["student"].get("child_age")
        learner = {"age": student.age(child_age), "level": student.level(child_age)[0]}
        request = {"topic": topic, "language": language, "count": args.count or len(facts), **learner}
        quiz, cost, duration_s = await writer.write(request, call.scope.model)
    written = quiz.model_dump(mode="json")
    count = len(quiz.questions)
    message = f"The quiz has {count} question{'' if count == 1 else 's'} about {topic}."
    result = {"success": True, "message": message, "quiz": written, "warnings": list(quiz.notes)}
    return await call.write("quiz", written, result={**result, "cost": cost, "duration": duration_s})


TOOLS: Final = (writeQuizTool,)
_Wrong = tuple[WrittenQuestion, str]
"""A question that is not proven, and what is wrong with it."""


class _QuizWriter:
    """The writing of one quiz by a model."""

    def __init__(self, facts: Sequence[Fact], background: ProofContext) -> None:
        self._facts = {fact.id: fact for fact in facts}
        self._background = background

    async def write(self, request: Mapping[str, Any], model_name: str) -> tuple[Quiz, float | None, float]:
        """Return the proven questions of a quiz, its cost and its duration.

        The wrong ones are sent back once, then left out with a note. Raises `Unavailable` if none is proven.
        """
        model = await model_for(model_name, self._background.language)
        shown = [
            {"id": one.id, "concept": one.concept, "details": one.details} for one in self._facts.values()
        ]
        request = {**request, "facts": shown}
        filled: list[FilledForm[QuizSheet]] = [await fill_in(model, QuizSheet, QUIZ_PROMPT, request)]
        proven, wrong = self._sort(filled[0].form.questions)
        if wrong:
            reasons = "\n".join(reason for _, reason in wrong)
            wish = f"These questions are wrong. Send them again, corrected, and no others:\n{reasons}"
            try:
                filled.append(await fill_in(model, QuizSheet, QUIZ_PROMPT, request, [(filled[0].form, wish)]))
                corrections = filled[1].form.questions[: len(wrong)]
                corrected, still_wrong = self._sort(corrections)
                proven = [*proven, *corrected]
                wrong = [*_without_correction(wrong, corrections), *still_wrong]
            except Unavailable:
                # The questions that are proven are a quiz without the others.
                pass
        kept = _distinct(proven)[: request["count"]]
        if not kept:
            raise Unavailable(
                f"the model's questions cannot be used: {'; '.join(reason for _, reason in wrong)}"[:500],
                remedy="try again, or take the quiz that is made without a model",
            )
        questions = tuple(one.model_copy(update={"id": f"q{at}"}) for at, one in enumerate(kept, 1))
        quiz = Quiz(
            topic=str(request["topic"]),
            language=self._background.language,
            madeBy="model",
            questions=questions,
            notes=tuple(f"Left out: {reason}" for _, reason in wrong),
        )
        return quiz, pricing.total(one.cost for one in filled), sum(one.duration for one in filled)

    def _sort(self, written: Sequence[WrittenQuestion]) -> tuple[list[QuizQuestion], list[_Wrong]]:
        """Return the questions that are proven, and the others with what is wrong."""
        proven, wrong = [], list[_Wrong]()
        for one in written:
            question = self._question(one)
            if problem := question_problem(question, self._facts, self._background):
                wrong.append((one, f"{one.question!r} {problem}"))
            else:
                proven.append(question)
        return proven, wrong

    def _question(self, written: WrittenQuestion) -> QuizQuestion:
        answer = " ".join(written.answer.split())
        others = [" ".join(one.split()) for one in written.wrongAnswers]
        choices = list({one.casefold(): one for one in others if one}.values())
        choices = [one for one in choices if one.casefold() != answer.casefold()]
        if choices:
            choices.append(answer)
            # Seeded by the question, so that a repeated step writes the same.
            random.Random(written.question).shuffle(choices)  # noqa: S311 -- no secret
        fact = self._facts.get(written.factId)
        return QuizQuestion(
            id="q0",
            factId=written.factId,
            kind="choice" if choices else "open",
            prompt=" ".join(written.question.split()),
            answer=answer,
            choices=tuple(choices),
            source=fact.details if fact else "",
        )


def _without_correction(wrong: Sequence[_Wrong], corrections: Sequence[WrittenQuestion]) -> list[_Wrong]:
    """Return the wrong questions for which no correction came; one belongs to a question on its fact."""
    remaining = [*wrong]
    for correction in corrections:
        same = (one for one in remaining if one[0].factId == correction.factId)
        remaining.remove(next(same, remaining[0]))
    return remaining


def _distinct(questions: Sequence[QuizQuestion]) -> list[QuizQuestion]:
    """Return the questions in order, each once."""
    return list({(one.factId, one.prompt.casefold()): one for one in questions}.values())

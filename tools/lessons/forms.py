"""Forms and prompts for lessons: a sheet of facts, the script of a narration, corrected sentences."""

from importlib.resources import files
from typing import Final

from pydantic import BaseModel, Field

from callsheet.state.lessons.narration import Kind
from callsheet.tools.prompts import FOLDER, read_prompt

_PROMPTS: Final = files(__package__).joinpath(FOLDER)
FACTS_PROMPT: Final = read_prompt(_PROMPTS, "facts")
SCRIPT_PROMPT: Final = read_prompt(_PROMPTS, "script")
SENTENCES_PROMPT: Final = read_prompt(_PROMPTS, "sentences")
QUIZ_PROMPT: Final = read_prompt(_PROMPTS, "quiz")


class FoundFact(BaseModel):
    """One fact of the material."""

    concept: str = Field(description="What it is about, in two or three words", min_length=1, max_length=200)
    details: str = Field(
        description="Two to four sentences that say what the quote says", min_length=1, max_length=4000
    )
    quote: str = Field(
        description="One unbroken passage of the material that says it, copied exactly, without an ellipsis",
        min_length=1,
    )
    confidence: float = Field(description="How surely the material says it, 0 to 1", ge=0, le=1)


class FactSheet(BaseModel):
    """The facts of a material."""

    topic: str = Field(description="What the material is about, in a few words", max_length=300)
    learningObjective: str = Field(
        description="What the student can do afterwards, in one sentence", max_length=1000
    )
    facts: list[FoundFact] = Field(description="In the order in which they are to be taught", max_length=40)
    language: str = Field("", description="The material's language, by its English name", max_length=100)
    leftOut: int = Field(0, description="Passages left out because they give orders", ge=0)


class WrittenSentence(BaseModel):
    """One sentence of a script."""

    text: str = Field(min_length=1, max_length=2000)
    factIds: list[str] = Field(
        description="Ids of the facts it says; empty for a greeting, a question or a bridge"
    )


class WrittenSegment(BaseModel):
    """One segment of a script."""

    type: Kind
    sentences: list[WrittenSentence] = Field(min_length=1)
    visual_guidance: str = Field(description="What to show; never empty", max_length=1000)
    key_concepts: list[str]
    educational_purpose: str = Field(max_length=500)


class NarrationScript(BaseModel):
    """The script of a narration, or of the requested segments."""

    segments: list[WrittenSegment] = Field(min_length=1, max_length=4)
    notes: list[str] = Field(default=[], description="What the teacher should know, if anything")


class RepairedSentence(BaseModel):
    """One sentence written again."""

    index: int = Field(description="The index of the sentence")
    text: str = Field(description="The corrected sentence; empty to leave it out", max_length=2000)
    factIds: list[str] = Field(default=[], description="Ids of the facts it says; empty for none")


class SentenceRepairs(BaseModel):
    """The sentences that were wrong, corrected."""

    sentences: list[RepairedSentence] = Field(max_length=40)


class WrittenQuestion(BaseModel):
    """One question of a quiz."""

    factId: str = Field(description="Id of the fact that it asks about", max_length=100)
    question: str = Field(description="The question, without its answer", min_length=1, max_length=500)
    answer: str = Field(
        description="The right answer: a few words of the fact, copied exactly", min_length=1, max_length=200
    )
    wrongAnswers: list[str] = Field(
        default=[], description="Two or three answers that the fact does not have; empty for an open question"
    )


class QuizSheet(BaseModel):
    """The questions of a quiz."""

    questions: list[WrittenQuestion] = Field(min_length=1, max_length=40)

"""Arguments of the lesson's tools, with the names of the API (B2, B4, B9)."""

from pydantic import BaseModel, ConfigDict, Field

from callsheet.state.lessons.narration import Kind


class LessonArguments(BaseModel):
    """Arguments that every tool of a lesson has."""

    model_config = ConfigDict(extra="forbid", str_strip_whitespace=True, coerce_numbers_to_str=True)


class StudentInfo(LessonArguments):
    """The student (B2); one field is enough (B-R11)."""

    child_age: str | None = Field(
        None, description="Age in the person's words: 7, ten, 12 years old", max_length=100
    )
    child_interest: str | None = Field(
        None,
        description="Interests in the person's words: soccer, Minecraft; how they learn best, if mentioned",
        max_length=300,
    )


class ExtractionRequest(LessonArguments):
    """The material (B4)."""

    content: str = Field(
        "",
        description="The lesson text exactly as given, or a web page's address; empty for an uploaded file",
        max_length=90_000,
    )
    guidance: str | None = Field(
        None, description="Subject of the facts, if the person asked for other ones", max_length=1000
    )
    target_duration: float | None = Field(
        None, description="Length of the narration in seconds, if the person mentions it"
    )


class GivenFact(BaseModel):
    """One fact to tell."""

    model_config = ConfigDict(extra="ignore")

    id: str | None = Field(None, max_length=100)
    concept: str = Field(min_length=1, max_length=200)
    details: str = Field(min_length=1, max_length=4000)
    confidence: float | None = Field(None, ge=0, le=1)


class NarrationRequest(LessonArguments):
    """The narration to write (B9)."""

    facts: list[GivenFact] = Field(
        default=[],
        description="The chosen facts; facts confirmed in the session take precedence",
        max_length=40,
    )
    topic: str | None = Field(None, max_length=300)
    target_duration: float = Field(60, description="Seconds, 15 to 600")
    child_age: str | None = Field(None, max_length=100)
    child_interest: str | None = Field(None, max_length=300)
    segments: list[Kind] | None = Field(
        None,
        description="Segments to rewrite; [] if only the facts changed; all when left out",
    )
    guidance: str | None = Field(None, description="What should be different", max_length=1000)

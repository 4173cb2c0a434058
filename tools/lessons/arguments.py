"""What the tools of a lesson are told, named as on the wire (B2, B4, B9)."""

from typing import Final

from pydantic import BaseModel, ConfigDict, Field

from callsheet.state.lessons.narration import Kind

_SESSION: Final = "Set by the server; leave it out"


class LessonArguments(BaseModel):
    """What every tool of a lesson is told."""

    model_config = ConfigDict(extra="forbid", str_strip_whitespace=True, coerce_numbers_to_str=True)

    sessionId: str | None = Field(None, description=_SESSION, max_length=255)


class StudentInfo(LessonArguments):
    """Who the lesson is for (B2); either field alone will do (B-R11)."""

    child_age: str | None = Field(
        None, description="Age as it was said: 7, ten, 12 years old", max_length=100
    )
    child_interest: str | None = Field(
        None,
        description="Interests as they were said: soccer, Minecraft; and how they learn best, if told",
        max_length=300,
    )


class ExtractionRequest(LessonArguments):
    """What to teach from (B4)."""

    content: str = Field(
        "",
        description="The lesson text as it was given, or a web page's address; empty for what was uploaded",
        max_length=90_000,
    )
    guidance: str | None = Field(
        None, description="What the facts should be about, when others were asked for", max_length=1000
    )
    target_duration: float | None = Field(
        None, description="Seconds the narration shall last, where that is said with the material"
    )


class GivenFact(BaseModel):
    """One fact to tell (B9)."""

    model_config = ConfigDict(extra="ignore")

    id: str | None = Field(None, max_length=100)
    concept: str = Field(min_length=1, max_length=200)
    details: str = Field(min_length=1, max_length=4000)
    confidence: float | None = Field(None, ge=0, le=1)


class NarrationRequest(LessonArguments):
    """What to narrate (B9)."""

    facts: list[GivenFact] = Field(
        default=[],
        description="The chosen facts; those confirmed in the session go before them",
        max_length=40,
    )
    topic: str | None = Field(None, max_length=300)
    target_duration: float = Field(60, description="Seconds, 15 to 600")
    child_age: str | None = Field(None, max_length=100)
    child_interest: str | None = Field(None, max_length=300)
    segments: list[Kind] | None = Field(
        None,
        description="Only these are written again; [] where only the facts changed; left out, all",
    )
    guidance: str | None = Field(None, description="What should be different", max_length=1000)

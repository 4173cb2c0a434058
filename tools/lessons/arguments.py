"""Arguments of the lesson's tools, with the names of the API."""

from typing import Annotated, Any, Final

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from callsheet.state.languages import stated_name
from callsheet.state.lessons.narration import Kind
from callsheet.state.lessons.student import Style


class LessonArguments(BaseModel):
    """Arguments that every tool of a lesson has."""

    model_config = ConfigDict(extra="forbid", str_strip_whitespace=True, coerce_numbers_to_str=True)


_SHIFTS: Final = {"easier": -1, "harder": 1}


def _grades(value: Any) -> Any:
    """Return the grades for "easier" and "harder"; other values are left to validation."""
    return _SHIFTS.get(value.strip().casefold(), value) if isinstance(value, str) else value


LevelShift = Annotated[
    Annotated[int, Field(ge=-2, le=2)] | None,
    BeforeValidator(_grades),
    Field(
        description="Leave out unless the person wants the words easier (-1 or -2) or harder (1 or 2) from"
        " now on",
    ),
]


def _language(value: Any) -> Any:
    """Return the stored name of a language; raise for a text that names none."""
    if not isinstance(value, str) or not value.strip():
        return None
    if name := stated_name(value):
        return name
    raise ValueError(f"{value[:80]!r} is no language; give its English name")


LessonLanguage = Annotated[
    str | None,
    BeforeValidator(_language),
    Field(description="Leave out unless the person wants another language than the material's"),
]


class StudentInfo(LessonArguments):
    """The student; one field is enough."""

    child_age: str | None = Field(
        None,
        description="Leave out unless the person tells it. Age in years: 7, ten, 12 years old",
        max_length=100,
    )
    child_interest: str | None = Field(
        None,
        description="Leave out unless the person tells them. Interests in their words: soccer, Minecraft",
        max_length=300,
    )
    learning_style: Style | None = Field(
        None, description="Leave out unless the person says how the student learns best"
    )


class ExtractionRequest(LessonArguments):
    """The material."""

    source_ids: list[str] = Field(
        [],
        description="Materials to read, such as source-1, as the conversation names them",
        max_length=20,
    )
    content: str = Field(
        "",
        description="Leave out for a material with an id, or an upload. Else a short text as given, or the"
        " address of a web page",
        max_length=90_000,
    )
    guidance: str | None = Field(
        None,
        description="Leave out unless the person asks for other facts of the material; their subject",
        max_length=1000,
    )
    target_duration: float | None = Field(
        None, description="Leave out unless the person names a length of the narration; seconds"
    )


class GivenFact(BaseModel):
    """One fact to tell."""

    model_config = ConfigDict(extra="ignore")

    id: str | None = Field(None, max_length=100)
    concept: str = Field(min_length=1, max_length=200)
    details: str = Field(min_length=1, max_length=4000)
    confidence: float | None = Field(None, ge=0, le=1)


class NarrationRequest(LessonArguments):
    """The narration to write."""

    facts: list[GivenFact] = Field(
        default=[],
        description="Leave out: the facts that the teacher has chosen are told",
        max_length=40,
    )
    topic: str | None = Field(None, description="Leave out: it follows from the facts", max_length=300)
    target_duration: float | None = Field(
        None, description="Leave out unless the person names a length; seconds, 15 to 600"
    )
    level_shift: LevelShift = None
    language: LessonLanguage = None
    child_age: str | None = Field(None, description="Leave out if it is noted", max_length=100)
    child_interest: str | None = Field(None, description="Leave out if it is noted", max_length=300)
    segments: list[Kind] | None = Field(
        None,
        description="Segments to rewrite; [] if only the facts changed; all when left out",
    )
    guidance: str | None = Field(
        None,
        description="Leave out unless the person says what should be different; in their words",
        max_length=1000,
    )

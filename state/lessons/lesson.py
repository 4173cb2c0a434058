"""A lesson: its version streams, its session as callers see it, and how its status moves (B38-B47)."""

from collections.abc import Mapping
from typing import Any, Final, Literal, cast, get_args

from pydantic import BaseModel

from callsheet.state.errors import Conflict
from callsheet.state.lessons import assets
from callsheet.state.lessons.facts import Fact
from callsheet.state.lessons.images import Picture
from callsheet.state.lessons.narration import Narration
from callsheet.state.lessons.student import Student
from callsheet.state.versions import Version

Stream = Literal["student", "source", "facts", "confirmed", "narration", "images", "assets"]
STREAMS: Final[tuple[Stream, ...]] = get_args(Stream)
"""Proposed and confirmed facts are streams apart (B41), and so is the source (B42).

`images` are those that were found (B62), `assets` what is shown beside the words (B40).
"""

Status = Literal[
    "created",
    "facts_extracted",
    "facts_confirmed",
    "script_generated",
    "narration_verified",
    "video_queued",
    "completed",
    "failed",
]
MADE_BY: Final[Mapping[str, Status]] = {
    "facts": "facts_extracted",
    "confirmed": "facts_confirmed",
    "narration": "script_generated",
}
"""What a new version of a stream makes of its lesson."""
_TRANSITIONS: Final[Mapping[Status, frozenset[Status]]] = {
    "created": frozenset({"facts_extracted", "facts_confirmed", "script_generated", "failed"}),
    "facts_extracted": frozenset({"facts_extracted", "facts_confirmed", "script_generated", "failed"}),
    "facts_confirmed": frozenset({"facts_extracted", "facts_confirmed", "script_generated", "failed"}),
    "script_generated": frozenset(
        {
            "facts_extracted",
            "facts_confirmed",
            "script_generated",
            "narration_verified",
            "video_queued",
            "completed",
            "failed",
        }
    ),
    "narration_verified": frozenset(
        {"facts_extracted", "facts_confirmed", "script_generated", "video_queued", "completed", "failed"}
    ),
    "video_queued": frozenset({"completed", "failed"}),
    "completed": frozenset(),
    "failed": frozenset({"facts_extracted", "facts_confirmed", "script_generated", "video_queued"}),
}
SAID: Final[frozenset[Status]] = frozenset({"narration_verified", "video_queued", "completed", "failed"})
"""What no version tells, but whoever goes on with the lesson (B44, B-R15)."""
Step = Literal["input", "selection", "review"]
"""What a person has to do next (B46)."""
_STEPS: Final[Mapping[str | None, Step]] = {
    "select_facts": "selection",
    "review_narration": "review",
    "select_images": "review",
}
"""Where the questions are answered, by their actions."""


class SourceMaterials(BaseModel):
    """What the lesson is made from, kept apart from the conversation (B38, B42)."""

    text: str | None = None
    pdfUrl: str | None = None  # noqa: N815 -- the wire's name


class Session(BaseModel):
    """A lesson as callers see it (B38)."""

    id: str
    userId: str  # noqa: N815
    status: Status = "created"
    topic: str | None = None
    childAge: str | None = None  # noqa: N815
    childInterest: str | None = None  # noqa: N815
    learningObjective: str | None = None  # noqa: N815
    extractedFacts: list[Fact] = []  # noqa: N815
    confirmedFacts: list[Fact] = []  # noqa: N815
    generatedScript: Narration | None = None  # noqa: N815
    sourceMaterials: SourceMaterials = SourceMaterials()  # noqa: N815
    createdAt: str  # noqa: N815
    updatedAt: str  # noqa: N815


def moved(current: Status, target: Status) -> Status:
    """Return `to` where a lesson that is `now` may go there; raises `Conflict` where it may not (B44)."""
    if target not in _TRANSITIONS[current]:
        allowed = ", ".join(sorted(_TRANSITIONS[current])) or "nothing"
        raise Conflict(
            f"a lesson that is {current!r} cannot become {target!r}", remedy=f"it can become {allowed}"
        )
    return target


def editable(status: Status) -> frozenset[str]:
    """Return the streams a person may edit in place (B44)."""
    if status in {"facts_extracted", "facts_confirmed"}:
        return frozenset({"facts", "confirmed"})
    return frozenset({"narration"}) if status in {"script_generated", "narration_verified"} else frozenset()


def status(newest: Mapping[str, Version | None], explicit: Status | None = None) -> Status:
    """Return the status that follows from the newest version of each stream (B8, B17).

    `said` is one that no stream tells, such as `completed`, while nothing was made since.
    """
    produced = [version for name in MADE_BY if (version := newest.get(name))]
    if not produced:
        return explicit or "created"
    # Two versions may be made in one millisecond, and then the later stream is the later one.
    newest_version = max(
        produced, key=lambda version: (version.created_ms, list(MADE_BY).index(version.stream))
    )
    return explicit or MADE_BY[newest_version.stream]


def standing(newest: Mapping[str, Version | None]) -> str:
    """Return which versions there are: what a status is said of."""
    return ",".join(f"{name}:{version.id}" for name in MADE_BY if (version := newest.get(name)))


def _explicit_status(newest: Mapping[str, Version | None], meta: Mapping[str, Any]) -> Status | None:
    """Return the status that was said of these very versions."""
    explicit = meta.get("status") if meta.get("statusOf") == standing(newest) else None
    return cast("Status | None", explicit)


def step(current: Status, open_question: str | None = None) -> Step:
    """Return what a person has to do next: answer what waits, or go on from here (B45-B49).

    Images are chosen in the review of the narration that they are for.
    """
    if open_question in _STEPS:
        return _STEPS[open_question]
    if current in {"created", "failed"}:
        return "input"
    return "selection" if current == "facts_extracted" else "review"


def session(
    lesson: str, owner: str, newest: Mapping[str, Version | None], meta: Mapping[str, Any]
) -> Session:
    """Return the session that the newest version of each stream and the lesson's own record make."""
    data = {name: version.data for name, version in newest.items() if version}
    facts = data.get("facts", {})
    source = data.get("source") or facts.get("source", {})
    student = Student.model_validate(data.get("student", {}))
    narration = data.get("narration")
    times = [version.created_at() for version in newest.values() if version]
    return Session(
        id=lesson,
        userId=owner,
        status=status(newest, _explicit_status(newest, meta)),
        topic=facts.get("topic"),
        childAge=student.child_age,
        childInterest=student.child_interest,
        learningObjective=facts.get("learningObjective"),
        extractedFacts=facts.get("facts", []),
        confirmedFacts=data.get("confirmed", {}).get("facts", []),
        generatedScript=Narration.model_validate(narration) if narration else None,
        sourceMaterials=SourceMaterials(
            text=source.get("text"), pdfUrl=source.get("url") if source.get("kind") == "pdf" else None
        ),
        createdAt=str(meta.get("createdAt") or min(times, default="")),
        updatedAt=max(times, default=str(meta.get("createdAt", ""))),
    )


def summary(stream: str, data: Mapping[str, Any]) -> str:
    """Return a version of one of the streams in one line."""
    if stream == "student":
        return ", ".join(value for name in ("child_age", "child_interest") if (value := data.get(name)))
    if stream == "source":
        return str(data["name"])
    if stream == "narration":
        return f"{data['total_duration']} s about {data['topic']}"
    if stream == "images":
        return ", ".join(one["title"] for one in data["images"]) or "none"
    if stream == "assets":
        return assets.summary(data)
    return ", ".join(fact["concept"] for fact in data["facts"])


class _Facts(BaseModel):
    facts: list[Fact]


class _Proposal(_Facts):
    topic: str
    learningObjective: str  # noqa: N815


class _Material(BaseModel):
    kind: str
    name: str
    digest: str
    text: str


class _Images(BaseModel):
    words: str
    images: list[Picture]


_SCHEMAS: Final[Mapping[str, type[BaseModel]]] = {
    "student": Student,
    "source": _Material,
    "facts": _Proposal,
    "confirmed": _Facts,
    "narration": Narration,
    "images": _Images,
    "assets": assets.AssetVersion,
}


def checked(stream: str, data: Mapping[str, Any]) -> None:
    """Raise pydantic's error for what a version of the stream cannot hold; more than it needs it may."""
    _SCHEMAS[stream].model_validate(data)

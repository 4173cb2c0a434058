"""A lesson: its state, version streams and transitions; its session and its agents' results in API form."""

from collections.abc import Iterable, Mapping
from typing import Any, Final, Literal, NotRequired, cast, get_args

from pydantic import BaseModel, ConfigDict
from typing_extensions import TypedDict

from callsheet.state.cards import Card, shorten, texts
from callsheet.state.errors import Conflict
from callsheet.state.lessons import images
from callsheet.state.lessons.facts import Fact
from callsheet.state.lessons.images import CHOICE_DONE, Picture
from callsheet.state.lessons.narration import Narration
from callsheet.state.lessons.quiz import Quiz
from callsheet.state.lessons.student import Student
from callsheet.state.plan import StepResult
from callsheet.state.versions import Version
from callsheet.state.workflow import Workflow


class LessonState(Workflow):
    """State of a conversation about one lesson, whose id is the thread's."""

    subject: NotRequired[str]
    """School subject; `general` by default."""
    choice: NotRequired[str | None]
    """Version of the proposed facts that await a choice, or None."""
    review: NotRequired[bool]
    """True if each narration needs a person's approval; False by default."""
    reviewing: NotRequired[bool]
    """True while the newest narration awaits approval."""
    images: NotRequired[bool]
    """True if images are searched and offered after a narration; False by default."""
    picturing: NotRequired[str]
    """Version of the images that await a choice; `wanted` before the search, `over` afterwards."""
    chosen: NotRequired[dict[str, Any] | None]
    """Choice of facts that the model recorded, until its narration is planned."""
    materials: NotRequired[dict[str, str]]
    """Ids of the materials that long messages are stored as, by message."""
    problem: NotRequired[str]
    """Error in the last answer to the open question; empty if there was none."""
    answered: NotRequired[str]
    """Id of the newest message of a person that answered a question."""


def pending_question(
    state: LessonState,
) -> Literal["select_facts", "review_narration", "select_images"] | None:
    """Return the first pending question; a search for images counts as one."""
    if state.get("choice"):
        return "select_facts"
    if state.get("reviewing"):
        return "review_narration"
    return "select_images" if state.get("picturing", CHOICE_DONE) not in {"", CHOICE_DONE} else None


Stream = Literal["student", "source", "facts", "confirmed", "narration", "images", "assets", "quiz"]
STREAMS: Final[tuple[Stream, ...]] = get_args(Stream)
"""Proposed facts, confirmed facts and the source are separate streams.

`images` holds the search results, `assets` the media of the lesson.
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
STATUS_AFTER: Final[Mapping[str, Status]] = {
    "facts": "facts_extracted",
    "confirmed": "facts_confirmed",
    "narration": "script_generated",
}
"""Status after a new version of each stream."""
_FACTS_OR_SCRIPT: Final[frozenset[Status]] = frozenset(
    {"facts_extracted", "facts_confirmed", "script_generated", "failed"}
)
_VIDEO: Final[frozenset[Status]] = frozenset({"video_queued", "completed"})
_TRANSITIONS: Final[Mapping[Status, frozenset[Status]]] = {
    "created": _FACTS_OR_SCRIPT,
    "facts_extracted": _FACTS_OR_SCRIPT,
    "facts_confirmed": _FACTS_OR_SCRIPT,
    "script_generated": _FACTS_OR_SCRIPT | _VIDEO | {"narration_verified"},
    "narration_verified": _FACTS_OR_SCRIPT | _VIDEO,
    "video_queued": frozenset({"completed", "failed"}),
    "completed": frozenset(),
    "failed": _FACTS_OR_SCRIPT - {"failed"} | {"video_queued"},
}
EXPLICIT_STATUSES: Final[frozenset[Status]] = frozenset(
    {"narration_verified", "video_queued", "completed", "failed"}
)
"""Statuses set by a caller, not derived from versions."""
Step = Literal["input", "selection", "review"]
"""The person's next step."""
_STEPS: Final[Mapping[str | None, Step]] = {
    "select_facts": "selection",
    "review_narration": "review",
    "select_images": "review",
}
"""Steps in which open questions are answered, by the question's action."""


class SourceMaterials(BaseModel):
    """Source of the lesson, stored apart from the conversation."""

    model_config = ConfigDict(json_schema_serialization_defaults_required=True)

    text: str | None = None
    pdfUrl: str | None = None  # noqa: N815 -- the wire's name


class Session(BaseModel):
    """A lesson in API form."""

    model_config = ConfigDict(json_schema_serialization_defaults_required=True)

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


def next_status(current: Status, target: Status) -> Status:
    """Return `target` if the lesson may change to it from `current`; raises `Conflict` otherwise."""
    if target not in _TRANSITIONS[current]:
        allowed = ", ".join(sorted(_TRANSITIONS[current])) or "nothing"
        raise Conflict(
            f"a lesson that is {current!r} cannot become {target!r}", remedy=f"it can become {allowed}"
        )
    return target


def editable(status: Status) -> frozenset[str]:
    """Return the streams that a person may edit in this status."""
    if status in {"facts_extracted", "facts_confirmed"}:
        return frozenset({"facts", "confirmed"})
    return frozenset({"narration"}) if status in {"script_generated", "narration_verified"} else frozenset()


def status(newest: Mapping[str, Version | None], explicit: Status | None = None) -> Status:
    """Return the status derived from the newest version of each stream, or `explicit` if set."""
    produced = [version for name in STATUS_AFTER if (version := newest.get(name))]
    if not produced:
        return explicit or "created"
    # Versions may share a millisecond; then the stream that comes later in the workflow is newer.
    newest_version = max(
        produced, key=lambda version: (version.created_ms, list(STATUS_AFTER).index(version.stream))
    )
    return explicit or STATUS_AFTER[newest_version.stream]


def version_ids(newest: Mapping[str, Version | None]) -> str:
    """Return a text of the newest versions' ids; an explicit status is valid only for the same text."""
    return ",".join(f"{name}:{version.id}" for name in STATUS_AFTER if (version := newest.get(name)))


def _explicit_status(newest: Mapping[str, Version | None], meta: Mapping[str, Any]) -> Status | None:
    """Return the status a caller set, or None if newer versions exist."""
    explicit = meta.get("status") if meta.get("statusOf") == version_ids(newest) else None
    return cast("Status | None", explicit)


def step(current: Status, open_question: str | None = None) -> Step:
    """Return the person's next step: answer the open question, or continue.

    Images are chosen in the review of their narration.
    """
    if open_question in _STEPS:
        return _STEPS[open_question]
    if current in {"created", "failed"}:
        return "input"
    return "selection" if current == "facts_extracted" else "review"


def session(
    lesson: str, owner: str, newest: Mapping[str, Version | None], meta: Mapping[str, Any]
) -> Session:
    """Return the session built from the newest version of each stream and the lesson's metadata."""
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
    """Return a one-line summary of a version."""
    match stream:
        case "student":
            line = ", ".join(value for name in ("child_age", "child_interest") if (value := data.get(name)))
        case "source":
            line = str(data["name"])
        case "narration":
            line = f"{data['topic']}, planned for {data['total_duration']} s"
        case "images":
            line = ", ".join(image["title"] for image in data["images"]) or "none"
        case "assets":
            line = images.asset_summary(data)
        case "quiz":
            line = f"quiz about {data['topic']}"
        case _:
            line = ", ".join(fact["concept"] for fact in data["facts"])
    return line


def card(newest: Mapping[str, Mapping[str, Any]]) -> Card:
    """Return the lesson's topic, else its material's name, and the texts of narration, facts and quiz."""
    narration, facts, student = (newest.get(name, {}) for name in ("narration", "facts", "student"))
    quiz = newest.get("quiz", {}).get("questions", ())
    return Card(
        shorten(narration.get("topic") or facts.get("topic") or newest.get("source", {}).get("name") or ""),
        texts(
            facts.get("topic"),
            facts.get("learningObjective"),
            [segment.get("narration") for segment in narration.get("segments", ())],
            [one.get(name) for one in facts.get("facts", ()) for name in ("concept", "details")],
            [one.get("prompt") for one in quiz],
            [value for value in student.values() if isinstance(value, str)],
            newest.get("source", {}).get("name"),
        ),
    )


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
    "assets": images.AssetVersion,
    "quiz": Quiz,
}


def check_version(stream: str, data: Mapping[str, Any]) -> None:
    """Raise pydantic's error for data that does not fit the stream; further fields are allowed."""
    _SCHEMAS[stream].model_validate(data)


AGENTS: Final[Mapping[str, str]] = {
    "extractFactsTool": "FactExtractionAgent",
    "generateNarrationTool": "NarrativeBuilderAgent",
}
"""Names of the agents, by the tool that runs them."""


class AgentData(TypedDict, total=False):
    """Result of an agent as JSON: facts with their topic, or a script; empty on failure."""

    facts: list[Fact]
    message: str
    topic: str
    learningObjective: str
    script: Narration


class AgentResult(TypedDict):
    """Result of one agent."""

    agent: str
    success: bool
    data: AgentData
    cost: float | None
    """US dollars; 0 on failure."""
    duration: float
    """Seconds."""
    error: NotRequired[str]


def agent_results(steps: Iterable[StepResult]) -> list[AgentResult]:
    """Return the results of the steps run by agents, in order."""
    return [_agent_result(step) for step in steps if step["tool"] in AGENTS]


def _agent_result(step: StepResult) -> AgentResult:
    agent, output = AGENTS[step["tool"]], step["output"]
    if step["status"] != "completed":
        error = str(output.get("error") or "the step was not executed")
        return AgentResult(
            agent=agent, success=False, data={}, cost=0.0, duration=step["duration_s"], error=error
        )
    if "narration" in output:
        data = {"script": output["narration"]}
    else:
        names = ("facts", "message", "topic", "learningObjective")
        data = {name: output[name] for name in names if name in output}
    shown = cast("AgentData", data)
    cost, duration_s = output.get("cost", 0.0), float(output.get("duration", step["duration_s"]))
    return AgentResult(agent=agent, success=True, data=shown, cost=cost, duration=duration_s)

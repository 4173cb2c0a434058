"""Requests and replies of videos."""

from typing import Annotated, Any, Final, Literal, NotRequired

from pydantic import (
    AliasChoices,
    BaseModel,
    ConfigDict,
    Field,
    ValidationError,
    ValidatorFunctionWrapHandler,
    field_validator,
)
from typing_extensions import TypedDict

from callsheet.server.artefacts.schemas import ApprovalQuestion, ExecutionSummary, PlanView, VersionSummary
from callsheet.server.http.requests import Flag, ModelChoice
from callsheet.state.errors import Invalid
from callsheet.state.receipts import Receipt
from callsheet.state.video.project import MAX_SCENES, DeletedScene
from callsheet.state.video.scene import Scene, SceneElement


class SceneSummary(TypedDict):
    """A scene in a list."""

    id: str
    position: int | None
    """From 1; null for a deleted scene."""
    name: str
    revision: int
    versionId: str
    status: Literal["draft", "frozen"]
    durationInFrames: int
    durationSeconds: float
    summary: str
    narrated: bool
    """True if a film speaks its words."""
    updatedAt: str
    locked: NotRequired[bool]
    """True if nothing may change it; in lists."""


class SceneList(TypedDict):
    """Scenes in order."""

    scenes: list[SceneSummary]


class SceneView(SceneSummary):
    """A scene with its content."""

    scene: Scene


class SceneVersions(TypedDict):
    """Versions of a scene, newest last."""

    versions: list[VersionSummary]
    active: str | None
    before: str | None
    """Send it as `before` for older versions; null if there are none."""


class ProjectSummary(TypedDict):
    """A project in a list."""

    id: str
    name: str
    title: str
    """The title that a person gave it, else its name, else its first message."""
    threadId: str
    sceneCount: int
    createdAt: str | None
    updatedAt: str | None


class ProjectList(TypedDict):
    """The owner's projects."""

    projects: list[ProjectSummary]
    next: str | None
    """Send it as `after` for the next list; null at the end."""


class ProjectView(ProjectSummary):
    """A project."""

    scenes: list[SceneSummary]
    deleted: list[DeletedScene]
    """Scenes that can be restored."""
    locked: list[str]
    """Ids of scenes that nothing may change, and `order`."""
    canUndo: bool
    """True if a plan changed something that is not undone."""
    canRedo: bool
    """True if nothing was changed after an undo."""


class ExecutionList(TypedDict):
    """Executions, newest first."""

    executions: list[ExecutionSummary]
    next: str | None
    """`after` of the next page; null on the last."""


class ExecutionStarted(TypedDict):
    """A started execution; without a plan the model answered in words."""

    executionId: str | None
    threadId: str
    plan: PlanView | None
    message: str
    """The model's words, or the text of `question`."""
    question: ApprovalQuestion | None
    """Question of a turn that could exceed a budget before it has a plan; a message yes or no answers it."""
    receipt: Receipt | None
    """Effects of a turn without a plan, by its versions and errors; null for a plan."""


class ProjectExport(TypedDict):
    """A project that can be created again."""

    name: str
    scenes: list[Scene]


class LockedScenes(TypedDict):
    """Locked scenes."""

    locked: list[str]


class Presets(TypedDict):
    """Saved messages by name."""

    presets: dict[str, str]


class Preference(TypedDict):
    """A correction by a person; the model reads it with every plan."""

    id: str
    text: str
    at: str | None


class Preferences(TypedDict):
    """Learnt preferences, oldest first."""

    preferences: list[Preference]


class ContextTimes(TypedDict):
    """Times of an entry; null for never, or for one of an earlier release."""

    createdAt: str | None
    expiresAt: str | None


class ContextEntries(TypedDict):
    """Gathered context by key."""

    entries: Annotated[dict[str, Any], Field(description="Free: whatever was gathered, or set by a person")]
    times: dict[str, ContextTimes]
    """By key."""


_Id = Annotated[str, Field(min_length=1, max_length=255)]
_Ids = Annotated[list[_Id], Field(max_length=100)]
_EDITED: Final = AliasChoices("edited_action", "editedAction")


class ExecutionCreate(ModelChoice):
    """A message that edits a project."""

    message: str = Field("", description="What shall be different; may be left out with `preset`")
    sceneIds: _Ids = Field([], description="Scenes that the message is about; no other is edited then")
    approve: Flag = Field(default=False, description="True shows the plan and waits for approval")
    preset: str | None = Field(None, max_length=200, description="Name of a saved message to run")


class SceneOrder(BaseModel):
    """The scenes of a project in another order."""

    model_config = ConfigDict(extra="forbid")

    sceneIds: _Ids = Field(description="Every scene once, in the new order")


class UndoCreate(ModelChoice):
    """An execution or steps of it to undo."""

    executionId: str | None = Field(None, max_length=255, description="The newest that changed something")
    steps: _Ids = Field([], description="Steps of the execution; all of them if left out")


class ProjectCreate(BaseModel):
    """A new project."""

    model_config = ConfigDict(extra="forbid")

    id: _Id | None = Field(None, description="Id of your choice; made if left out")
    name: str = Field("", max_length=200)
    starter: str | None = Field(None, max_length=40, description="Name of a starter project")
    scenes: list[Scene] | None = Field(None, max_length=MAX_SCENES, description="Scenes as exported")
    lessonId: _Id | None = Field(None, description="A lesson whose narration is shown, segment by segment")

    @field_validator("scenes", mode="wrap")
    @classmethod
    def _name_the_form(cls, value: Any, read: ValidatorFunctionWrapHandler) -> Any:
        try:
            return read(value)
        except ValidationError as error:
            first = error.errors(include_url=False, include_input=False)[0]
            number, *place = first["loc"] or (0,)
            if not isinstance(number, int) or not place:
                raise
            raise Invalid(
                f"scene {number + 1} is not valid at {'.'.join(map(str, place))}: {first['msg']}",
                remedy=f"a scene has {', '.join(Scene.model_fields)}; its elements have"
                f" {', '.join(SceneElement.model_fields)}",
            ) from error


class PresetWrite(BaseModel):
    """A message to keep under a name."""

    model_config = ConfigDict(extra="forbid")

    message: str = Field(min_length=1, max_length=4_000)


class ContextWrite(BaseModel):
    """A value to keep for later steps."""

    model_config = ConfigDict(extra="forbid")

    value: Any
    expiresInSeconds: int = Field(0, ge=0, le=31_536_000, description="0 keeps it")

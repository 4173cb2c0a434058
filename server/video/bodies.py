"""Request bodies of videos."""

from typing import Annotated, Any, Final, Literal, Self

from pydantic import AliasChoices, BaseModel, ConfigDict, Field, model_validator

from callsheet.server.http.requests import Flag, ModelChoice
from callsheet.state.video.plan import PlannedStep

_Id = Annotated[str, Field(min_length=1, max_length=255)]
_Ids = Annotated[list[_Id], Field(max_length=100)]
_EDITED: Final = AliasChoices("edited_action", "editedAction")


class ExecutionCreate(ModelChoice):
    """A message that edits a project."""

    message: str = Field("", description="What shall be different; may be left out with `preset`")
    sceneIds: _Ids = Field([], description="Scenes that the message is about; no other is edited then")
    approve: Flag = Field(default=False, description="True shows the plan and waits for approval")
    preset: str | None = Field(None, max_length=200, description="Name of a saved message to run")


class StepPatch(BaseModel):
    """Other parameters of a pending step."""

    model_config = ConfigDict(extra="forbid")

    params: dict[str, Any] = Field(min_length=1, description="`prompt`, `name`, `durationSeconds` …")


class StepCreate(BaseModel):
    """A step to insert."""

    model_config = ConfigDict(extra="forbid")

    step: PlannedStep


class EditedStep(BaseModel):
    """A step with other parameters."""

    model_config = ConfigDict(extra="forbid")

    name: str | None = Field(None, max_length=200, description="The step's tool, which cannot be changed")
    args: dict[str, Any] = Field(min_length=1, description="All parameters of the step")


class StepDecision(BaseModel):
    """A person's decision about a step."""

    model_config = ConfigDict(extra="forbid")

    type: Literal["approve", "reject", "edit"]
    message: str | None = Field(None, max_length=2_000, description="Reason of a rejection")
    edited_action: EditedStep | None = Field(None, validation_alias=_EDITED, description="Of an edit")

    @model_validator(mode="after")
    def _check_fields(self) -> Self:
        if self.type == "edit" and self.edited_action is None:
            raise ValueError("an edit needs edited_action with all args of the step")
        if self.type != "edit" and self.edited_action is not None:
            raise ValueError(f"a decision of type {self.type!r} has no edited_action; send the type 'edit'")
        if self.type != "reject" and self.message:
            raise ValueError(f"a decision of type {self.type!r} has no message; reject to give a reason")
        return self


class PlanDecision(BaseModel):
    """A person's decision about a plan that waits for approval."""

    model_config = ConfigDict(extra="forbid")

    decisions: list[StepDecision] = Field(
        min_length=1,
        max_length=100,
        description="One for each step that writes, or one for all: approve, reject with `message`, edit",
    )


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
    scenes: list[dict[str, Any]] | None = Field(None, max_length=100, description="Scenes as exported")


class PresetWrite(BaseModel):
    """A message to keep under a name."""

    model_config = ConfigDict(extra="forbid")

    message: str = Field(min_length=1, max_length=4_000)


class ContextWrite(BaseModel):
    """A value to keep for later steps."""

    model_config = ConfigDict(extra="forbid")

    value: Any
    expiresInSeconds: int = Field(0, ge=0, le=31_536_000, description="0 keeps it")

"""Request bodies of videos."""

from typing import Annotated, Any, Final

from pydantic import AliasChoices, BaseModel, ConfigDict, Field

from callsheet.server.http.requests import Flag, ModelChoice

_Id = Annotated[str, Field(min_length=1, max_length=255)]
_Ids = Annotated[list[_Id], Field(max_length=100)]
_EDITED: Final = AliasChoices("edited_action", "editedAction")


class ExecutionCreate(ModelChoice):
    """A message that edits a project."""

    message: str = Field("", description="What shall be different; may be left out with `preset`")
    sceneIds: _Ids = Field([], description="Scenes that the message is about; no other is edited then")
    approve: Flag = Field(default=False, description="True shows the plan and waits for approval")
    preset: str | None = Field(None, max_length=200, description="Name of a saved message to run")


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

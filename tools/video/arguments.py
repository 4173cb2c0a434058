"""Arguments of the steps of a plan; code has resolved every id."""

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

SceneId = Annotated[str, Field(pattern=r"^scene-[1-9][0-9]{0,4}$", description="Id of the scene")]
Prompt = Annotated[str, Field(min_length=1, max_length=4_000, description="What to do")]
_References = Annotated[list[SceneId], Field(max_length=20, description="Scenes that are examples")]
_Keys = Annotated[list[str], Field(max_length=50, description="Keys of gathered context")]
_Places = Annotated[
    list[SceneId] | None,
    Field(
        description="The new scene goes behind the first of these that is there; none of them is the start"
    ),
]


class _SceneArguments(BaseModel):
    model_config = ConfigDict(extra="forbid")


class OneScene(_SceneArguments):
    """Arguments of `deleteScene` and `restoreScene`."""

    sceneId: SceneId


class EditScene(OneScene):
    """Arguments of `editScene`."""

    prompt: Prompt
    referenceSceneIds: _References = []
    contextKeys: _Keys = []


class AddScene(EditScene):
    """Arguments of `addScene`."""

    name: str = Field(default="", max_length=200)
    durationSeconds: float | None = Field(default=None, gt=0, le=600)
    placeAfter: _Places = None


class TrimScene(OneScene):
    """Arguments of `trimScene`."""

    durationSeconds: float = Field(ge=0.5, le=600)


class RestoreVersion(OneScene):
    """Arguments of `restoreVersion`."""

    versionId: str = Field(pattern=r"^v[1-9][0-9]{0,8}$")


class AddAudio(OneScene):
    """Arguments of `addAudio`."""

    prompt: str = Field(min_length=1, max_length=1_000, description="The track: music, sounds, mood, tempo")
    volume: float = Field(default=0.8, ge=0, le=1)


class DuplicateScene(OneScene):
    """Arguments of `duplicateScene`."""

    newSceneId: SceneId
    prompt: str = Field(default="", max_length=4_000, description="What is different in the copy")
    placeAfter: _Places = None


class ReorderScenes(_SceneArguments):
    """Arguments of `reorderScenes`."""

    sceneIds: list[SceneId] = Field(max_length=100, description="Every scene in its new order")


class GatherContext(_SceneArguments):
    """Arguments of `contextGatherer`."""

    queries: list[Annotated[str, Field(min_length=1, max_length=300)]] = Field(default=[], max_length=10)
    sources: list[Literal["web", "examples", "trends"]] = ["web", "examples", "trends"]
    targetSceneId: SceneId | None = None
    extractStyle: bool = False

"""Tools that change what a scene shows, which scenes a project has, and their order.

A model submits the plan with one of them; the others are its steps, whose ids code has resolved. A model
writes the change of a scene as a form; code checks and applies it.
"""

from collections.abc import Callable, Mapping, Sequence
from importlib.resources import files
from typing import Annotated, Any, Final, NamedTuple

from pydantic import BaseModel, ConfigDict, Field

from callsheet.state.errors import Broken, Conflict, Forbidden, Invalid, Missing
from callsheet.state.video import project
from callsheet.state.video.patch import ScenePatch, apply_patch, differences, length_change
from callsheet.state.video.plan import SubmittedPlan
from callsheet.state.video.project import ORDER, SCENES, Order
from callsheet.state.video.scene import FPS, Audio, Scene
from callsheet.storage import current
from callsheet.storage.artefacts.artefacts import StreamHead
from callsheet.storage.video import context
from callsheet.tools.call import Call, VersionDraft
from callsheet.tools.models.structured import fill_in, model_for
from callsheet.tools.policy import ToolOptions
from callsheet.tools.prompts import FOLDER, read_prompt
from callsheet.tools.registry import tool


@tool(schema=SubmittedPlan, display="Planning")
async def submit_plan(args: SubmittedPlan, call: Call) -> dict[str, Any]:
    """Submit the whole plan of edits for what the person asked. Its steps run at once where they can.

    Tools of steps: editScene, addScene, deleteScene (can be restored), restoreScene, restoreVersion,
    trimScene, reorderScenes, duplicateScene, addAudio, contextGatherer.
    """
    del args, call
    # The planner turns the call into steps; the guard never gets it.
    raise Broken("submit_plan was called as a tool", remedy="let the planner of scene_edit read it")


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


class SceneArguments(BaseModel):
    """Arguments that code has resolved; others are refused."""

    model_config = ConfigDict(extra="forbid")


class OneScene(SceneArguments):
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


class ReorderScenes(SceneArguments):
    """Arguments of `reorderScenes`."""

    sceneIds: list[SceneId] = Field(max_length=100, description="Every scene in its new order")


_ORDER_TRIES: Final = 8
"""Writes of the order, if other steps change it at the same time."""


class HeldScene(NamedTuple):
    """A scene's newest version, and the head that it was read from."""

    scene: Scene
    head: StreamHead


async def read_scene(call: Call, scene_id: str) -> HeldScene:
    """Return a scene as it is; raise `Missing` if it has no version."""
    head = await call.artefact.stream_head(scene_id)
    if head.newest is None:
        raise Missing(f"there is no scene {scene_id!r}", remedy="Use the id of a scene of the project")
    return HeldScene(Scene.model_validate(head.newest.data["scene"]), head)


async def read_scenes(call: Call, scene_ids: Sequence[str]) -> dict[str, Scene]:
    """Return scenes by id."""
    return {name: (await read_scene(call, name)).scene for name in scene_ids}


def _name(scene_id: str, scene: Scene) -> str:
    """Return a scene as people and models call it."""
    return f"{scene.name} ({scene_id})" if scene.name else scene_id


def scene_draft(scene_id: str, scene: Scene, head: StreamHead, parent: str | None = None) -> VersionDraft:
    """Return the new version of a scene."""
    return VersionDraft(scene_id, {"scene": scene.data()}, parent, head, "undo" if parent else "model")


async def write_scene(
    call: Call, scene_id: str, held: HeldScene, scene: Scene, *, message: str = "", parent: str | None = None
) -> dict[str, Any]:
    """Write a scene's next version and return the step's result; an unchanged scene gets no version."""
    result = _changed_result(scene_id, held.scene, scene, message)
    if scene == held.scene:
        return {**result, "unchanged": True, "message": f"{scene_id} is as it was"}
    return await call.write_all([scene_draft(scene_id, scene, held.head, parent)], result=result)


def _changed_result(scene_id: str, before: Scene, after: Scene, message: str = "") -> dict[str, Any]:
    """Return the result of a step that changed a scene: what is different, and a small preview."""
    lines = differences(before, after)
    # A model's note may leave out how long the scene is now.
    noted = [message.rstrip(". "), length_change(before, after)] if message else ["; ".join(lines)]
    begin = [] if scene_id in message else [scene_id]
    return {
        "sceneId": scene_id,
        "differences": lines,
        "message": ": ".join([*begin, *filter(None, noted)] if any(noted) else [scene_id, "nothing changed"]),
        "preview": scene_preview(after),
    }


def scene_preview(scene: Scene) -> dict[str, Any]:
    """Return the few fields of a scene that a list shows."""
    return {
        "name": scene.name,
        "durationInFrames": scene.durationInFrames,
        "durationSeconds": round(scene.durationInFrames / FPS, 2),
        "background": scene.background.color,
        "palette": [*scene.palette],
    }


async def write_order(
    call: Call,
    change: Callable[[Order], Order],
    result: dict[str, Any],
    drafts: Sequence[VersionDraft] = (),
    *,
    scene_id: str = "",
) -> dict[str, Any]:
    """Write the changed order, together with versions of scenes, and return the step's result.

    Other steps may change the order at the same time; then the change is applied to the newer one. Raises
    `Forbidden` if the scene that comes or goes is locked.
    """
    for attempt in range(1, _ORDER_TRIES + 1):
        head = await call.artefact.stream_head(ORDER)
        if scene_id in head.locked:
            raise Forbidden(
                f"{scene_id!r} of {call.artefact.kind} {call.artefact.id!r} is locked by its owner",
                remedy="leave it as it is, or ask the person to unlock it",
            )
        order = change(project.order_of(head.newest.data if head.newest else None))
        new = VersionDraft(ORDER, order.model_dump(mode="json"), None, head)
        try:
            return await call.write_all([*drafts, new], result=result)
        except Conflict:
            if attempt == _ORDER_TRIES:
                raise
    raise AssertionError


MODEL_TIMEOUT: Final = ToolOptions(timeout_s=180.0)
"""A slow local model writes a scene in minutes."""
_FORM_TRIES: Final = 2
"""Forms that a model may fill in until one can be applied."""
_PROMPTS: Final = files(__package__).joinpath(FOLDER)
EDIT_PROMPT: Final = read_prompt(_PROMPTS, "edit_scene")
ADD_PROMPT: Final = read_prompt(_PROMPTS, "add_scene")


@tool(
    schema=EditScene,
    display="Editing a scene",
    reads=(SCENES,),
    writes=(SCENES,),
    internal=True,
    options=MODEL_TIMEOUT,
)
async def editScene(args: EditScene, call: Call) -> dict[str, Any]:  # noqa: N802 -- its name on the wire
    """Change one scene as the prompt says; examples are read and stay as they are."""
    held = await read_scene(call, args.sceneId)
    changed, note = await patch_scene(call, held, args)
    return await write_scene(call, args.sceneId, held, changed, message=note)


async def patch_scene(call: Call, held: HeldScene, args: EditScene) -> tuple[Scene, str]:
    """Return the scene as a model changes it, and the model's note about that."""
    request = {
        "scene": held.scene.data(),
        "request": args.prompt,
        **await _material(call, args.referenceSceneIds, args.contextKeys),
    }
    problem: Invalid | None = None
    for _ in range(_FORM_TRIES):
        again = {"problem": f"{problem.message}; {problem.remedy}"} if problem else {}
        filled = await fill_in(
            await model_for(call.scope.model, ""), ScenePatch, EDIT_PROMPT, request | again
        )
        try:
            return apply_patch(held.scene, filled.form), filled.form.note
        except Invalid as error:
            problem = error
    assert problem is not None  # noqa: S101 -- the loop ends by a return or with a problem
    raise problem


@tool(
    schema=AddScene,
    display="Adding a scene",
    reads=(SCENES,),
    writes=(SCENES, ORDER),
    internal=True,
    options=MODEL_TIMEOUT,
)
async def addScene(args: AddScene, call: Call) -> dict[str, Any]:  # noqa: N802 -- its name on the wire
    """Make a new scene as the prompt says."""
    head = await call.artefact.stream_head(args.sceneId)
    if head.newest is not None:
        raise Conflict(f"{args.sceneId} exists already", remedy="Plan the new scene again")
    request: dict[str, Any] = {
        "request": args.prompt,
        "seconds": args.durationSeconds,
        **await _material(call, args.referenceSceneIds, args.contextKeys),
    }
    filled = await fill_in(await model_for(call.scope.model, ""), Scene, ADD_PROMPT, request)
    scene = filled.form
    if args.name:
        scene = scene.model_copy(update={"name": args.name})
    if args.durationSeconds:
        scene = apply_patch(scene, ScenePatch(seconds=args.durationSeconds))
    result = {
        "sceneId": args.sceneId,
        "message": f"{args.sceneId} {scene.name!r} is new",
        "preview": scene_preview(scene),
    }
    return await write_order(
        call,
        lambda order: project.with_scene(order, args.sceneId, args.placeAfter),
        result,
        [scene_draft(args.sceneId, scene, head)],
    )


@tool(schema=TrimScene, display="Changing the length", writes=(SCENES,), internal=True)
async def trimScene(args: TrimScene, call: Call) -> dict[str, Any]:  # noqa: N802 -- its name on the wire
    """Change the length of a scene; a shorter one drops no element, and late movement comes earlier."""
    held = await read_scene(call, args.sceneId)
    scene = with_length(held.scene, round(args.durationSeconds * FPS))
    return await write_scene(call, args.sceneId, held, scene)


def with_length(scene: Scene, frames: int) -> Scene:
    """Return the scene with another length; if an animation would start or end too late, all are scaled."""
    last = max(
        (each.start + each.duration for element in scene.elements for each in element.animations), default=0
    )
    factor = min(1.0, frames / last) if last else 1.0
    data = scene.data()
    data["durationInFrames"] = frames
    for animation in (each for element in data["elements"] for each in element["animations"]):
        animation["start"] = min(int(animation["start"] * factor), frames - 1)
        animation["duration"] = max(1, int(animation["duration"] * factor))
    return Scene.model_validate(data)


@tool(schema=AddAudio, display="Adding audio", writes=(SCENES,), internal=True)
async def addAudio(args: AddAudio, call: Call) -> dict[str, Any]:  # noqa: N802 -- its name on the wire
    """Describe the audio track of a scene; its sound is made elsewhere."""
    held = await read_scene(call, args.sceneId)
    if held.scene.audio and held.scene.audio.spokenLanguage:
        raise Conflict(
            f"{args.sceneId} has the words of a narration, which a described sound would replace",
            remedy="Leave it as it is: music under the words is chosen when the film is made",
        )
    audio = Audio(description=args.prompt, volume=args.volume)
    return await write_scene(call, args.sceneId, held, held.scene.model_copy(update={"audio": audio}))


@tool(schema=RestoreVersion, display="Restoring a version", writes=(SCENES,), internal=True)
async def restoreVersion(args: RestoreVersion, call: Call) -> dict[str, Any]:  # noqa: N802 -- as the others
    """Write the content of an earlier version of a scene as its newest one."""
    held = await read_scene(call, args.sceneId)
    wanted = await call.artefact.version(args.sceneId, args.versionId)
    scene = Scene.model_validate(wanted.data["scene"])
    # People ask for it by Undo, without a model that would tell them which scene an id is.
    message = f"{_name(args.sceneId, scene)} is as in {args.versionId} again"
    return await write_scene(call, args.sceneId, held, scene, message=message, parent=args.versionId)


async def _material(call: Call, references: Sequence[str], keys: Sequence[str]) -> Mapping[str, Any]:
    """Return examples and gathered context for a model; a key without a value is null."""
    examples = {name: scene.data() for name, scene in (await read_scenes(call, references)).items()}
    gathered: Mapping[str, Any] = {}
    if keys:
        store = context.ContextStore(await current(), call.scope.artefact, call.scope.owner)
        gathered = await store.get_many(keys)
    return ({"examples": examples} if examples else {}) | ({"context": gathered} if gathered else {})


@tool(schema=OneScene, display="Deleting a scene", reads=(SCENES,), writes=(ORDER,), internal=True)
async def deleteScene(args: OneScene, call: Call) -> dict[str, Any]:  # noqa: N802 -- its name on the wire
    """Take a scene out of the video; it can be restored."""
    name = _name(args.sceneId, (await read_scene(call, args.sceneId)).scene)
    result = {"sceneId": args.sceneId, "message": f"{name} is deleted{project.RESTORABLE}"}
    return await write_order(
        call, lambda order: project.without_scene(order, args.sceneId), result, scene_id=args.sceneId
    )


@tool(schema=OneScene, display="Restoring a scene", reads=(SCENES,), writes=(ORDER,), internal=True)
async def restoreScene(args: OneScene, call: Call) -> dict[str, Any]:  # noqa: N802 -- as the others
    """Bring a deleted scene back to its place."""
    name = _name(args.sceneId, (await read_scene(call, args.sceneId)).scene)
    result = {"sceneId": args.sceneId, "message": f"{name} is back"}
    return await write_order(
        call, lambda order: project.with_restored(order, args.sceneId), result, scene_id=args.sceneId
    )


@tool(schema=ReorderScenes, display="Changing the order", reads=(SCENES,), writes=(ORDER,), internal=True)
async def reorderScenes(args: ReorderScenes, call: Call) -> dict[str, Any]:  # noqa: N802 -- as the others
    """Put the scenes into another order."""
    scenes = await read_scenes(call, args.sceneIds)
    names = ", ".join(scene.name or scene_id for scene_id, scene in scenes.items())
    result = {"message": f"The order is now: {names}"}
    return await write_order(call, lambda order: project.with_order(order, args.sceneIds), result)


@tool(
    schema=DuplicateScene,
    display="Duplicating a scene",
    reads=(SCENES,),
    writes=(SCENES, ORDER),
    internal=True,
    options=MODEL_TIMEOUT,
)
async def duplicateScene(args: DuplicateScene, call: Call) -> dict[str, Any]:  # noqa: N802 -- as the others
    """Copy a scene; with a prompt the copy is changed."""
    held = await read_scene(call, args.sceneId)
    head = await call.artefact.stream_head(args.newSceneId)
    if head.newest is not None:
        raise Conflict(f"{args.newSceneId} exists already", remedy="Plan the copy again")
    scene = held.scene
    if args.prompt:
        scene, _ = await patch_scene(call, held, EditScene(sceneId=args.sceneId, prompt=args.prompt))
    result = {
        "sceneId": args.newSceneId,
        "message": f"{args.newSceneId} is a copy of {_name(args.sceneId, held.scene)}",
        "preview": scene_preview(scene),
    }
    after = args.placeAfter if args.placeAfter is not None else [args.sceneId]
    return await write_order(
        call,
        lambda order: project.with_scene(order, args.newSceneId, after),
        result,
        [scene_draft(args.newSceneId, scene, head)],
    )


TOOLS: Final = (
    submit_plan,
    editScene,
    addScene,
    trimScene,
    addAudio,
    restoreVersion,
    deleteScene,
    restoreScene,
    reorderScenes,
    duplicateScene,
)

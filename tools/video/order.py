"""Tools that change which scenes a project has, and their order."""

from typing import Any, Final

from callsheet.state.errors import Conflict
from callsheet.state.video import project
from callsheet.state.video.project import ORDER, SCENES
from callsheet.tools.call import Call
from callsheet.tools.registry import tool
from callsheet.tools.video import content
from callsheet.tools.video.arguments import DuplicateScene, EditScene, OneScene, ReorderScenes
from callsheet.tools.video.scenes import MODEL_TIMEOUT, patch_scene


@tool(schema=OneScene, display="Deleting a scene", reads=(SCENES,), writes=(ORDER,), internal=True)
async def deleteScene(args: OneScene, call: Call) -> dict[str, Any]:  # noqa: N802 -- its name on the wire
    """Take a scene out of the video; it can be restored."""
    result = {"sceneId": args.sceneId, "message": f"{args.sceneId} is deleted and can be restored"}
    return await content.write_order(
        call, lambda order: project.without_scene(order, args.sceneId), result, scene_id=args.sceneId
    )


@tool(schema=OneScene, display="Restoring a scene", reads=(SCENES,), writes=(ORDER,), internal=True)
async def restoreScene(args: OneScene, call: Call) -> dict[str, Any]:  # noqa: N802 -- as the others
    """Bring a deleted scene back to its place."""
    result = {"sceneId": args.sceneId, "message": f"{args.sceneId} is back"}
    return await content.write_order(
        call, lambda order: project.with_restored(order, args.sceneId), result, scene_id=args.sceneId
    )


@tool(schema=ReorderScenes, display="Changing the order", writes=(ORDER,), internal=True)
async def reorderScenes(args: ReorderScenes, call: Call) -> dict[str, Any]:  # noqa: N802 -- as the others
    """Put the scenes into another order."""
    result = {"message": f"The order is now: {', '.join(args.sceneIds)}"}
    return await content.write_order(call, lambda order: project.with_order(order, args.sceneIds), result)


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
    held = await content.read_scene(call, args.sceneId)
    head = await call.artefact.stream_head(args.newSceneId)
    if head.newest is not None:
        raise Conflict(f"{args.newSceneId} exists already", remedy="Plan the copy again")
    scene = held.scene
    if args.prompt:
        scene, _ = await patch_scene(call, held, EditScene(sceneId=args.sceneId, prompt=args.prompt))
    result = {
        "sceneId": args.newSceneId,
        "message": f"{args.newSceneId} is a copy of {args.sceneId}",
        "preview": content.scene_preview(scene),
    }
    after = args.placeAfter if args.placeAfter is not None else [args.sceneId]
    return await content.write_order(
        call,
        lambda order: project.with_scene(order, args.newSceneId, after),
        result,
        [content.scene_draft(args.newSceneId, scene, head)],
    )


TOOLS: Final = (deleteScene, restoreScene, reorderScenes, duplicateScene)

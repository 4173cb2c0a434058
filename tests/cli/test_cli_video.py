"""Videos on the command line: undo, redo and restored scenes, and what is said of them."""

import json
from typing import Any

from tests.cli.conftest import RunCommand

OFFLINE = ("--provider", "offline")


def new_video(run_command: RunCommand) -> None:
    assert run_command("videos", "new", "make a video about our bakery", "--id", "bake", *OFFLINE).code == 0


def scenes(run_command: RunCommand) -> list[tuple[Any, ...]]:
    view = json.loads(run_command("videos", "show", "bake", "--json").out)
    return [(one["id"], one["versionId"]) for one in view["scenes"]]


def test_a_deleted_scene_comes_back_when_a_version_of_it_is_restored(run_command: RunCommand) -> None:
    new_video(run_command)
    undone = run_command("videos", "undo", "bake")
    assert scenes(run_command) == []
    words = " ".join(undone.out.split())
    assert "Where to find it (scene-4) is deleted and can be restored. Why it is good (scene-3) is" in words
    assert "'make a video about a bakery'" in undone.out, "an empty video has nothing to refine"
    restored = run_command("videos", "restore", "bake", "scene-1", "v1")
    assert (restored.code, scenes(run_command)) == (0, [("scene-1", "v1")])
    assert "Opening (scene-1) is back" in restored.out
    assert "new version" not in restored.out + restored.err
    again = run_command("videos", "restore", "bake", "scene-1", "v1")
    assert "scene-1 is as it was" in again.out


def test_an_earlier_version_of_a_deleted_scene_is_restored_with_it(run_command: RunCommand) -> None:
    new_video(run_command)
    longer = run_command("videos", "chat", "bake", "make scenes 1 and 2 longer", *OFFLINE)
    assert "Scene 1: longer: 3 s → 4.5 s. Scene 2: longer: 3 s → 4.5 s." in " ".join(longer.out.split())
    run_command("videos", "chat", "bake", "delete scene 1", *OFFLINE)
    restored = run_command("videos", "restore", "bake", "scene-1", "v1")
    assert (restored.code, scenes(run_command)[0]) == (0, ("scene-1", "v3"))


def test_an_undo_is_redone(run_command: RunCommand) -> None:
    new_video(run_command)
    before = scenes(run_command)
    run_command("videos", "undo", "bake")
    redone = run_command("videos", "redo", "bake")
    assert (redone.code, scenes(run_command)) == (0, before), redone

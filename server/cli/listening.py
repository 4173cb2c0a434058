"""The sound of ads and lessons in the terminal: rendered by the server, and played by a program here."""

import shutil
import subprocess
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from callsheet.server.cli.client import ServerClient, ServerRefusal, path_part
from callsheet.server.cli.output import OnStep, say, show_progress
from callsheet.state.errors import Invalid, Unavailable

FORMATS: Final = ("mp3", "ogg", "wav")
_PLAYERS: Final[Mapping[str, tuple[str, ...]]] = {
    "ffplay": ("-nodisp", "-autoexit", "-loglevel", "error"),
    "mpv": ("--no-video", "--really-quiet"),
    "afplay": (),
    "paplay": (),
    "aplay": ("-q",),
}
"""Programs that play a file, with their options; `aplay` reads WAV only."""
_STAGES: Final = {"speech": "Speaking", "mix": "Mixing"}


def render(
    client: ServerClient, route: str, name: str, body: Mapping[str, Any], *, quiet: bool
) -> tuple[dict[str, Any], bytes]:
    """Render a thing by its route, and say what is heard in place of what it describes.

    Returns its view and the file.
    """
    rendering: dict[str, Any] = {}
    path = route.format(id=path_part(name))
    with show_progress(quiet=quiet) as show:
        for event, data in client.events("POST", path, lambda _: None, json=body):
            if event == "error":
                raise ServerRefusal(data, data.get("status", 500))
            if event == "result":
                rendering = dict(data)
            else:
                _show_stage(show, data)
    if not quiet:
        for notice in rendering["notices"]:
            say(notice, wrap=True)
        if rendering["loudnessLufs"] is not None:
            measured = f"{rendering['loudnessLufs']:.1f} LUFS, {rendering['truePeakDbtp']:.1f} dBTP"
            say(f"{rendering['seconds']:.1f} s, {measured}.")
    return rendering, client.call("GET", rendering["url"]).content


def _show_stage(show: OnStep, data: Mapping[str, Any]) -> None:
    status = "completed" if data["done"] == data["total"] else "in-progress"
    show({"stepId": data["stage"], "name": _STAGES[data["stage"]], "status": status})


def format_of(file: str) -> str:
    """Return the format that a file's ending names; raises `Invalid` for another ending."""
    ending = Path(file).suffix.removeprefix(".").casefold()
    if ending not in FORMATS:
        raise Invalid(
            f"file {file!r} has no ending of a sound file", remedy=f"use one of .{', .'.join(FORMATS)}"
        )
    return ending


def find_player() -> str:
    """Return a program that plays files; raises `Unavailable` if none is installed."""
    player = next((name for name in _PLAYERS if shutil.which(name)), None)
    if player is None:
        raise Unavailable(
            f"no player is installed: {', '.join(_PLAYERS)}", remedy="write a file: --save FILE.mp3"
        )
    return player


def play(player: str, sound: bytes, file_format: str) -> None:
    """Play a sound to its end."""
    with tempfile.NamedTemporaryFile(suffix=f".{file_format}") as file:
        file.write(sound)
        file.flush()
        command = [player, *_PLAYERS[player], file.name]
        if code := subprocess.run(command, check=False, stdin=subprocess.DEVNULL).returncode:  # noqa: S603
            raise Unavailable(f"{player} ended with {code}", remedy="write a file: --save FILE.mp3")

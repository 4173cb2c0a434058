"""The hand-off of an ad: script, cue sheet, checks, the sound, and VAST."""

import json

from callsheet.server.ads import audio
from callsheet.server.ads.audio import AdScore
from callsheet.state.ads import handoff
from callsheet.storage.artefacts import recordings


async def handoff_files(score: AdScore, media_url: str | None) -> dict[str, bytes]:
    """Return the files by name; raise `Missing` if the ad was not rendered.

    `media_url` is the address at which the sound will be served; without it there is no VAST document.
    """
    record = await audio.find_rendering(score)
    if record is None:
        raise audio.missing_rendering(score)
    ref, details = score.ref, record["details"]
    timeline, name = details["timeline"], ref.artefact.id
    report = await audio.preflight_view(score, score.request.profile)
    pieces = recordings.read(ref.storage, ref.artefact, score.digest, 0, record["size"])
    files = {
        "script.md": handoff.script(name, score.streams, timeline).encode(),
        # The mark by which spreadsheets know UTF-8.
        "cues.csv": handoff.cue_sheet(score.streams, timeline, score.mixer).encode("utf-8-sig"),
        "preflight.json": json.dumps(report, ensure_ascii=False, indent=2).encode(),
        f"ad.{score.request.format}": b"".join([piece async for piece in pieces]),
    }
    if media_url:
        files["vast.xml"] = handoff.vast(name, media_url, record["type"], details["seconds"]).encode()
    return files

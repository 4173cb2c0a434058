"""The sound of an ad over REST: render it, hear it, hear a voice."""

import json
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Annotated, Any, Final
from urllib.parse import quote

from fastapi import Query, Request
from pydantic import BaseModel, ConfigDict, Field
from starlette.responses import Response

from callsheet.server.ads import audio, edits, handoff
from callsheet.server.ads.audio import PreflightReport, ProfileName, Rendering, RenderRequest
from callsheet.server.artefacts.recordings import SOUND, progress_events, render_events, sound_reply
from callsheet.server.artefacts.speech import find_speech, require_audio, speech_of
from callsheet.server.artefacts.titles import title_of
from callsheet.server.artefacts.zip_files import ZIP, file_name, zip_reply
from callsheet.server.http.auth import current_owner
from callsheet.server.http.context import app_context
from callsheet.server.http.errors import documented_responses
from callsheet.server.http.policy import API_READ, API_RUN, API_WRITE, with_policy
from callsheet.server.http.replies import JsonReply, event_stream_reply, wants_event_stream
from callsheet.server.http.requests import api_router
from callsheet.state.ads.ad import TITLES
from callsheet.state.errors import Invalid, Missing
from callsheet.state.pronunciations import Pronunciations
from callsheet.storage import pronunciations
from callsheet.tools.ads import voices
from callsheet.tools.audio.casting import cast

router = api_router("/api/ads/{ad_id}", "ads")
name_router = api_router("/api/pronunciations", "voices")
voice_router = api_router("/api/voices", "voices")
_ERRORS: Final = (400, 403, 404, 409, 410, 413, 422, 429, 500, 501, 503, 504)
_RENDER: Final = documented_responses(*_ERRORS, reply=Rendering)
_RENDER[200] |= {"content": render_events(Rendering)["content"]}
_FILE: Final[dict[int | str, dict[str, Any]]] = {
    **documented_responses(*_ERRORS, 416, reply=None),
    200: SOUND,
    206: SOUND,
    304: {"description": "The file is the one that If-None-Match names"},
}
_SAMPLES: Final = {
    "english": "Hello. This is how I sound in an advertisement.",
    "chinese": "你好，很高兴认识你。",
    "czech": "Dobrý den, těší mě.",
    "french": "Bonjour, enchanté de vous rencontrer.",
    "german": "Guten Tag, so klinge ich in einer Werbung.",
    "indonesian": "Halo, senang bertemu dengan Anda.",
    "italian": "Buongiorno, piacere di conoscervi.",
    "polish": "Dzień dobry, miło mi poznać.",
    "portuguese": "Olá, prazer em conhecê-lo.",
    "romanian": "Bună ziua, îmi pare bine.",
    "spanish": "Hola, encantado de conocerle.",
    "thai": "สวัสดี ยินดีที่ได้รู้จัก",
    "vietnamese": "Xin chào, rất vui được gặp bạn.",
}
"""A sentence to hear a voice by; other languages have the voice's name."""


class PreflightQuery(RenderRequest):
    """Choice of a rendering, and of the rules that it is checked by."""

    against: ProfileName | None = Field(None, description="Those of `profile` when left out")


class HandoffQuery(RenderRequest):
    """Choice of a rendering, and where its file will be served."""

    mediaUrl: str | None = Field(
        None, max_length=2_000, pattern=r"^https?://", description="Address of the sound, for VAST"
    )


@router.post("/render", responses=_RENDER, response_model=None)
@with_policy(API_RUN)
async def render_ad(ad_id: str, body: RenderRequest, request: Request) -> Response:
    """Render the ad to a sound file, which is kept for a day; the same versions and mixer are rendered once.

    With `Accept: text/event-stream` the reply is a stream of `progress` events, then `result` or `error`.
    `notices` says what is heard in place of what the ad describes.
    """
    ref = await edits.find_ad(app_context(request).storage, ad_id, current_owner(request))
    title = await title_of(app_context(request), ref.thread)
    score = replace(await audio.read_score(ref, body), title=title)
    if wants_event_stream(request):
        heartbeat_s = app_context(request).settings.heartbeat_s
        return event_stream_reply(progress_events(partial(audio.render, score), heartbeat_s))
    return JsonReply(await audio.render(score, lambda _stage, _done, _of: None))


@router.get("/audio", responses=_FILE, response_class=Response)
@with_policy(API_READ)
async def get_audio(ad_id: str, query: Annotated[RenderRequest, Query()], request: Request) -> Response:
    """Send the rendered file of the ad as it is now; a Range names a part of it.

    404 where it was not rendered, or has changed since.
    """
    ref = await edits.find_ad(app_context(request).storage, ad_id, current_owner(request))
    score = await audio.read_score(ref, query)
    record = await audio.find_rendering(score)
    if record is None:
        raise audio.missing_rendering(score)
    title = await title_of(app_context(request), ref.thread)
    name = f"{title}, {_part_words(query.track)}" if query.track else title
    return sound_reply(request, ref.artefact, score.digest, record, name)


def _part_words(track: str) -> str:
    """Return a track, or a stream, as people are shown it."""
    number = track.removeprefix("track-")
    return f"voice {int(number) + 1}" if number.isdecimal() else TITLES.get(track, track)


@router.get("/preflight", responses=documented_responses(*_ERRORS, reply=PreflightReport))
@with_policy(API_READ)
async def check_ad(
    ad_id: str, query: Annotated[PreflightQuery, Query()], request: Request
) -> PreflightReport:
    """Check the rendered file of the ad by the rules of a place of delivery."""
    ref = await edits.find_ad(app_context(request).storage, ad_id, current_owner(request))
    chosen = RenderRequest(**query.model_dump(exclude={"against"}))
    return await audio.preflight_view(await audio.read_score(ref, chosen), query.against or query.profile)


class PronunciationMap(BaseModel):
    """Pronunciations of names; a text stays as it is written."""

    model_config = ConfigDict(extra="forbid")

    names: Pronunciations


class AdPronunciations(PronunciationMap):
    """Pronunciations of names in an ad."""

    ownerNames: Pronunciations | None = Field(
        None, description="Those of the owner, which count for names that the ad has none for; read only"
    )


def check_names(facts: Mapping[str, str]) -> None:
    """Raise `Invalid` for pronunciations of an imported ad that no route has written."""
    try:
        PronunciationMap.model_validate({"names": json.loads(facts.get(audio.PRONUNCIATIONS, "{}"))})
    except ValueError as error:
        raise Invalid("the pronunciations cannot be read", remedy="export the thread again") from error


_NAMES: Final = documented_responses(400, 403, 413, 422, 500, 503, 504, reply=PronunciationMap)
_AD_NAMES: Final = documented_responses(400, 403, 404, 413, 422, 500, 503, 504, reply=AdPronunciations)


@name_router.get("", responses=_NAMES)
@with_policy(API_READ)
async def list_pronunciations(request: Request) -> dict[str, Any]:
    """List the pronunciations of names for everything of the owner's."""
    return {"names": await pronunciations.read(app_context(request).storage, current_owner(request))}


@name_router.put("", responses=_NAMES)
@with_policy(API_WRITE)
async def set_pronunciations(body: PronunciationMap, request: Request) -> PronunciationMap:
    """Set the pronunciations of names for everything of the owner's, in place of the earlier ones."""
    await pronunciations.replace(app_context(request).storage, current_owner(request), body.names)
    return body


@router.get("/pronunciations", responses=_AD_NAMES)
@with_policy(API_READ)
async def list_ad_pronunciations(ad_id: str, request: Request) -> dict[str, Any]:
    """List the ad's own pronunciations of names, and those of its owner, over which they win."""
    ref = await edits.find_ad(app_context(request).storage, ad_id, current_owner(request))
    return await _ad_names(ref)


async def _ad_names(ref: edits.AdRef) -> dict[str, Any]:
    own, of_owner = await audio.ad_pronunciations(ref)
    return {"names": own, "ownerNames": of_owner}


@router.put("/pronunciations", responses=_AD_NAMES)
@with_policy(API_WRITE)
async def set_ad_pronunciations(ad_id: str, body: AdPronunciations, request: Request) -> dict[str, Any]:
    """Set the ad's own pronunciations of names, in place of its earlier ones; each wins over the owner's.

    What GET returned may be sent as it is; 422 for `ownerNames` that are not the owner's.
    """
    ref = await edits.find_ad(app_context(request).storage, ad_id, current_owner(request))
    _, of_owner = await audio.ad_pronunciations(ref)
    if body.ownerNames not in (None, of_owner):
        rule = "`ownerNames` are not the owner's pronunciations, which an ad cannot change"
        raise Invalid(rule, remedy="leave them out, or change them with PUT /api/pronunciations")
    names = json.dumps(body.names, ensure_ascii=False)
    await ref.artefact.set_facts({audio.PRONUNCIATIONS: names})
    return await _ad_names(ref)


@router.get(
    "/handoff", responses=documented_responses(*_ERRORS, reply=None) | {200: ZIP}, response_class=Response
)
@with_policy(API_READ)
async def export_handoff(ad_id: str, query: Annotated[HandoffQuery, Query()], request: Request) -> Response:
    """Export the rendered ad as a ZIP file: script, cue sheet, checks, sound, and VAST with `mediaUrl`."""
    ctx = app_context(request)
    ref = await edits.find_ad(ctx.storage, ad_id, current_owner(request))
    title = await title_of(ctx, ref.thread)
    chosen = RenderRequest(**query.model_dump(exclude={"mediaUrl"}))
    files = await handoff.handoff_files(await audio.read_score(ref, chosen), title, query.mediaUrl)
    return await zip_reply(files, file_name(title, "zip"), ref.thread.owner)


@voice_router.get("/{voice_id}/preview", responses=_FILE, response_class=Response)
@with_policy(API_READ)
async def preview_voice(voice_id: str, request: Request) -> Response:
    """Send a sentence that the voice speaks; the header Voice-Notice says which other one speaks for it."""
    require_audio()
    voice = voices.find(voice_id)
    if voice is None:
        raise Missing(f"there is no voice {voice_id[:200]!r}", remedy="list them with GET /api/voices")
    owner = current_owner(request)
    speech = find_speech(owner)
    text = _SAMPLES.get(voice.language, voice.name)
    [sample] = cast([{"id": "sample", "voiceId": voice_id, "text": text}], voice.language, speech)
    async with speech_of(app_context(request).storage, owner, speech, [sample.line]) as sounds:
        sound = sounds[0]
    headers = {
        "Cache-Control": "private, max-age=3600",
        "Content-Security-Policy": "default-src 'none'; sandbox",
        "X-Content-Type-Options": "nosniff",
    }
    if sample.notice:
        headers["Voice-Notice"] = quote(sample.notice, safe=" ,;.()")
    return Response(sound, media_type="audio/wav", headers=headers)

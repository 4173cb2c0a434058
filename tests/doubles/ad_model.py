"""A vendor's model at the wire, playing the creative director of one ad in Thai."""

import json

from langchain_core.messages import ToolMessage

from callsheet.state.ads import brief
from callsheet.state.owners import LOCAL
from callsheet.storage.artefacts.artefacts import Artefact
from callsheet.tools.ads import voices
from tests.doubles.chat_double import Say

THAI = [voice.id for voice in voices.search("thai", count=3)]
SAY_DONE = Say("All three drafts are ready to review.")


def call(call_id, name, **arguments):
    return (call_id, name, json.dumps(arguments, ensure_ascii=False))


def drafts(*texts, ad="kopi", prefix="c", music="gentle piano, warm"):
    tracks = [{"voiceId": THAI[i % 3], "text": text} for i, text in enumerate(texts)]
    return (
        call(f"{prefix}1", "create_voice_draft", adId=ad, tracks=tracks),
        call(f"{prefix}2", "create_music_draft", adId=ad, prompt=music),
        call(f"{prefix}3", "create_sfx_draft", adId=ad, prompts=[{"description": "rain on leaves"}]),
    )


def config(thread="kopi", **chosen):
    return {"configurable": {"thread_id": thread, **chosen}}


def brief_input(thread="kopi", **more):
    return {
        "brief": brief.parse(
            {
                "clientDescription": "Doi Chang Coffee",
                "targetAudience": "Thai families",
                "duration": 20,
                **more,
            }
        )
    }


async def stream(opened, name, ad="kopi"):
    return await Artefact(opened, "ad", ad, LOCAL).stream(name)


def tool_messages(state):
    return [(m.tool_call_id, json.loads(m.text)) for m in state["messages"] if isinstance(m, ToolMessage)]

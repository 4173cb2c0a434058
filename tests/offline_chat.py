"""A chat with the offline model's refinement turns, and a double of the five tools at the message level."""

import json
from collections.abc import Mapping
from typing import Any

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage, ToolMessage

from providers.offline.ad_creation import refinement
from providers.offline.ad_creation.conversation import read
from providers.offline.answer import Calls, Request
from state.ad import STREAMS, effect_list, music_bed, summary, timeline, track_list
from state.errors import CallsheetError
from state.tightening import tightened
from tools import voices

TOOLS = frozenset(
    {"search_voices", "create_voice_draft", "create_music_draft", "create_sfx_draft", "get_current_state"}
)
STREAM_OF = {"create_voice_draft": "voices", "create_music_draft": "music", "create_sfx_draft": "sfx"}
Data = dict[str, Any]


class Chat:
    """One ad: its messages, its versions, and what the last turn called and said."""

    def __init__(
        self,
        tracks: list[Data],
        music: str,
        effects: list[Data],
        *,
        client: str = "Juniper Bakery, sourdough bread on Mill Street. Fresh every morning at 7.",
        language: str = "english",
        spot_s: float = 30.0,
    ) -> None:
        self.language, self.spot_s = language, spot_s
        self.versions: dict[str, list[Data]] = {stream: [] for stream in STREAMS}
        self.messages: list[BaseMessage] = [
            SystemMessage(f'You are a creative director.\nAd id: "ad-7"\nSpot: {spot_s:g} s'),
            HumanMessage(
                f"Create an audio ad.\nClient: {client}\nTarget Audience: None\nDuration: {spot_s:g}s\n"
                f"Market: US\nLanguage: {language}\nAdditional context: None"
            ),
        ]
        self.calls: list[Request] = []
        self.failures: dict[str, list[Data]] = {}
        self.count = 0
        first = [Request("search_voices", {"language": language, "count": 20})]
        drafts = [
            Request("create_voice_draft", {"adId": "ad-7", "tracks": tracks}),
            Request("create_music_draft", {"adId": "ad-7", "prompt": music}),
            Request("create_sfx_draft", {"adId": "ad-7", "prompts": effects}),
        ]
        self._carry_out(Calls(tuple(first), "Here is the plan."))
        self._carry_out(Calls(tuple(drafts)))
        self.messages.append(AIMessage("Here is your first draft."))

    def say(self, text: str) -> str:
        """Let the person say something and return the model's last word."""
        self.messages.append(HumanMessage(text))
        self.calls = []
        for _ in range(10):
            conversation = read(self.messages, TOOLS)
            assert conversation is not None
            answer = refinement.respond(conversation)
            if not isinstance(answer, Calls):
                self.messages.append(AIMessage(answer.text))
                return answer.text
            assert answer.calls, "an answer that is no text calls something"
            self._carry_out(answer)
        raise AssertionError(f"no last word on {text!r} after ten answers")

    def _carry_out(self, answer: Calls) -> None:
        calls: list[Data] = []
        for request in answer.calls:
            self.count += 1
            calls.append({"name": request.name, "args": request.args, "id": f"call-{self.count}"})
        self.messages.append(AIMessage(answer.text, tool_calls=calls))
        self.calls += answer.calls
        for call in calls:
            result = self._result(str(call["name"]), dict(call["args"]))
            self.messages.append(
                ToolMessage(json.dumps(result, ensure_ascii=False), tool_call_id=str(call["id"]))
            )

    def _result(self, name: str, args: Data) -> Data:
        planned = self.failures.get(name)
        if planned:
            return planned.pop(0)
        try:
            return self._tool(name, args)
        except CallsheetError as error:
            return {
                "error": error.message,
                "suggestion": error.remedy,
                "type": "validation_error",
                "retryable": False,
            }

    def _tool(self, name: str, args: Data) -> Data:
        if name == "search_voices":
            return _search(args)
        assert args.pop("adId") == "ad-7"
        if name == "get_current_state":
            return self._state()
        stream = STREAM_OF[name]
        data, extra = self._stored(stream, args)
        self.versions[stream].append(data)
        return {
            "versionId": f"v{len(self.versions[stream])}",
            "status": "draft",
            "timeline": self._time(),
            **extra,
        }

    def _stored(self, stream: str, args: Data) -> tuple[Data, Data]:
        if stream == "voices":
            assert all(
                set(one) <= {"voiceId", "text", "playAfter", "overlap", "speed"} for one in args["tracks"]
            )
            for track in args["tracks"]:
                assert voices.find(track["voiceId"]), track["voiceId"]
            tracks, notes = tightened(
                track_list(args["tracks"]), language=self.language, spot_s=self.spot_s, effects=self.effects
            )
            return {"voiceTracks": tracks}, {"tightened": notes} if notes else {}
        if stream == "sfx":
            assert all(set(one) <= {"description", "placement", "duration"} for one in args["prompts"])
            return {"soundFxPrompts": effect_list(args["prompts"], len(self.tracks))}, {}
        assert set(args) <= {"prompt", "provider", "duration"}
        return music_bed(
            args["prompt"], args.get("provider", "loudly"), args.get("duration") or self.spot_s
        ), {}

    def _time(self) -> Data:
        return dict(timeline(self._current(), language=self.language, spot_s=self.spot_s))

    def _current(self) -> dict[str, Mapping[str, Any]]:
        return {stream: known[-1] for stream, known in self.versions.items() if known}

    def _state(self) -> Data:
        result: Data = {}
        for stream, known in self.versions.items():
            entries = [
                {"versionId": f"v{at}", "status": "draft", "parent": None, "summary": summary(stream, data)}
                | ({"data": data} if at > len(known) - 5 else {})
                for at, data in enumerate(known, 1)
            ]
            if known:
                result[stream] = {
                    **entries[-1],
                    "data": known[-1],
                    "activeVersionId": None,
                    "versions": entries,
                }
        return result | {
            "ad": {"language": self.language, "spotSeconds": self.spot_s},
            "timeline": self._time(),
        }

    @property
    def tracks(self) -> list[Data]:
        """The voice tracks as they stand."""
        return self.versions["voices"][-1]["voiceTracks"] if self.versions["voices"] else []

    @property
    def effects(self) -> list[Data]:
        """The effects as they stand."""
        return self.versions["sfx"][-1]["soundFxPrompts"] if self.versions["sfx"] else []

    @property
    def music(self) -> str:
        """The music's description as it stands."""
        return str(self.versions["music"][-1]["musicPrompt"])

    @property
    def made(self) -> list[str]:
        """The streams the last turn wrote, in order."""
        return [STREAM_OF[one.name] for one in self.calls if one.name in STREAM_OF]

    @property
    def texts(self) -> list[str]:
        """The words of the tracks."""
        return [str(track["text"]) for track in self.tracks]

    @property
    def cast(self) -> list[str]:
        """The voices of the tracks."""
        return [str(track["voiceId"]) for track in self.tracks]


def _search(args: Data) -> Data:
    found = voices.search(
        args["language"],
        gender=args.get("gender"),
        accent=args.get("accent"),
        style=args.get("style"),
        count=args.get("count", 10),
    )
    if not found:
        return {
            "error": "No voices found matching the criteria",
            "suggestion": "Broaden it",
            "voices": [],
            "count": 0,
        }
    return {"voices": [voice.public() for voice in found], "count": len(found)}


def bakery(**options: Any) -> Chat:
    """Return a chat about a bakery's ad with three tracks, two speakers and two effects."""
    man = voices.search("english", gender="male", accent="US")[0].id
    woman = voices.search("english", gender="female", accent="US")[0].id
    return Chat(
        [
            {"voiceId": man, "text": "Tired of stale bread? Meet Juniper Bakery."},
            {"voiceId": woman, "text": "Our new sourdough costs $4. It is baked every morning at 7."},
            {"voiceId": man, "text": "Call 555-123-4567 or visit juniperbread.com. Come by today!"},
        ],
        "warm acoustic folk, medium tempo 90 BPM, soft ukulele, calm and relaxed, instrumental, no vocals",
        [
            {"description": "shop door bell", "placement": {"type": "start"}, "duration": 1.5},
            {"description": "oven sizzle", "placement": {"type": "afterVoice", "index": 1}, "duration": 2.0},
        ],
        **options,
    )

"""One first-draft turn of the offline model, with the five tools answered as the contract has it."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage, ToolMessage

from providers.offline.model import OfflineModel
from state.ad import effect_list, track_list
from state.timeline import place
from tools import voices

NAMES = ("search_voices", "create_voice_draft", "create_music_draft", "create_sfx_draft", "get_current_state")
TOOLS: list[dict[str, Any]] = [
    {"type": "function", "function": {"name": name, "description": name, "parameters": {"type": "object"}}}
    for name in NAMES
]
Data = dict[str, Any]


@dataclass
class Turn:
    """What happened in one turn."""

    messages: list[BaseMessage] = field(default_factory=list)
    made: dict[str, Data] = field(default_factory=dict)
    """Arguments of the last successful call of each draft tool, by its name."""

    @property
    def answers(self) -> list[AIMessage]:
        """What the model said, in order."""
        return [message for message in self.messages if isinstance(message, AIMessage)]

    @property
    def last(self) -> str:
        """The last word."""
        return str(self.answers[-1].text)

    @property
    def texts(self) -> list[str]:
        """What is said on the tracks."""
        tracks: Sequence[Data] = self.made.get("create_voice_draft", {}).get("tracks", [])
        return [str(track["text"]) for track in tracks]

    @property
    def script(self) -> str:
        """All that is said."""
        return "\n".join(self.texts)

    def called(self, name: str) -> list[Data]:
        """The arguments of every call of one tool."""
        return [call["args"] for answer in self.answers for call in answer.tool_calls if call["name"] == name]


def template(client: str, **fields: Any) -> str:
    """Return the message of A52."""
    return (
        f"Create an audio ad.\nClient: {client}\nTarget Audience: {fields.get('audience') or None}\n"
        f"Duration: {fields.get('seconds', 30)}s\nMarket: {fields.get('market', 'US')}\n"
        f"Language: {fields.get('language', 'english')}\nAdditional context: {fields.get('context') or None}"
    )


def system(seconds: float = 30) -> SystemMessage:
    """Return a system prompt with the two lines the contract promises."""
    return SystemMessage(f'You are a creative director.\nAd id: "ad-1"\nSpot: {seconds:g} s')


def draft(
    client: str,
    *,
    failing: Mapping[str, Sequence[Data]] | None = None,
    catalogue: Sequence[Data] | None = None,
    **fields: Any,
) -> Turn:
    """Run one turn to its last word.

    `failing` holds the first results of a tool; `catalogue` stands for the voices.
    """
    planned = {name: list(results) for name, results in (failing or {}).items()}
    seconds = float(fields.get("seconds", 30))
    turn = Turn([system(seconds), HumanMessage(template(client, **fields))])
    model = OfflineModel().bind_tools(TOOLS)
    for _ in range(12):
        answer = model.invoke(turn.messages)
        turn.messages.append(answer)
        if not answer.tool_calls:
            return turn
        for call in answer.tool_calls:
            waiting = planned.get(call["name"])
            result = waiting.pop(0) if waiting else _result(call, answer, turn, catalogue, fields)
            turn.messages.append(ToolMessage(json.dumps(result, ensure_ascii=False), tool_call_id=call["id"]))
    raise AssertionError(f"no last word after {len(turn.answers)} answers")


def _result(
    call: Mapping[str, Any], answer: AIMessage, turn: Turn, catalogue: Sequence[Data] | None, fields: Data
) -> Data:
    name, args = call["name"], call["args"]
    if name == "search_voices":
        found = [voice.public() for voice in _search(args)] if catalogue is None else list(catalogue)
        return _voices(found)
    assert args["adId"] == "ad-1"
    count = sum(1 for message in turn.messages if isinstance(message, HumanMessage))
    made: Data = {"versionId": f"v{count}", "status": "draft"}
    turn.made[name] = args
    if name == "create_voice_draft":
        prompts: Sequence[Data] = next(
            (one["args"]["prompts"] for one in answer.tool_calls if one["name"] == "create_sfx_draft"), []
        )
        made["timeline"] = place(
            track_list(args["tracks"]),
            effect_list(prompts, len(args["tracks"])),
            language=str(fields.get("language", "english")),
            spot_s=float(fields.get("seconds", 30)),
        )
    return made


def _search(args: Data) -> list[voices.Voice]:
    filters = {key: args[key] for key in ("gender", "accent", "style") if key in args}
    return voices.search(args["language"], count=args.get("count", 10), **filters)


def _voices(found: Sequence[Data]) -> Data:
    if found:
        return {"voices": list(found), "count": len(found)}
    return {
        "error": "No voices found matching the criteria",
        "suggestion": "Try broadening your search (remove accent/style filters, try different gender)",
        "voices": [],
        "count": 0,
    }

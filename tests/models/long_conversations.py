"""Conversations of eighteen turns with each workflow, and a scripted model that answers well.

The first message holds a phone number, a legal line and a code, which the model must still be sent in the
last turn (A66, A-R12).
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from langchain_core.messages import HumanMessage
from langgraph.pregel import Pregel

from callsheet.graphs import ad_creation, campaign_search, fact_narration, page_builder, scene_edit
from callsheet.state.tokens import estimate_text
from callsheet.storage.checkpoints import RedisSaver
from callsheet.storage.redis.connection import Storage
from tests.doubles.chat_double import Recorded, Reply, Say
from tests.lessons.lesson_material import material
from tests.lessons.lesson_model import LessonModel
from tests.video.video_double import SCENES

TURNS: Final = 18
FACTS: Final = ("020 555 0199", "Terms apply, new customers only.", "HARBOUR24")
"""Facts of every first message."""
BRIEF: Final = (
    "Harbour Bikes rents bicycles at the old pier. Say the phone number 020 555 0199 and the code HARBOUR24. "
    "Legal line, word for word: Terms apply, new customers only."
)
SUMMARY: Final = "The person has a bicycle hire by the water. They liked the calm music and short sentences."
"""The model's answer to a request for a summary."""


@dataclass(frozen=True)
class ScriptedTurn:
    """A person's message and the model's answers to it, the last of them without calls."""

    wish: str
    answers: Sequence[Say]


@dataclass(frozen=True)
class ScriptedConversation:
    """A conversation with one workflow."""

    graph: Pregel[Any, Any]
    first_input: Mapping[str, Any]
    """Further input of the first turn."""
    turns: Sequence[ScriptedTurn]


@dataclass
class Sent:
    """Requests of a conversation, by turn, as texts in the order of a provider's prompt cache."""

    turns: list[list[str]] = field(default_factory=list)
    systems: list[str] = field(default_factory=list)
    """System messages, each once, in order."""

    def new_tokens(self, turns: slice) -> int:
        """Return the input tokens of these turns that no earlier request began with."""
        total, cached = self.tokens(turns)
        return total - cached

    def cached_share(self, turns: slice) -> float:
        """Return the share of the input tokens of these turns that an earlier request began with."""
        total, cached = self.tokens(turns)
        return cached / total

    @property
    def compactions(self) -> int:
        """Number of times the beginning changed."""
        return len(self.systems) - 1

    def largest(self, turn: int) -> int:
        """Return the tokens of the largest request of a turn."""
        return max(map(estimate_text, self.turns[turn]))

    def tokens(self, turns: slice) -> tuple[int, int]:
        """Return the input tokens of these turns, and those of them that an earlier request began with."""
        total = cached = 0
        for number, requests in list(enumerate(self.turns))[turns]:
            for at, request in enumerate(requests):
                earlier = [one for turn in self.turns[:number] for one in turn]
                before = [*earlier[-2:], *requests[:at]]
                total += estimate_text(request)
                cached += max((estimate_text(_common(request, one)) for one in before), default=0)
        return total, cached


class Partner(LessonModel):
    """The model: the turn's answers in order, a summary where one is wanted, and forms."""

    def next_reply(self, request: Recorded) -> Reply:
        names = _tools(request)
        if "Scene" in names:
            return Say(calls=[("call_form", "Scene", json.dumps(SCENES[0]))])
        return super().next_reply(request) if names else Say(SUMMARY)


async def play(conversation: ScriptedConversation, opened: Storage, partner: Partner) -> Sent:
    """Play a conversation and return the requests that the model got."""
    graph = conversation.graph.copy(update={"checkpointer": RedisSaver(opened.redis)})
    sent = Sent()
    for number, turn in enumerate(conversation.turns):
        partner.script(*turn.answers)
        first = len(partner.requests)
        turn_input = {
            "messages": [HumanMessage(turn.wish)],
            **(conversation.first_input if number == 0 else {}),
        }
        await graph.ainvoke(
            turn_input,
            {"configurable": {"thread_id": f"talk-{conversation.graph.name}"}},
            context={"provider": "openai"},
        )
        planned = [one.body for one in partner.requests[first:] if _is_planner(one)]
        assert partner.unused == 0, f"turn {number}: {partner.unused} answers were not asked for"
        sent.turns.append([_as_text(body) for body in planned])
        for body in planned:
            if body["messages"][0]["content"] not in sent.systems:
                sent.systems.append(body["messages"][0]["content"])
    return sent


def _tools(request: Recorded) -> set[str]:
    return {tool["function"]["name"] for tool in request.body.get("tools", ())}


def _is_planner(request: Recorded) -> bool:
    names = _tools(request)
    return bool(names) and not names & {"Scene", "FactSheet", "NarrationScript"}


def _as_text(body: Mapping[str, Any]) -> str:
    """Return tools and messages in the order in which vendors cache them."""
    return "\n".join(json.dumps(part, ensure_ascii=False) for part in [*body["tools"], *body["messages"]])


def _common(one: str, other: str) -> str:
    length = next((at for at, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), None)
    return one[: min(len(one), len(other)) if length is None else length]


def _call(name: str, number: int, **args: Any) -> tuple[str, str, str]:
    return (f"call_{number}_{name}", name, json.dumps(args))


_VOICES: Final = ("openai/alloy@english", "openai/onyx@english")
_OPENING: Final = "Hear that? That's your Saturday, rolling along the water."
_CLOSING: Final = (
    "Harbour Bikes, at the old pier. Call oh-two-oh, five five five, oh one nine nine. Code: HARBOUR24. Terms"
    " apply, new customers only."
)


def _tracks(last: str) -> list[dict[str, str]]:
    return [{"voiceId": voice, "text": text} for voice, text in zip(_VOICES, (_OPENING, last), strict=True)]


def _ad_turns() -> Iterator[ScriptedTurn]:
    search = [_call("search_voices", 0, language="english", count=6)]
    first = [
        _call("create_voice_draft", 1, tracks=_tracks(_CLOSING)),
        _call("create_music_draft", 2, prompt="Light acoustic guitar, 100 bpm, seaside mood, no vocals"),
        _call(
            "create_sfx_draft", 3, prompts=[{"description": "bicycle bell", "placement": {"type": "start"}}]
        ),
    ]
    closing = Say("Voices v1, music v1 and effects v1 are ready. Shall I try a calmer second voice?")
    yield ScriptedTurn(BRIEF, [Say("A calm Saturday.", search), Say("", first), closing])
    for number in range(1, TURNS):
        wish, calls = (
            ("Make the music a little calmer.", [_music(number)])
            if number % 3 == 1
            else (f"Let the last line end with idea number {number}.", [_voices(number)])
            if number % 3 == 2
            else ("What do you think of the pace?", [])
        )
        yield ScriptedTurn(
            wish, [*([Say("", calls)] if calls else []), Say(f"Done, and idea {number} is next.")]
        )


def _music(number: int) -> tuple[str, str, str]:
    prompt = f"Soft acoustic guitar, {100 - number} bpm, no vocals"
    return _call("create_music_draft", number * 10, prompt=prompt)


def _voices(number: int) -> tuple[str, str, str]:
    return _call("create_voice_draft", number * 10, tracks=_tracks(f"{_CLOSING} See you at pier {number}."))


def _page_turns() -> Iterator[ScriptedTurn]:
    for number in range(TURNS):
        content = {"content": f"Bicycles by the water, idea {number}"}
        calls = [_call("modify_element", number, elementId="heading-1", modifications=content)]
        wish = f"A page for this: {BRIEF}" if number == 0 else f"Try headline idea {number}."
        yield ScriptedTurn(wish, [Say("", calls), Say(f"The headline has idea {number} now.")])


def _video_turns() -> Iterator[ScriptedTurn]:
    scenes = [{"tool": "addScene", "scenes": [f"new-{n}"], "prompt": f"Scene {n}"} for n in (1, 2, 3)]
    yield ScriptedTurn(
        f"Three scenes for this: {BRIEF}",
        [Say("", [_call("submit_plan", 0, steps=scenes)]), Say("Three scenes are there.")],
    )
    for number in range(1, TURNS):
        step = {"tool": "trimScene", "scenes": ["scene-1"], "seconds": 2 + number / 10}
        yield ScriptedTurn(
            f"Make scene 1 {2 + number / 10:g} seconds long.",
            [Say("", [_call("submit_plan", number, steps=[step])]), Say("Scene 1 has its length.")],
        )


def _campaign_turns() -> Iterator[ScriptedTurn]:
    channels = ("email", "facebook", "instagram", "twitter", "direct_mail")
    for number in range(TURNS):
        channel = channels[number % len(channels)]
        search = _call("search", number * 2, by="filter", channel=[channel], group_by="sentiment")
        answer = _call("answer", number * 2 + 1, statements=[{"text": "These are the moods of the channel."}])
        wish = f"We plan this: {BRIEF} Who else is on {channel}?" if number == 0 else f"And on {channel}?"
        yield ScriptedTurn(wish, [Say("", [search]), Say("", [answer])])


def _lesson_turns() -> Iterator[ScriptedTurn]:
    text = material("growing_a_bean").text
    read = _call("extractFactsTool", 0, content=text)
    yield ScriptedTurn(f"A lesson for our riders. {BRIEF}\n\n{text}", [Say("", [read])])
    yield ScriptedTurn("1, 2 and 3", [])
    for number in range(2, TURNS):
        part = ("hook", "conclusion")[number % 2]
        args = {"segments": [part], "guidance": "in other words"}
        calls = [_call("generateNarrationTool", number, **args)]
        yield ScriptedTurn(f"Say the {part} in other words.", [Say("", calls), Say(f"The {part} is new.")])


TALKS: Final[Mapping[str, ScriptedConversation]] = {
    "ad_creation": ScriptedConversation(ad_creation.graph, {"ad_id": "harbour"}, [*_ad_turns()]),
    "fact_narration": ScriptedConversation(fact_narration.graph, {}, [*_lesson_turns()]),
    "page_builder": ScriptedConversation(page_builder.graph, {"page_id": "harbour"}, [*_page_turns()]),
    "scene_edit": ScriptedConversation(scene_edit.graph, {"project_id": "harbour"}, [*_video_turns()]),
    "campaign_search": ScriptedConversation(campaign_search.graph, {}, [*_campaign_turns()]),
}
"""A conversation with each workflow."""

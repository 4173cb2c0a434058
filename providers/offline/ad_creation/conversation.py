"""What a chat model is sent about an audio ad, read as turns; and what it may answer.

Pure functions of the messages: the offline model keeps nothing between two calls.
"""

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage

from providers.offline.exchange import Exchange, Step, results, step
from state.languages import find

DEFAULT_SPOT_S = 30.0
"""Seconds of a spot nobody gave a length (A51)."""
_AD_ID = re.compile(r'^Ad id: ("(?:[^"\\\n]|\\.)*")\s*$', re.MULTILINE)
_SPOT = re.compile(r"^Spot: (\d{1,4}(?:\.\d{1,3})?) ?s\s*$", re.MULTILINE)
_LANGUAGE_NOTE = re.compile(r"\n?\(Ad language now: ([^()\n]{1,60})\)[ \t]*(?=\n|\Z)")
_SPOT_NOTE = re.compile(r"\n?\(Spot now: (\d{1,4}(?:\.\d{1,3})?) ?s\)[ \t]*(?=\n|\Z)")
_OPENING = "Create an audio ad.\nClient: "
_LABELS = ("\nTarget Audience: ", "\nDuration: ", "\nMarket: ", "\nLanguage: ", "\nAdditional context: ")
_SUMMARY = "Previous conversation summary:"


@dataclass(frozen=True)
class Template:
    """The fields of the first user message of an ad (A52); an absent value is an empty string."""

    client: str
    audience: str
    seconds: float
    market: str
    language: str
    """As written, lower case: "thai"."""
    context: str


def template(text: str) -> Template | None:
    """Return the fields of `text` if it is the message of A52, else None. Values may span lines."""
    normal = text.replace("\r\n", "\n").lstrip()
    if not normal.startswith(_OPENING):
        return None
    values: list[str] = []
    rest = normal[len(_OPENING) :]
    for label in _LABELS:
        value, found, rest = rest.partition(label)
        if not found:
            return None
        values.append(_given(value))
    client, audience, seconds, market, language = values
    return Template(client, audience, _seconds(seconds), market, language.lower(), _given(rest))


def _given(value: str) -> str:
    stripped = value.strip()
    return "" if stripped == "None" else stripped


def _seconds(text: str) -> float:
    number = re.match(r"\d{1,4}(?:\.\d{1,3})?", text)
    return float(number.group()) if number and float(number.group()) > 0 else DEFAULT_SPOT_S


@dataclass(frozen=True)
class Turn:
    """What a person wrote and everything the model did about it so far."""

    index: int
    """Position among the turns that are visible, from 0."""
    text: str
    """The person's own words, without the server's notes."""
    brief: Template | None
    """The fields, when this turn is a (new) brief; None for a chat sentence."""
    language: str
    """The ad's language as of this turn, by its English name ("thai")."""
    spot_s: float
    """The spot's length as of this turn."""
    language_changed: bool = False
    """The request of this turn changed the ad's language (a server note)."""
    spot_changed: bool = False
    """The request of this turn changed the spot's length (a server note)."""
    steps: tuple[Step, ...] = ()

    @property
    def exchanges(self) -> tuple[Exchange, ...]:
        """Every tool call of the turn, oldest first."""
        return tuple(exchange for step in self.steps for exchange in step.exchanges)

    def results(self, tool: str) -> list[Exchange]:
        """Return the turn's answered calls of `tool`, oldest first, failed ones too."""
        return [one for one in self.exchanges if one.name == tool and one.result is not None]

    def versions(self) -> dict[str, str]:
        """Return the last version this turn made by draft tool name (`create_music_draft` → "v2")."""
        return {one.name: one.version for one in self.exchanges if one.version}


@dataclass(frozen=True)
class Conversation:
    """Everything visible about one ad; the last turn is the one to answer."""

    ad_id: str
    """Empty when the messages name none."""
    turns: tuple[Turn, ...]
    market: str = ""
    summary: str = ""
    """What a compaction wrote of the turns that are no longer visible, or empty."""
    tools: frozenset[str] = field(default_factory=frozenset)
    """Names of the tools that may be called now."""

    @property
    def turn(self) -> Turn:
        """The turn to answer now."""
        return self.turns[-1]

    @property
    def language(self) -> str:
        """The ad's language now."""
        return self.turn.language

    @property
    def spot_s(self) -> float:
        """The spot's seconds now."""
        return self.turn.spot_s

    @property
    def brief_text(self) -> str:
        """The newest visible brief message, for `brief.parse`; empty when compaction took it away."""
        return next((turn.text for turn in reversed(self.turns) if turn.brief), "")


def read(messages: Sequence[BaseMessage], tools: frozenset[str] = frozenset()) -> Conversation | None:
    """Return the conversation `messages` hold, or None when nobody has said anything yet."""
    system = [str(message.text) for message in messages if isinstance(message, SystemMessage)]
    head = "\n".join(text for text in system if not text.startswith(_SUMMARY))
    spot = _SPOT.search(head)
    turns = _turns(messages, float(spot.group(1)) if spot else DEFAULT_SPOT_S)
    if not turns:
        return None
    ad_id = _AD_ID.search(head)
    market = next((turn.brief.market for turn in reversed(turns) if turn.brief), "")
    summary = next((text for text in reversed(system) if text.startswith(_SUMMARY)), "")
    return Conversation(json.loads(ad_id.group(1)) if ad_id else "", turns, market, summary, tools)


def _turns(messages: Sequence[BaseMessage], spot_s: float) -> tuple[Turn, ...]:
    answered = results(messages)
    turns: list[Turn] = []
    for message in messages:
        if isinstance(message, HumanMessage):
            turns.append(_turn(str(message.text), turns[-1] if turns else None, spot_s))
        elif isinstance(message, AIMessage) and turns:
            turns[-1] = replace(turns[-1], steps=(*turns[-1].steps, step(message, answered)))
    return tuple(turns)


def _turn(text: str, previous: Turn | None, spot_s: float) -> Turn:
    index = previous.index + 1 if previous else 0
    brief = template(text)
    if brief:
        return Turn(index, text, brief, _language(brief.language), brief.seconds)
    language, spot = _LANGUAGE_NOTE.search(text), _SPOT_NOTE.search(text)
    words = _SPOT_NOTE.sub("", _LANGUAGE_NOTE.sub("", text))
    return Turn(
        index,
        words.strip(),
        None,
        _language(language.group(1)) if language else (previous.language if previous else "english"),
        float(spot.group(1)) if spot else (previous.spot_s if previous else spot_s),
        language_changed=language is not None,
        spot_changed=spot is not None,
    )


def _language(text: str) -> str:
    known = find(text)
    return known.name if known else (text.strip().lower() or "english")

"""Failures of one answer to a sentence of `tests/sentences/page_builder.jsonl`: pure functions of two pages.

A line of the file has `id`, `group`, `lang`, `page` (a name in `page_builder_pages.json`), `say`, `expect`,
and sometimes `selected` (id), `locked` (ids), `said` (sentences before) and `answer` ("reject": the person
says no when asked for leave).

What `expect` may say; ids are those of the page before the sentence.
  touches [ids]              exactly these have another text, style or attribute of their own
  touches_among, touches_any [ids], [[ids], ...]    none but these; exactly one of these lists
  unchanged, empty true      the page is as it was, to the byte; nothing is on it
  style {id: {property: value or [values]}}     colours are compared by what is seen; a plain word by its hue
  larger, darker {id: property}                 by figure, by light, compared with before
  text, attribute            {id: text}, {id: {name: value}}
  added [{type, parent, before, after, first, text, alt, has, quotes, inputs_min}]   one new element each
  removed [ids]              exactly these are gone, with all inside; nothing is added or moved unasked
  order [ids], parent {id: id}                  places in the order of reading; what something lies in
  theme dark | light | serif | #rrggbb          of the whole page
  equals n                   the page is what it was before sentence n of `said`, counted from 0
  asks_leave true            a person was asked, and otherwise nobody
  reply_all, reply_any [words]; admits, asks_or_admits true      of the last word
"""

import colorsys
import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from state.colours import NAMES, rgb
from state.page import Element, Page, walk
from state.themes import THEMES
from tests.sentence_turn import FOLDER, MARKERS, found

PAGES: Mapping[str, Any] = json.loads((FOLDER / "page_builder_pages.json").read_text("utf-8"))


@dataclass(frozen=True)
class Case:
    """One sentence and what must happen."""

    id: str
    group: str
    lang: str
    page: str
    say: str
    expect: Mapping[str, Any]
    said: Sequence[str] = ()
    selected: str = ""
    locked: Sequence[str] = ()
    answer: str = "approve"


@dataclass(frozen=True)
class Turn:
    """What a check looks at."""

    case: Case
    history: Sequence[Page]
    """The page before each sentence of `said`, and before `say`."""
    after: Page
    reply: str
    asked: bool
    """Whether a person was asked for leave."""
    expect: Mapping[str, Any] = field(default_factory=dict)

    @property
    def before(self) -> Page:
        """The page when the sentence came."""
        return self.history[-1]

    def now(self, name: str) -> Element:
        """An element as it is now; LookupError if it is gone."""
        one = self.after.find(name)
        if one is None:
            raise LookupError(name)
        return one


Check = Callable[[Turn, Any], str]


def load(path: Path = FOLDER / "page_builder.jsonl") -> list[Case]:
    """Return the cases; ValueError for a doubled id, an unknown expectation, page or language."""
    cases = [Case(**json.loads(line)) for line in path.read_text("utf-8").splitlines()]
    ids = [case.id for case in cases]
    unknown = {key for case in cases for one in _expects(case.expect) for key in one} - {*CHECKS, "any_of"}
    strange = {case.page for case in cases} - {*PAGES} | {case.lang for case in cases} - {*MARKERS["admits"]}
    if len(set(ids)) < len(ids) or unknown or strange:
        raise ValueError(f"doubled ids, or expectations {unknown!r}, or {strange!r} in {path}")
    return cases


def _expects(expect: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    return [expect, *expect.get("any_of", ())]


def page_of(name: str) -> Page:
    """One of the pages of the sentences."""
    theme = THEMES[PAGES["themes"].get(name, "light")]
    return Page(root=Element.model_validate(PAGES[name]), theme=theme)


def score(turn: Turn) -> list[str]:
    """Return what was expected and did not happen, one line each; an empty reply is a failure."""
    expect = turn.case.expect
    wanted = {"asks_leave": False, **({} if _free(expect) else _DEFAULTS), **expect}
    failures = [
        f"{key} {json.dumps(want, ensure_ascii=False)}: {seen}"
        for key, want in wanted.items()
        if (seen := _seen(key, turn, want))
    ]
    return failures if turn.reply.strip() else ["the reply is empty", *failures]


_DEFAULTS: Mapping[str, Any] = {"removed": [], "added": [], "order": [], "parent": {}}
"""What nobody asked for must not happen."""


def _free(expect: Mapping[str, Any]) -> bool:
    return bool({"unchanged", "empty", "equals"} & expect.keys())


def _seen(key: str, turn: Turn, want: Any) -> str:
    try:
        return _any_of(turn, want) if key == "any_of" else CHECKS[key](turn, want)
    except LookupError as gone:
        return f"there is no {gone}"


def _any_of(turn: Turn, want: Any) -> str:
    every = [[seen for key, one in inner.items() if (seen := _seen(key, turn, one))] for inner in want]
    return " | ".join("; ".join(one) for one in every) if all(every) else ""


def own(element: Element) -> tuple[Any, ...]:
    """What an element has of its own."""
    return element.type, element.label, element.content, dict(element.style), dict(element.attributes)


def _touched(turn: Turn) -> set[str]:
    pairs = [(one, turn.after.find(one.id)) for one, _ in walk(turn.before.root)]
    return {one.id for one, new in pairs if new and own(one) != own(new)}


def _touches(turn: Turn, want: Any) -> str:
    return "" if _touched(turn) == set(want) else f"touched {sorted(_touched(turn))}"


def _touches_among(turn: Turn, want: Any) -> str:
    return "" if _touched(turn) <= set(want) else f"touched {sorted(_touched(turn))}"


def _touches_any(turn: Turn, want: Any) -> str:
    return "" if _touched(turn) in [set(one) for one in want] else f"touched {sorted(_touched(turn))}"


def _unchanged(turn: Turn, want: Any) -> str:
    return "" if (turn.after == turn.before) is want else "the page is another"


def _empty(turn: Turn, want: Any) -> str:
    return "" if (not turn.after.root.children) is want else "something is on it"


def same_colour(value: str, want: str) -> bool:
    """Whether a colour is the one wanted: exactly for figures, by hue and light for a word."""
    seen, meant = rgb(value), rgb(want)
    if seen is None or meant is None or want.startswith("#"):
        return seen == meant is not None
    (hue, light, full), (wanted_hue, wanted_light, wanted_full) = (
        colorsys.rgb_to_hls(*(part / 255 for part in one)) for one in (seen, meant)
    )
    if wanted_full < 0.15:
        return full < 0.2 and abs(light - wanted_light) < 0.2
    apart = min(abs(hue - wanted_hue), 1 - abs(hue - wanted_hue))
    return apart < 0.06 and full > 0.2 and abs(light - wanted_light) < 0.35


def _style(turn: Turn, want: Any) -> str:
    wrong = []
    for name, styles in want.items():
        for prop, values in styles.items():
            value = turn.now(name).style.get(prop, "")
            options = values if isinstance(values, list) else [values]
            alike = any(value == one or (_is_colour(one) and same_colour(value, one)) for one in options)
            wrong += [] if alike else [f"{name} {prop} is {value!r}"]
    return ", ".join(wrong)


def _is_colour(text: str) -> bool:
    return text in NAMES or text.startswith("#")


def figure(text: str) -> float:
    """The first number of a style."""
    match = re.search(r"-?\d+(?:\.\d+)?", text)
    return float(match.group()) if match else 0.0


def _larger(turn: Turn, want: Any) -> str:
    pairs = {
        name: (turn.before.get(name).style.get(prop, ""), turn.now(name).style.get(prop, ""))
        for name, prop in want.items()
    }
    return ", ".join(
        f"{name}: {old!r} → {new!r}" for name, (old, new) in pairs.items() if figure(new) <= figure(old)
    )


def light(colour: str) -> float:
    """How light a colour is, 0 to 1."""
    return sum(rgb(colour) or (0, 0, 0)) / 765


def _darker(turn: Turn, want: Any) -> str:
    pairs = {
        name: (turn.before.get(name).style[prop], turn.now(name).style[prop]) for name, prop in want.items()
    }
    return ", ".join(
        f"{name}: {old} → {new}" for name, (old, new) in pairs.items() if light(new) >= light(old)
    )


def _text(turn: Turn, want: Any) -> str:
    return ", ".join(
        f"{name} says {turn.now(name).content!r}"
        for name, text in want.items()
        if turn.now(name).content != text
    )


def _attribute(turn: Turn, want: Any) -> str:
    has = {name: turn.now(name).attributes for name in want}
    return ", ".join(
        f"{name} has {has[name]}" for name, one in want.items() if one.items() - has[name].items()
    )


def _new(turn: Turn) -> list[Element]:
    """The outermost of what is new, in the order of reading."""
    known = {one.id for one, _ in walk(turn.before.root)}
    parents = turn.after.parents()
    return [one for one, _ in walk(turn.after.root) if one.id not in known and parents.get(one.id) in known]


def _added(turn: Turn, want: Any) -> str:
    new = _new(turn)
    if len(new) != len(want):
        return f"new are {[one.id for one in new]}"
    return "; ".join(
        wrong for one, asked in zip(new, want, strict=True) if (wrong := _made(turn, one, asked))
    )


def _made(turn: Turn, one: Element, asked: Mapping[str, Any]) -> str:
    siblings = [each.id for each in turn.after.get(turn.after.parents()[one.id]).children]
    at = siblings.index(one.id)
    inside = [each for each, _ in walk(one)]
    said = " ".join(each.content for each in inside).casefold()
    has = {each.type for each in inside}
    facts = {
        "type": one.type,
        "parent": turn.after.parents()[one.id],
        "before": siblings[at + 1] if at + 1 < len(siblings) else "",
        "after": siblings[at - 1] if at else "",
        "first": at == 0,
        "quotes": sum(each.type == "quote" for each in inside),
    }
    wrong = [f"{key} is {facts[key]!r}" for key in facts if key in asked and facts[key] != asked[key]]
    wrong += [f"no {word!r} in {said!r}" for word in asked.get("text", ()) if word.casefold() not in said]
    wrong += [f"no {kind}" for kind in asked.get("has", ()) if kind not in has]
    inputs = sum(each.type in {"input", "textarea"} for each in inside)
    wrong += [f"{inputs} inputs"] if inputs < asked.get("inputs_min", 0) else []
    alt = one.attributes.get("alt", "").casefold()
    return ", ".join(wrong + [f"alt {alt!r}" for word in asked.get("alt", ()) if word not in alt])


def _removed(turn: Turn, want: Any) -> str:
    expected = {one.id for name in want for one, _ in walk(turn.before.get(name))}
    gone = {one.id for one, _ in walk(turn.before.root)} - {one.id for one, _ in walk(turn.after.root)}
    return "" if gone == expected else f"gone are {sorted(gone)}"


def _order(turn: Turn, want: Any) -> str:
    places = [one.id for one, _ in walk(turn.after.root)]
    order = sorted(want, key=places.index)
    rest = _unmoved(turn, {*want}) if not want else ""
    return rest or ("" if order == list(want) else f"in order {order}")


def _unmoved(turn: Turn, but: set[str]) -> str:
    """Empty where the elements that were there are in the order they were in."""
    if turn.expect.get("parent") or turn.case.expect.get("parent"):
        return ""
    there = {one.id for one, _ in walk(turn.after.root)} - but
    old = [one.id for one, _ in walk(turn.before.root) if one.id in there]
    now = [one.id for one, _ in walk(turn.after.root) if one.id in set(old)]
    return "" if old == now else "something was moved"


def _parent(turn: Turn, want: Any) -> str:
    parents = turn.after.parents()
    return ", ".join(
        f"{name} is in {parents.get(name)}" for name, inside in want.items() if parents.get(name) != inside
    )


def _theme(turn: Turn, want: Any) -> str:
    theme = turn.after.theme
    is_light = light(theme["background"])
    holds = {
        "dark": is_light < 0.25 and light(theme["text"]) > 0.6,
        "light": is_light > 0.8 and light(theme["text"]) < 0.4 and turn.after != turn.before,
        "serif": "serif" in theme["font"].split("sans-serif")[0],
    }
    return "" if holds.get(want, want in theme.values()) else str(dict(theme))


def _equals(turn: Turn, want: Any) -> str:
    return "" if turn.after.root == turn.history[want].root else "the page is another"


def _asks_leave(turn: Turn, want: Any) -> str:
    return "" if turn.asked is want else f"asked is {turn.asked}"


def _reply_all(turn: Turn, want: Any) -> str:
    absent = [word for word in want if not _heard(turn.reply, word)]
    return f"no {absent} in {turn.reply!r}" if absent else ""


def _reply_any(turn: Turn, want: Any) -> str:
    return "" if any(_heard(turn.reply, word) for word in want) else repr(turn.reply)


def _heard(reply: str, word: str) -> bool:
    return bool(found(reply, word)) or (word.startswith("#") and word in reply)


def _admits(turn: Turn, want: Any) -> str:
    words = [*MARKERS["admits"]["english"], *MARKERS["admits"][turn.case.lang]]
    return "" if any(found(turn.reply, one) for one in words) is want else repr(turn.reply)


def _asks_or_admits(turn: Turn, want: Any) -> str:
    return "" if "?" in turn.reply else _admits(turn, want)


CHECKS: Mapping[str, Check] = {
    "touches": _touches,
    "touches_among": _touches_among,
    "touches_any": _touches_any,
    "unchanged": _unchanged,
    "empty": _empty,
    "style": _style,
    "larger": _larger,
    "darker": _darker,
    "text": _text,
    "attribute": _attribute,
    "added": _added,
    "removed": _removed,
    "order": _order,
    "parent": _parent,
    "theme": _theme,
    "equals": _equals,
    "asks_leave": _asks_leave,
    "reply_all": _reply_all,
    "reply_any": _reply_any,
    "admits": _admits,
    "asks_or_admits": _asks_or_admits,
}

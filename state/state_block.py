"""The state block: an artefact as it is now, in a few lines behind the model's last message.

Workflows describe it as lines, each with a part that may be shortened. Only the copy that is sent has it.
"""

import re
from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from langchain_core.messages import AnyMessage, HumanMessage, ToolMessage

from callsheet.state.tokens import common_limit, estimate_text, fitting_length

STATE_START: Final = "<state>\n"
STATE_END: Final = "\n</state>"
_BEFORE: Final = "\n\n"
AIM: Final = 400
"""Tokens of ordinary work; beyond them texts that are not needed are shortened."""
MOST: Final = 800
"""Tokens of a large artefact; beyond them needed texts are shortened too, and lines are left out."""
NEEDED: Final = 100
"""Least `need` of a text that is shortened only beyond `MOST`."""
_SHORT: Final = 8
"""Tokens that are left of a text beyond `AIM`."""
_SHORTEST: Final = 4
"""Tokens that are left of it beyond `MOST`."""
_NOTE_TOKENS: Final = 20
"""Tokens of the line about others that are left out."""
_MARK: Final = re.compile(r"<(?=\s*/?\s*state\b)", re.IGNORECASE)
_SPACE: Final = re.compile(r"\s++")


class StateLine(NamedTuple):
    """A line of a state block."""

    head: str
    """Beginning, which is never shortened."""
    text: str = ""
    """Part that may be shortened."""
    tail: str = ""
    need: int = 0
    """Lines with the smallest need are shortened and left out first, and from the end."""
    more: str = ""
    """Name of such lines in the note about those left out; empty if the line is never left out."""
    mark: str = "…"
    """End of a shortened text."""

    def __str__(self) -> str:
        """Return the line as it is shown."""
        return _SPACE.sub(_in_line, f"{self.head}{self.text}{self.tail}")

    def limit(self, tokens: int) -> "StateLine":
        """Return the line with at most `tokens` tokens of text."""
        if estimate_text(self.text) <= tokens:
            return self
        length = fitting_length(self.text, max(1, tokens - estimate_text(self.mark)))
        return self._replace(text=f"{self.text[:length]}{self.mark}")


def _in_line(space: re.Match[str]) -> str:
    """Return spaces as they are, and a space for a line break with the spaces around it."""
    return " " if len(space[0].splitlines()) > 1 or space[0].splitlines()[0] != space[0] else space[0]


def fit(lines: Iterable[StateLine]) -> str:
    """Return the lines as a text of about `AIM` tokens, or of `MOST` where they need more."""
    shown = list(lines)
    needs = sorted({line.need for line in shown})
    for need in needs:
        shown = _shorten(shown, need, AIM, _SHORT) if need < NEEDED else shown
    for need in needs:
        shown = _shorten(shown, need, MOST, _SHORTEST)
    return "\n".join(_leave_out(shown))


def _shorten(lines: Sequence[StateLine], need: int, limit: int, least: int) -> list[StateLine]:
    """Return the lines with shorter texts in those of this need, as far as that serves the limit."""
    over = sum(_tokens(line) for line in lines) - limit
    if over <= 0:
        return list(lines)
    sizes = [estimate_text(line.text) for line in lines if line.need == need and line.text]
    # A line's parts have up to a token more than the line.
    most = common_limit(sizes, sum(sizes) - over - len(sizes), least)
    return [line.limit(most) if line.need == need else line for line in lines]


def _leave_out(lines: Sequence[StateLine]) -> list[str]:
    """Return the shown lines, with a note in place of those that do not fit."""
    total = sum(_tokens(line) for line in lines)
    groups = {line.more for line in lines if line.more}
    limit = MOST if total <= MOST else MOST - _NOTE_TOKENS * len(groups)
    left_out: dict[int, str] = {}
    spare = [at for at, line in enumerate(lines) if line.more]
    for at in sorted(spare, key=lambda at: (lines[at].need, -at)):
        if total <= limit:
            break
        left_out[at] = lines[at].more
        total -= _tokens(lines[at])
    counts = [*left_out.values()]
    notes = {max(at for at, one in left_out.items() if one == more): more for more in set(counts)}
    return [
        f"… {counts.count(notes[at])} more {notes[at]}" if at in notes else str(line)
        for at, line in enumerate(lines)
        if at in notes or at not in left_out
    ]


def _tokens(line: StateLine) -> int:
    return estimate_text(str(line)) + 1


def with_state_block(sent: Sequence[AnyMessage], block: str) -> list[AnyMessage]:
    """Return the input with `block` behind the last message, a person's or a tool's, or as a message itself.

    All before is the same as without it, and stays cached in the next round.
    """
    if not block:
        return list(sent)
    # No text of the artefact may end the block and go on as if the person spoke.
    safe = _MARK.sub("‹", block)
    last = sent[-1]
    if isinstance(last, HumanMessage) and not isinstance(last.content, str):
        parts = [*last.content, {"type": "text", "text": block_behind("", safe)}]
        return [*sent[:-1], last.model_copy(update={"content": parts})]
    if isinstance(last, HumanMessage | ToolMessage):
        return [*sent[:-1], last.model_copy(update={"content": block_behind(last.text, safe)})]
    return [*sent, HumanMessage(block_behind("", safe))]


def block_behind(text: str, block: str) -> str:
    """Return a message's own text with the state block, if there is one."""
    marked = f"{STATE_START}{block}{STATE_END}" if block else ""
    return _BEFORE.join(part for part in (text, marked) if part)


def split_block(text: str) -> tuple[str, str]:
    """Return a message's own text, and the state block behind it."""
    own, mark, block = text.rpartition(STATE_START)
    if not mark or not block.endswith(STATE_END):
        return text, ""
    return own.removesuffix(_BEFORE), block.removesuffix(STATE_END)


class EchoCutter:
    """Cuts `<state>…</state>`, which a model repeats, out of a text that arrives in pieces."""

    def __init__(self) -> None:
        self._held = ""
        self._state = "text"

    def push(self, piece: str) -> str:
        """Return the text that is certain after `piece`."""
        self._held += piece
        shown = ""
        while True:
            if self._state == "gap":
                self._held = self._held.lstrip()
                self._state = "text" if self._held else "gap"
            inside = self._state == "block"
            mark = STATE_END.lstrip() if inside else STATE_START
            before, ends, after = self._held.partition(mark)
            certain = len(before) if ends else len(before) - partial_end(before, mark)
            shown += "" if inside else before[:certain]
            self._held = after if ends else before[certain:]
            if not ends:
                return shown
            self._state = "gap" if inside else "block"

    def flush(self) -> str:
        """Return what was held back, at the end of the text."""
        held, self._held = self._held, ""
        return "" if self._state == "block" else held


def partial_end(text: str, mark: str) -> int:
    """Return how many characters at the end of `text` may be the beginning of `mark`."""
    return next((size for size in range(len(mark) - 1, 0, -1) if text.endswith(mark[:size])), 0)

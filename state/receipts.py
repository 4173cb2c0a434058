"""Receipts: what a turn did, in one line that code writes from versions and errors, never a model.

The line is in the person's language where the table has it, else in English. Names of parts and the reasons
of errors are those of the tools.
"""

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from langchain_core.messages import AIMessage, AnyMessage, HumanMessage
from typing_extensions import TypedDict

from callsheet.state.languages import detect

RECEIPT: Final = "receipt"
"""Key of the receipt in a message's `additional_kwargs`, and type of its event."""
MAX_NAMED: Final = 8
"""Changes that the line names."""
MAX_REASONS: Final = 3
"""Errors that the line names."""
MAX_REASON: Final = 240
"""Characters of an error in the line."""


class ReceiptChange(TypedDict):
    """A version that the turn made."""

    name: str
    """Its part in a person's words: the text of an element, a scene, or the stream."""
    stream: str
    versionId: str


class Receipt(TypedDict):
    """The effects of a turn."""

    text: str
    """One line for people."""
    changed: list[ReceiptChange]
    """The last version of each part, in order."""
    unchanged: int
    """Steps that were carried out and changed nothing."""
    problems: list[str]
    """Errors that no later call made good."""
    notes: list[str]
    """Further remarks on what was made."""


class _Words(NamedTuple):
    changed: str
    nothing: str
    failed: str
    unchanged: str
    others: str


_WORDS: Final = {
    "english": _Words("Changed", "Nothing was changed", "Not done", "{} unchanged", "{} more"),
    "spanish": _Words("Cambiado", "No se ha cambiado nada", "No realizado", "{} sin cambios", "{} más"),
    "german": _Words(
        "Geändert", "Es wurde nichts geändert", "Nicht ausgeführt", "{} unverändert", "{} weitere"
    ),
    "french": _Words("Modifié", "Rien n’a été modifié", "Non effectué", "{} sans changement", "{} de plus"),
    "portuguese": _Words("Alterado", "Nada foi alterado", "Não realizado", "{} sem alterações", "mais {}"),
    "polish": _Words("Zmieniono", "Nic nie zmieniono", "Nie wykonano", "bez zmian: {}", "i jeszcze {}"),
    "indonesian": _Words("Diubah", "Tidak ada yang diubah", "Tidak dilakukan", "{} tidak berubah", "{} lagi"),
    "thai": _Words("เปลี่ยนแล้ว", "ไม่มีการเปลี่ยนแปลง", "ไม่ได้ดำเนินการ", "ไม่เปลี่ยน {} รายการ", "อีก {} รายการ"),
    "chinese": _Words("已更改", "没有任何更改", "未完成", "{} 项未变", "另有 {} 项"),
}


def person_language(messages: Sequence[AnyMessage]) -> str:
    """Return the language in which the person wrote last, as far as the table has it; else English."""
    for message in reversed(messages):
        if isinstance(message, HumanMessage) and (language := detect(message.text)):
            return language if language in _WORDS else "english"
    return "english"


def receipt(
    changed: Sequence[ReceiptChange],
    problems: Sequence[str],
    notes: Sequence[str],
    language: str,
    *,
    unchanged: int = 0,
) -> Receipt:
    """Return the receipt of a turn; of several versions of one part, it names the last."""
    last = {(one["stream"], one["name"]): one for one in changed}
    kept, reasons = [*last.values()], [*dict.fromkeys(problems)]
    words = _WORDS[language]
    shown = [_reason(one) for one in reasons[:MAX_REASONS]]
    if kept:
        listed = " · ".join(f"{one['name']} {one['versionId']}" for one in kept[:MAX_NAMED])
        more = [words.others.format(len(kept) - MAX_NAMED)] if len(kept) > MAX_NAMED else []
        idle = [words.unchanged.format(unchanged)] if unchanged else []
        parts = [f"{words.changed}: {' · '.join([listed, *more, *idle])}"]
        parts += [f"{words.failed}: {'; '.join(shown)}"] if shown else []
    else:
        parts = [f"{words.nothing}: {'; '.join(shown)}" if shown else words.nothing]
    text = ". ".join([*parts, *(one.rstrip(".") for one in notes)])
    return Receipt(text=f"{text}.", changed=kept, unchanged=unchanged, problems=reasons, notes=[*notes])


def _reason(text: str) -> str:
    line = " ".join(text.split()).rstrip(".")
    return line if len(line) <= MAX_REASON else f"{line[:MAX_REASON]}…"


def with_receipt(message: AIMessage, one: Receipt, *, shown: bool) -> AIMessage:
    """Return a turn's last message with the receipt beside the model's words, which stay as they are.

    A `shown` one is also a content part of its own behind the words, for front ends that show messages alone.
    """
    kept = {**message.additional_kwargs, RECEIPT: one}
    if not shown or one["text"] in message.text:
        return message.model_copy(update={"additional_kwargs": kept})
    own: Any = message.content
    parts = [{"type": "text", "text": own}] if isinstance(own, str) else own
    line = {"type": "text", "text": f"\n\n{one['text']}"}
    return message.model_copy(update={"additional_kwargs": kept, "content": [*parts, line]})


def without_receipt(message: AnyMessage) -> AnyMessage:
    """Return a message as the model wrote it: models are not to learn to write receipts."""
    if not isinstance(message, AIMessage) or RECEIPT not in message.additional_kwargs:
        return message
    kept = {name: value for name, value in message.additional_kwargs.items() if name != RECEIPT}
    line = f"\n\n{message.additional_kwargs[RECEIPT]['text']}"
    content: Any = message.content
    if isinstance(content, list) and isinstance(content[-1], dict) and content[-1].get("text") == line:
        content = content[:-1]
        if len(content) == 1 and content[0] == {"type": "text", "text": content[0].get("text")}:
            content = content[0]["text"]
    return message.model_copy(update={"content": content, "additional_kwargs": kept})

"""Receipts: what a turn did, in one line that code writes from versions and errors, never a model.

The line is in the person's language where the table has it, else in English. Names of parts and the reasons
of errors are those of the tools.
"""

from collections.abc import Iterator, Sequence
from typing import Any, Final, NamedTuple, NotRequired

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
    """The last version of each part, in order, and the variations beside it."""
    unchanged: int
    """Steps that were carried out and changed nothing."""
    problems: list[str]
    """Errors that no later call made good."""
    done: NotRequired[list[str]]
    """Completed calls with an effect outside our storage."""
    unknown: NotRequired[list[str]]
    """Errors of calls that may have had their effect."""
    notes: list[str]
    """Further remarks on what was made."""


class _Words(NamedTuple):
    done: str
    unknown: str
    changed: str
    nothing: str
    failed: str
    unchanged: str
    others: str


_WORDS: Final = {
    "english": _Words(
        "Done", "Outcome unknown", "Changed", "Nothing was changed", "Not done", "{} unchanged", "{} more"
    ),
    "spanish": _Words(
        "Hecho",
        "Resultado desconocido",
        "Cambiado",
        "No se ha cambiado nada",
        "No realizado",
        "{} sin cambios",
        "{} más",
    ),
    "german": _Words(
        "Ausgeführt",
        "Ergebnis unbekannt",
        "Geändert",
        "Es wurde nichts geändert",
        "Nicht ausgeführt",
        "{} unverändert",
        "{} weitere",
    ),
    "french": _Words(
        "Effectué",
        "Résultat inconnu",
        "Modifié",
        "Rien n’a été modifié",
        "Non effectué",
        "{} sans changement",
        "{} de plus",
    ),
    "portuguese": _Words(
        "Realizado",
        "Resultado desconhecido",
        "Alterado",
        "Nada foi alterado",
        "Não realizado",
        "{} sem alterações",
        "mais {}",
    ),
    "polish": _Words(
        "Wykonano",
        "Wynik nieznany",
        "Zmieniono",
        "Nic nie zmieniono",
        "Nie wykonano",
        "bez zmian: {}",
        "i jeszcze {}",
    ),
    "indonesian": _Words(
        "Dilakukan",
        "Hasil tidak diketahui",
        "Diubah",
        "Tidak ada yang diubah",
        "Tidak dilakukan",
        "{} tidak berubah",
        "{} lagi",
    ),
    "thai": _Words(
        "ดำเนินการแล้ว",
        "ไม่ทราบผล",
        "เปลี่ยนแล้ว",
        "ไม่มีการเปลี่ยนแปลง",
        "ไม่ได้ดำเนินการ",
        "ไม่เปลี่ยน {} รายการ",
        "อีก {} รายการ",
    ),
    "chinese": _Words("已执行", "结果未知", "已更改", "没有任何更改", "未完成", "{} 项未变", "另有 {} 项"),
}


def person_language(messages: Sequence[AnyMessage]) -> str:
    """Return the language in which the person wrote last, as far as the table has it; else English."""
    for message in reversed(messages):
        if isinstance(message, HumanMessage) and (language := detect(message.text)):
            return language if language in _WORDS else "english"
    return "english"


class Effects(NamedTuple):
    """The effects of a turn beside its versions."""

    problems: Sequence[str] = ()
    """Errors that no later call made good."""
    done: Sequence[str] = ()
    """Completed calls with an effect outside our storage."""
    unknown: Sequence[str] = ()
    """Errors of calls that may have had their effect."""
    unchanged: int = 0
    """Steps that were carried out and changed nothing."""


def receipt(
    changed: Sequence[ReceiptChange],
    effects: Effects,
    notes: Sequence[str],
    language: str,
    *,
    rounds: Sequence[object] = (),
) -> Receipt:
    """Return the receipt of a turn; of several versions of one part, it names the last.

    `rounds` has the round of each change, for a workflow whose versions of one round are variations, which
    are all named.
    """
    parts: dict[tuple[str, str], list[int]] = {}
    for at, each in enumerate(changed):
        earlier = parts.get((each["stream"], each["name"]), [])
        same_round = [one for one in earlier if rounds and rounds[one] == rounds[at]]
        parts[each["stream"], each["name"]] = [*same_round, at]
    one = Receipt(
        text="",
        changed=[changed[at] for each in parts.values() for at in each],
        unchanged=effects.unchanged,
        problems=[*dict.fromkeys(effects.problems)],
        done=[*dict.fromkeys(effects.done)],
        unknown=[*dict.fromkeys(effects.unknown)],
        notes=[*notes],
    )
    sentences = [*_effect_parts(one, _WORDS[language]), *(note.rstrip(".") for note in notes)]
    return {**one, "text": f"{'. '.join(sentences)}."}


def _effect_parts(one: Receipt, words: _Words) -> Iterator[str]:
    """Yield the parts of the line: what was changed, done, perhaps done, and not done."""
    kept, done, unknown = one["changed"], one.get("done", []), one.get("unknown", [])
    if kept:
        listed = [f"{each['name']} {each['versionId']}" for each in kept[:MAX_NAMED]]
        more = [words.others.format(len(kept) - MAX_NAMED)] if len(kept) > MAX_NAMED else []
        idle = [words.unchanged.format(one["unchanged"])] if one["unchanged"] else []
        yield f"{words.changed}: {' · '.join([*listed, *more, *idle])}"
    if done:
        yield f"{words.done}: {' · '.join(done[:MAX_NAMED])}"
    if unknown:
        yield f"{words.unknown}: {_reasons(unknown)}"
    if one["problems"]:
        failed = words.failed if kept or done or unknown else words.nothing
        yield f"{failed}: {_reasons(one['problems'])}"
    elif not (kept or done or unknown):
        yield words.nothing


def has_effect(one: Receipt) -> bool:
    """Return True if the turn changed or did anything, or may have."""
    return bool(one["changed"] or one.get("done") or one.get("unknown"))


def _reasons(texts: Sequence[str]) -> str:
    return "; ".join(_reason(one) for one in texts[:MAX_REASONS])


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

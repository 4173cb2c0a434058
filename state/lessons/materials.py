"""Materials of a lesson by reference: a model is shown a long text's beginning and its id."""

import re
from collections.abc import Mapping
from typing import Final

from langchain_core.messages import AnyMessage, HumanMessage

LONG_MESSAGE: Final = 4_000
"""Characters beyond which a message is stored as a material."""
STORED: Final = re.compile(
    r"\n\[… \d+ characters in all\. The whole message is stored as (source-\d+): name it in source_ids, "
    r"and do not copy it\. It ends with:\]\n"
)
"""The note in a message that is shown by reference; its group is the id."""
_BEGINNING: Final = 1_200
_END: Final = 400


def material_id(version: str) -> str:
    """Return the id by which a model names the material of a version: v2 is source-2."""
    return f"source-{version.removeprefix('v')}"


def by_reference(message: AnyMessage, known: Mapping[str, str]) -> AnyMessage:
    """Return a message as a model is shown it: of a stored one the beginning, the end and the id."""
    if not isinstance(message, HumanMessage) or str(message.id) not in known:
        return message
    text, name = message.text, known[str(message.id)]
    note = (
        f"[… {len(text)} characters in all. The whole message is stored as {name}: name it in source_ids, "
        "and do not copy it. It ends with:]"
    )
    shown = f"{text[:_BEGINNING]}\n{note}\n{text[-_END:]}"
    return message.model_copy(update={"content": shown})

"""What a lesson is made from: pasted text, a PDF or a web page, as text in its limits (B4, B5, B-R17)."""

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal

from callsheet.state.errors import Invalid, TooLarge
from callsheet.state.versions import Version
from callsheet.tools.lessons.reflow import reflow

Kind = Literal["text", "pdf", "page"]
MAX_CHARS: Final = 1_500_000
"""Characters of text that a lesson is made from: a book of 500 pages."""
MIN_CHARS: Final = 20
_MOST_RAW: Final = 4
"""How many times as long a text may be before its blanks are taken out; what is longer is not looked at."""
_ADDRESS: Final = re.compile(r"https?://\S+", re.IGNORECASE)
_DIGEST_BYTES: Final = 16


@dataclass(frozen=True)
class Source:
    """One material as text."""

    kind: Kind
    name: str
    """What people call it: a file's name, an address, "the text"."""
    text: str
    """Paragraphs with a blank line between them."""
    url: str = ""
    pages: int = 0
    """Of a PDF."""
    warnings: tuple[str, ...] = ()

    @property
    def digest(self) -> str:
        """What is the same for the same words."""
        return hashlib.blake2b(self.text.encode(), digest_size=_DIGEST_BYTES).hexdigest()

    def data(self) -> dict[str, Any]:
        """Return what a version of the `source` stream holds."""
        known = {"kind": self.kind, "name": self.name, "digest": self.digest, "text": self.text}
        more = {"url": self.url, "pages": self.pages, "warnings": list(self.warnings)}
        return known | {key: value for key, value in more.items() if value}

    def reference(self, uploaded: Version | None) -> dict[str, Any]:
        """Return what facts remember of their source: its version, or where it has none its text."""
        data = self.data()
        if uploaded and uploaded.data["digest"] == self.digest:
            del data["text"]
            data["version"] = uploaded.id
        return data


def pasted_source(raw: str, name: str = "the text") -> Source:
    """Return pasted text as a source; raises `Invalid` for too little and `TooLarge` for too much."""
    if len(raw) > _MOST_RAW * MAX_CHARS:
        raise _too_large(name, len(raw))
    return require_size(Source("text", name, reflow(raw)))


def stored_source(data: Mapping[str, Any]) -> Source:
    """Return the source that a version of the `source` stream holds."""
    return Source(
        data["kind"],
        data["name"],
        data["text"],
        data.get("url", ""),
        data.get("pages", 0),
        tuple(data.get("warnings", ())),
    )


def require_size(source: Source) -> Source:
    """Return the source where a lesson can be made of its size."""
    if len(source.text) < MIN_CHARS:
        raise Invalid(
            f"{source.name} has {len(source.text)} characters of text, too few for a lesson",
            remedy="give at least a few sentences",
        )
    if len(source.text) > MAX_CHARS:
        raise _too_large(source.name, len(source.text))
    return source


def _too_large(name: str, characters: int) -> TooLarge:
    return TooLarge(
        f"{name} has {characters} characters of text, over {MAX_CHARS}",
        remedy="give the chapter that the lesson is about",
    )


def kept_source(content: str, uploaded: Version | None, before: Version | None) -> Source | None:
    """Return the source that is kept where it is what to read: not read yet, or meant by the content (B5).

    A text that a model hands on may be cut or changed on the way; what the server keeps is not. An empty
    content, or an id of the version, means what was uploaded, read before or not, and where nothing was, the
    text that was read last.
    """
    read_before = bool(before and uploaded and before.data.get("source", {}).get("version") == uploaded.id)
    meant = uploaded is not None and content.strip() in {"", uploaded.id, "source"}
    if uploaded and (meant or not read_before):
        return stored_source(uploaded.data)
    last = before.data.get("source", {}) if before and not uploaded and not content.strip() else {}
    return stored_source(last) if "text" in last else None


def page_address(content: str) -> str | None:
    """Return the address of a page that a content is, or None."""
    bare = content.strip()
    return bare if _ADDRESS.fullmatch(bare) else None

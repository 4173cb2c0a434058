"""Materials of lessons: pasted text, PDFs and web pages, as text within limits and in paragraphs."""

import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

from callsheet.state.errors import Invalid, TooLarge
from callsheet.state.versions import Version
from callsheet.tools.lessons.reflow import reflow, table_warnings

Kind = Literal["text", "pdf", "page"]
MAX_CHARS: Final = 1_500_000
"""Largest material in characters: a book of 500 pages."""
MIN_CHARS: Final = 20
_MOST_RAW: Final = 4
"""A raw text may be this many times `MAX_CHARS` long, before blanks are removed."""
_ADDRESS: Final = re.compile(r"https?://\S+", re.IGNORECASE)
_DIGEST_BYTES: Final = 16
_SOURCE_ID: Final = re.compile(r"(?:source-|v)?(\d{1,6})", re.IGNORECASE)


@dataclass(frozen=True)
class Source:
    """One material as text."""

    kind: Kind
    name: str
    """Name for people: a file's name, an address, "the text"."""
    text: str
    """Paragraphs with a blank line between them."""
    url: str = ""
    pages: int = 0
    """Of a PDF."""
    warnings: tuple[str, ...] = ()

    @property
    def digest(self) -> str:
        """Digest of the text."""
        return hashlib.blake2b(self.text.encode(), digest_size=_DIGEST_BYTES).hexdigest()

    def data(self) -> dict[str, Any]:
        """Return the data of a version of the `source` stream."""
        known = {"kind": self.kind, "name": self.name, "digest": self.digest, "text": self.text}
        more = {"url": self.url, "pages": self.pages, "warnings": list(self.warnings)}
        return known | {key: value for key, value in more.items() if value}

    def reference(self, uploaded: Version | None) -> dict[str, Any]:
        """Return the reference that facts keep: the source's version, or its text if it has none."""
        data = self.data()
        if uploaded and uploaded.data["digest"] == self.digest:
            del data["text"]
            data["version"] = uploaded.id
        return data


def pasted_source(raw: str, name: str = "the text") -> Source:
    """Return pasted text as a source; raises `Invalid` for too little and `TooLarge` for too much."""
    if len(raw) > _MOST_RAW * MAX_CHARS:
        raise _too_large(name, len(raw))
    return check_size(Source("text", name, reflow(raw), warnings=table_warnings(raw)))


def stored_source(data: Mapping[str, Any]) -> Source:
    """Return the source of a version of the `source` stream."""
    fields = {name: data[name] for name in ("kind", "name", "text", "url", "pages") if name in data}
    return Source(**fields, warnings=tuple(data.get("warnings", ())))


def check_size(source: Source) -> Source:
    """Return the source; raises `Invalid` or `TooLarge` for its size."""
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


def source_to_read(content: str, uploaded: Version | None, before: Version | None) -> Source | None:
    """Return the stored source that a content means; None for another text.

    An empty content or a version id means the upload, and without an upload the text that was read last. A
    content that is a passage of an upload that was not read yet is a copy of it, which a model has cut.
    """
    last = before.data.get("source", {}) if before else {}
    if uploaded:
        is_named = content.strip() in {"", uploaded.id, "source"}
        is_copy = last.get("version") != uploaded.id and _flat(content) in _flat(uploaded.data["text"])
        return stored_source(uploaded.data) if is_named or is_copy else None
    return stored_source(last) if "text" in last and not content.strip() else None


def _flat(text: str) -> str:
    return " ".join(text.split())


def material_of_proposal(proposed: Version | None, uploaded: Version | None) -> list[str] | Source | None:
    """Return the material of the proposed facts, by id or as text; None if there is an upload since then."""
    last = proposed.data.get("source", {}) if proposed else {}
    if proposed is None or (uploaded and uploaded.created_ms > proposed.created_ms):
        return None
    if "text" in last:
        return stored_source(last)
    return [last["version"]] if "version" in last else None


def is_stored(name: str, newest: str | None) -> bool:
    """Return True for the id of a material of the lesson."""
    return _number(name, newest) is not None


def _number(name: str, newest: str | None) -> int | None:
    match = _SOURCE_ID.fullmatch(name.strip())
    last = int(newest[1:]) if newest else 0
    return int(match[1]) if match and 1 <= int(match[1]) <= last else None


def version_id(name: str, newest: str | None) -> str:
    """Return the version of a material's id ("source-2" is v2); raises `Invalid` for an unknown one."""
    number = _number(name, newest)
    if number is None:
        last = int(newest[1:]) if newest else 0
        known = f"there are source-1 to source-{last}" if last else "no material is stored yet"
        raise Invalid(f"there is no material {name[:80]!r}", remedy=f"{known}; or give the text as content")
    return f"v{number}"


def joined_source(sources: Sequence[Source]) -> Source:
    """Return several materials as one, in order; raises `TooLarge` if they are too long together."""
    if len(sources) == 1:
        return sources[0]
    names = ", ".join(one.name for one in sources)
    warnings = tuple(text for one in sources for text in one.warnings)
    return check_size(Source("text", names, "\n\n".join(one.text for one in sources), warnings=warnings))


def page_address(content: str) -> str | None:
    """Return the content if it is the address of a page, else None."""
    bare = content.strip()
    return bare if _ADDRESS.fullmatch(bare) else None

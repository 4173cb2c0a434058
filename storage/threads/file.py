"""What a thread's file holds, read and checked as a whole before anything of it is written."""

from base64 import b64decode
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from hashlib import sha256
from typing import Annotated, Any, Final, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError

from callsheet.state.errors import Invalid
from callsheet.storage.artefacts.receipts import escape_part
from callsheet.storage.threads.lines import ValueCodec, read_lines

_REMEDY: Final = "export the thread again"
_MOST_MS: Final = 10**14
Version = int | str


class _Line(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)


class _Lifetime(_Line):
    ttl: float = Field(gt=0, le=10_000_000)
    strategy: Literal["delete", "keep_latest"]


class ThreadLine(_Line):
    """The thread's record, without its owner."""

    id: str = Field(min_length=1, max_length=255)
    graph: str = Field(max_length=255)
    artefact: str = Field(max_length=300)
    metadata: dict[str, Any]
    config: dict[str, Any]
    status: str = Field(pattern="^(idle|busy|interrupted|error)$")
    error: Any = None
    interrupts: dict[str, Any]
    ttl: _Lifetime | None
    createdMs: int = Field(ge=0, le=_MOST_MS)  # noqa: N815 -- as it is written


class _Element(_Line):
    number: int
    value: dict[str, Any]


class _Value(_Line):
    ns: str
    channel: str
    version: Version
    value: dict[str, Any] | None = None
    elements: list[int] | None = None


class _Write(_Line):
    task: str
    channel: str
    value: dict[str, Any]


class _Checkpoint(_Line):
    ns: str
    parent: str | None
    checkpoint: dict[str, Any]
    values: list[str]
    metadata: dict[str, Any]
    writes: list[_Write]


def _facts(found: dict[str, str]) -> dict[str, str]:
    if taken := sorted(found.keys() & {"owner", "thread", "importing"}):
        raise ValueError(f"{taken[0]!r} is not for a file to say")
    return found


class _Bare(_Line):
    """What a checkpoint has whatever version LangGraph is of."""

    v: int
    id: str = Field(min_length=1, max_length=100)
    ts: str
    channel_versions: dict[str, Version]
    versions_seen: dict[str, dict[str, Version]]


class ArtefactLine(_Line):
    """The artefact's record, without owner and thread."""

    kind: str = Field(pattern="^[a-z]{1,20}$")
    id: str = Field(min_length=1, max_length=255)
    facts: Annotated[dict[str, str], AfterValidator(_facts)]
    mixer: dict[str, Any] | None = None


class StreamLine(_Line):
    """Which of a stream's versions is active, and how many there ever were."""

    stream: str = Field(pattern=r"^[\w-]{1,60}$")
    active: str | None
    counter: int = Field(ge=0, le=10**6)


class VersionLine(_Line):
    """One version of a stream."""

    stream: str
    id: str = Field(pattern=r"^v[1-9]\d{0,6}$")
    parent: str | None = Field(pattern=r"^v[1-9]\d{0,6}$")
    createdMs: int = Field(ge=0, le=_MOST_MS)  # noqa: N815
    createdBy: str = Field(max_length=300)  # noqa: N815
    batch: str = Field(max_length=300)
    data: dict[str, Any]


class FileLine(_Line):
    """A file that came to the artefact; its bytes are in the lines that follow."""

    id: str = Field(pattern=r"^[\w-]{1,100}$")
    name: str = Field(min_length=1, max_length=300)
    type: str = Field(max_length=100)
    size: int = Field(ge=1, le=10**9)
    sha256: str = Field(pattern="^[0-9a-f]{64}$")


class _Piece(_Line):
    base64: str


class ReceiptLine(_Line):
    """What a step did."""

    step: str
    result: dict[str, Any]


@dataclass(frozen=True)
class CheckpointEntry:
    """One checkpoint, as a saver takes it."""

    namespace: str
    parent: str | None
    checkpoint: dict[str, Any]
    metadata: dict[str, Any]
    writes: tuple[tuple[str, str, Any], ...]


@dataclass(frozen=True)
class ArtefactEntry:
    """One artefact, with all that is of it."""

    artefact: ArtefactLine
    streams: tuple[StreamLine, ...] = ()
    versions: tuple[VersionLine, ...] = ()
    """Of each stream oldest first."""
    receipts: tuple[ReceiptLine, ...] = ()
    files: tuple[tuple[FileLine, bytes], ...] = ()

    @property
    def name(self) -> str:
        """Its kind and id."""
        return f"{self.artefact.kind}:{self.artefact.id}"

    def renamed(self, new_id: str, thread: str, new_thread: str) -> "ArtefactEntry":
        """Return it as if it and its thread had always been called so."""
        return replace(
            self,
            artefact=self.artefact.model_copy(update={"id": new_id}),
            receipts=tuple(_moved(one, thread, new_thread) for one in self.receipts),
        )


@dataclass(frozen=True)
class ThreadFile:
    """Everything a file holds."""

    thread: ThreadLine
    checkpoints: tuple[CheckpointEntry, ...] = ()
    """Oldest first."""
    artefacts: tuple[ArtefactEntry, ...] = ()
    """What was made on the thread; what it is about is the first."""

    def configured(self, config: dict[str, Any]) -> "ThreadFile":
        """Return the file with another config of its thread."""
        return replace(self, thread=self.thread.model_copy(update={"config": config}))

    def renamed(self, new_id: str) -> "ThreadFile":
        """Return the file as if the thread and what it is about had always been called `new_id`.

        What was made beside that is called `new_id`, a dash and its own id. What people and models said keeps
        the old names.
        """
        old, ids = self.thread.id, self._ids(new_id)
        held = tuple(one.renamed(name, old, new_id) for one, name in zip(self.artefacts, ids, strict=True))
        past = self.checkpoints
        for one, name in zip(self.artefacts, ids, strict=True):
            names = {f"{one.artefact.kind}_id", f"{one.artefact.kind}Id"}
            past = tuple(_renamed(each, names, one.artefact.id, name) for each in past)
        thread = {"id": new_id, "artefact": held[0].name if held else ""}
        return replace(self, thread=self.thread.model_copy(update=thread), checkpoints=past, artefacts=held)

    def _ids(self, new_id: str) -> list[str]:
        return [f"{new_id}-{one.artefact.id}" if at else new_id for at, one in enumerate(self.artefacts)]


def parse(content: bytes, codec: ValueCodec) -> ThreadFile:
    """Return what the file holds; raises `Invalid` for what is damaged, foreign or does not fit itself."""
    reader = _Reader(codec)
    try:
        for kind, data in read_lines(content):
            reader.take(kind, data)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        place = ".".join(str(part) for part in first["loc"])
        raise Invalid(f"the file has a wrong {place!r}: {first['msg'].lower()}", remedy=_REMEDY) from error
    except (KeyError, TypeError, AttributeError) as error:
        raise Invalid(f"the file does not fit itself: {error}", remedy=_REMEDY) from error
    return reader.file()


@dataclass
class _Reader:
    codec: ValueCodec
    thread: ThreadLine | None = None
    elements: dict[int, Any] = field(default_factory=dict)
    values: dict[tuple[str, str, Version], Any] = field(default_factory=dict)
    past: list[CheckpointEntry] = field(default_factory=list)
    held: list["_Holding"] = field(default_factory=list)

    def take(self, kind: str, data: Mapping[str, Any]) -> None:
        take = getattr(self, f"_take_{kind}", None) if kind.isalpha() else None
        if take is None:
            raise Invalid(f"the file has a line of the unknown type {kind[:40]!r}", remedy=_REMEDY)
        take(data)

    def file(self) -> ThreadFile:
        if self.thread is None:
            raise Invalid("the file names no thread", remedy=_REMEDY)
        held = tuple(one.whole() for one in self.held)
        named = [one.name for one in held]
        if named and named[0] != self.thread.artefact:
            raise Invalid(f"the thread is about {self.thread.artefact!r}, not {named[0]!r}", remedy=_REMEDY)
        if len(set(named)) < len(named):
            raise Invalid(f"the file has an artefact twice: {', '.join(named)}", remedy=_REMEDY)
        return ThreadFile(self.thread, tuple(self.past), held)

    @property
    def _last(self) -> "_Holding":
        if not self.held:
            raise Invalid("the file has versions of no artefact", remedy=_REMEDY)
        return self.held[-1]

    def _take_thread(self, data: Mapping[str, Any]) -> None:
        self.thread = ThreadLine.model_validate(data)

    def _take_element(self, data: Mapping[str, Any]) -> None:
        line = _Element.model_validate(data)
        self.elements[line.number] = self.codec.decode(line.value)

    def _take_value(self, data: Mapping[str, Any]) -> None:
        line = _Value.model_validate(data)
        key = (line.ns, line.channel, line.version)
        if line.elements is not None:
            self.values[key] = [self.elements[number] for number in line.elements]
        else:
            self.values[key] = self.codec.decode(line.value or {})

    def _take_checkpoint(self, data: Mapping[str, Any]) -> None:
        line = _Checkpoint.model_validate(data)
        bare, metadata = self.codec.decode(line.checkpoint), self.codec.decode(line.metadata)
        known = _Bare.model_validate({name: bare[name] for name in _Bare.model_fields})
        versions = known.channel_versions
        if not isinstance(metadata, dict):
            raise Invalid("the file has a checkpoint without metadata", remedy=_REMEDY)
        values = {channel: self.values[line.ns, channel, versions[channel]] for channel in line.values}
        writes = tuple((one.task, one.channel, self.codec.decode(one.value)) for one in line.writes)
        self.past.append(
            CheckpointEntry(line.ns, line.parent, {**bare, "channel_values": values}, metadata, writes)
        )

    def _take_artefact(self, data: Mapping[str, Any]) -> None:
        self.held.append(_Holding(ArtefactLine.model_validate(data)))

    def _take_stream(self, data: Mapping[str, Any]) -> None:
        self._last.streams.append(StreamLine.model_validate(data))

    def _take_version(self, data: Mapping[str, Any]) -> None:
        self._last.versions.append(VersionLine.model_validate(data))

    def _take_receipt(self, data: Mapping[str, Any]) -> None:
        self._last.receipts.append(ReceiptLine.model_validate(data))

    def _take_file(self, data: Mapping[str, Any]) -> None:
        self._last.files.append((FileLine.model_validate(data), bytearray()))

    def _take_piece(self, data: Mapping[str, Any]) -> None:
        self._last.add(_Piece.model_validate(data).base64)


@dataclass
class _Holding:
    """An artefact whose lines are being read."""

    artefact: ArtefactLine
    streams: list[StreamLine] = field(default_factory=list)
    versions: list[VersionLine] = field(default_factory=list)
    receipts: list[ReceiptLine] = field(default_factory=list)
    files: list[tuple[FileLine, bytearray]] = field(default_factory=list)

    def add(self, piece: str) -> None:
        """Add the next bytes of the newest file."""
        if not self.files:
            raise Invalid("the file has bytes of no file", remedy=_REMEDY)
        try:
            self.files[-1][1].extend(b64decode(piece, validate=True))
        except ValueError as error:
            raise Invalid(f"{self.files[-1][0].name!r} cannot be read: {error}", remedy=_REMEDY) from error

    def whole(self) -> ArtefactEntry:
        """Return it; raises `Invalid` for versions and files that do not fit what is said of them."""
        self._check_versions()
        for line, data in self.files:
            if len(data) != line.size or sha256(data).hexdigest() != line.sha256:
                raise Invalid(
                    f"{line.name!r} is not the file that was sent: it has other bytes", remedy=_REMEDY
                )
        held = tuple((line, bytes(data)) for line, data in self.files)
        return ArtefactEntry(
            self.artefact, tuple(self.streams), tuple(self.versions), tuple(self.receipts), held
        )

    def _check_versions(self) -> None:
        known = {stream.stream: stream for stream in self.streams}
        for one in self.versions:
            if one.stream not in known or int(one.id[1:]) > known[one.stream].counter:
                raise Invalid(f"version {one.id!r} of {one.stream!r} was never counted", remedy=_REMEDY)
        there = {(one.stream, one.id) for one in self.versions}
        for stream in self.streams:
            if stream.active and (stream.stream, stream.active) not in there:
                rule = f"the active version {stream.active!r} of {stream.stream!r} is missing"
                raise Invalid(rule, remedy=_REMEDY)


def _renamed(one: CheckpointEntry, names: set[str], old: str, new: str) -> CheckpointEntry:
    values = _named_anew(one.checkpoint["channel_values"], names, old, new)
    writes = tuple(
        (task, channel, new if channel in names and value == old else _named_anew(value, names, old, new))
        for task, channel, value in one.writes
    )
    return replace(one, checkpoint={**one.checkpoint, "channel_values": values}, writes=writes)


def _named_anew(value: Any, names: set[str], old: str, new: str) -> Any:
    """Return `value` with `new` in place of `old` wherever one of these names says it; messages stay."""
    if type(value) is dict:
        return {
            name: new if name in names and part == old else _named_anew(part, names, old, new)
            for name, part in value.items()
        }
    return [_named_anew(part, names, old, new) for part in value] if type(value) is list else value


def _moved(one: ReceiptLine, old: str, new: str) -> ReceiptLine:
    thread, bar, rest = one.step.partition("|")
    if thread != escape_part(old):
        return one
    return one.model_copy(update={"step": f"{escape_part(new)}{bar}{rest}"})

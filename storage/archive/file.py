"""Contents of an exported thread, parsed and checked completely before anything is written."""

from base64 import b64decode
from binascii import unhexlify
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from hashlib import sha256
from typing import Annotated, Any, Final, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError

from callsheet.state.errors import Invalid
from callsheet.state.live_plan import MAX_STEPS, Execution, LiveStep, call_of
from callsheet.state.plan import call_digest, waits_for
from callsheet.state.versions import MAX_REQUEST, Author, number_of
from callsheet.storage.archive.lines import ValueCodec, read_lines
from callsheet.storage.video import context

_REMEDY: Final = "export the thread again"
MAX_MS: Final = 10**14
"""Latest time, in the year 5138."""
_MAX_S: Final = MAX_MS // 1000
_MAX_ID: Final = 255
MAX_REFERENCES: Final = 40_000_000
"""Most elements of all lists in all states, each 8 bytes: those of 3,600 turns with two messages each."""
_REFERENCES_PER_BYTE: Final = 10
"""Most of them for each byte of the file: three times those of the longest conversation."""
MAX_STATE_BYTES: Final = 512_000_000
"""Most bytes of the lists of one state, written out."""
_TRUST: Final = "on the server's machine run: callsheet threads import FILE --trust"
ChannelVersion = int | str
_Number = Annotated[int, Field(ge=0, lt=2**31)]


class _Line(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)


class _Lifetime(_Line):
    ttl: float = Field(gt=0, le=10_000_000)
    strategy: Literal["delete", "keep_latest"]


class ThreadLine(_Line):
    """Record of the thread, without its owner."""

    id: str = Field(min_length=1, max_length=255)
    graph: str = Field(max_length=255)
    artefact: str = Field(max_length=300)
    metadata: dict[str, Any]
    config: dict[str, Any]
    status: str = Field(pattern="^(idle|busy|interrupted|error)$")
    error: Any = None
    interrupts: dict[str, Any]
    ttl: _Lifetime | None
    createdMs: int = Field(ge=0, le=MAX_MS)  # noqa: N815 -- name in the file


class _Element(_Line):
    number: int
    value: dict[str, Any]


class _Value(_Line):
    ns: str
    channel: str
    version: ChannelVersion
    value: dict[str, Any] | None = None
    elements: list[int] | None = None
    """Numbers of a list's elements, in version 2 of the format."""
    spans: list[Annotated[list[_Number], Field(min_length=2, max_length=2)]] | None = None
    """The same as spans of consecutive numbers, each a first one and a count."""

    def ranges(self) -> list[range] | None:
        """Return the numbers of the elements; None for a value that is no list of elements."""
        if self.spans is not None:
            return [range(first, first + count) for first, count in self.spans]
        return None if self.elements is None else [range(number, number + 1) for number in self.elements]


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


def _check_hexadecimal(checkpoint_id: str) -> str:
    # LangGraph derives the ids of tasks from these digits.
    unhexlify(checkpoint_id.replace("-", ""))
    return checkpoint_id


class _CheckpointFields(_Line):
    """Fields of a checkpoint in every version of LangGraph."""

    v: int
    id: Annotated[str, Field(min_length=1, max_length=100), AfterValidator(_check_hexadecimal)]
    ts: str
    channel_versions: dict[str, ChannelVersion]
    versions_seen: dict[str, dict[str, ChannelVersion]]


class _MetadataFields(BaseModel):
    """Fields of a checkpoint's metadata that LangGraph reads."""

    parents: dict[str, str] = Field(default_factory=dict)
    step: int = 0


def _check_facts(facts: dict[str, str]) -> dict[str, str]:
    if reserved := sorted(facts.keys() & {"owner", "thread", "importing"}):
        raise ValueError(f"a file must not set {reserved[0]!r}")
    for name in ("createdMs", "updatedMs"):
        if name in facts and not (facts[name].isdecimal() and int(facts[name]) <= MAX_MS):
            raise ValueError(f"{name!r} must be a time in milliseconds")
    return facts


class LockLine(_Line):
    """A person's lock of a stream or of a part of one."""

    by: str = Field(max_length=300)
    at_ms: int = Field(ge=0, le=MAX_MS)


class ArtefactLine(_Line):
    """Record of an artefact, without owner and thread."""

    kind: str = Field(pattern="^[a-z]{1,20}$")
    id: str = Field(min_length=1, max_length=255)
    facts: Annotated[dict[str, str], AfterValidator(_check_facts)]
    mixer: dict[str, Any] | None = None
    locks: dict[Annotated[str, Field(min_length=1, max_length=300)], LockLine] = Field(default_factory=dict)


class StreamLine(_Line):
    """Active version of a stream, and the number of its newest version."""

    stream: str = Field(pattern=r"^[\w-]{1,60}$")
    active: str | None
    counter: int = Field(ge=0, le=10**6)


class OriginLine(_Line):
    """The author of a version, and the words that it was made for."""

    by: Author = "import"
    model: str = Field("", max_length=300)
    request: str = Field("", max_length=MAX_REQUEST)


class VersionLine(_Line):
    """One version of a stream."""

    stream: str
    id: str = Field(pattern=r"^v[1-9]\d{0,6}$")
    parent: str | None = Field(pattern=r"^v[1-9]\d{0,6}$")
    createdMs: int = Field(ge=0, le=MAX_MS)  # noqa: N815
    createdBy: str = Field(max_length=300)  # noqa: N815
    batch: str = Field(max_length=300)
    origin: OriginLine | None = None
    data: dict[str, Any]


class FileLine(_Line):
    """An uploaded file; the lines that follow hold its bytes."""

    id: str = Field(pattern=r"^[\w-]{1,100}$")
    name: str = Field(min_length=1, max_length=300)
    type: str = Field(max_length=100)
    size: int = Field(ge=1, le=10**9)
    sha256: str = Field(pattern="^[0-9a-f]{64}$")


class ExecutionLine(_Line):
    """The record of a plan, with its steps and people's changes."""

    record: Execution
    consented: list[str]
    """Ids of the pending steps whose calls a person has approved."""

    @property
    def consents(self) -> list[str]:
        """Digests of the calls that a person has approved."""
        steps = [one for one in self.record["steps"] if one["step"]["id"] in self.consented]
        return [call_digest(self.record["id"], call_of(one)) for one in steps]


class ContextLine(_Line):
    """A value that a video's later steps may use."""

    key: str = Field(min_length=1, max_length=context.MAX_KEY_CHARS)
    value: Any
    created_s: int = Field(ge=0, le=_MAX_S)
    expires_s: int = Field(ge=0, le=_MAX_S)


class _Piece(_Line):
    base64: str


class ReceiptLine(_Line):
    """Recorded result of a step."""

    step: str
    result: dict[str, Any]


@dataclass(frozen=True)
class CheckpointEntry:
    """One checkpoint in the form a saver takes."""

    namespace: str
    parent: str | None
    checkpoint: dict[str, Any]
    metadata: dict[str, Any]
    writes: tuple[tuple[str, str, Any], ...]


@dataclass(frozen=True)
class ArtefactEntry:
    """One artefact with its streams, versions, receipts, files and plans."""

    artefact: ArtefactLine
    streams: tuple[StreamLine, ...] = ()
    versions: tuple[VersionLine, ...] = ()
    """Oldest first within each stream."""
    receipts: tuple[ReceiptLine, ...] = ()
    files: tuple[tuple[FileLine, bytes], ...] = ()
    executions: tuple[ExecutionLine, ...] = ()
    context: tuple[ContextLine, ...] = ()

    @property
    def name(self) -> str:
        """`kind:id`."""
        return f"{self.artefact.kind}:{self.artefact.id}"


@dataclass(frozen=True)
class ThreadFile:
    """Complete contents of a file."""

    thread: ThreadLine
    checkpoints: tuple[CheckpointEntry, ...] = ()
    """Oldest first."""
    artefacts: tuple[ArtefactEntry, ...] = ()
    """Artefacts created on the thread, its main artefact first."""

    def with_config(self, config: dict[str, Any]) -> "ThreadFile":
        """Return a copy with another config of the thread."""
        return replace(self, thread=self.thread.model_copy(update={"config": config}))


def parse(content: bytes, codec: ValueCodec) -> ThreadFile:
    """Return the contents of the file; raises `Invalid` for a damaged, foreign or inconsistent one."""
    reader = _FileReader(codec, min(MAX_REFERENCES, _REFERENCES_PER_BYTE * len(content)))
    try:
        for kind, data in read_lines(content):
            reader.read(kind, data)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        path = ".".join(str(part) for part in first["loc"])
        raise Invalid(f"the file has a wrong {path!r}: {first['msg'].lower()}", remedy=_REMEDY) from error
    except (KeyError, TypeError, AttributeError) as error:
        raise Invalid(f"the file is inconsistent: {error}", remedy=_REMEDY) from error
    return reader.file()


@dataclass
class _FileReader:
    codec: ValueCodec
    max_references: int
    thread: ThreadLine | None = None
    elements: dict[int, Any] = field(default_factory=dict)
    element_bytes: dict[int, int] = field(default_factory=dict)
    list_bytes: dict[tuple[str, str, ChannelVersion], int] = field(default_factory=dict)
    """Bytes of the elements of each list, written out."""
    values: dict[tuple[str, str, ChannelVersion], Any] = field(default_factory=dict)
    checkpoints: list[CheckpointEntry] = field(default_factory=list)
    artefacts: list["_ArtefactReader"] = field(default_factory=list)
    ids: set[tuple[str, str]] = field(default_factory=set)
    """Namespaces and ids of the checkpoints."""
    empty: set[tuple[str, str, ChannelVersion]] = field(default_factory=set)
    """Versions of channels that have no value."""
    unused: set[tuple[str, str, ChannelVersion]] = field(default_factory=set)
    """Values that no checkpoint has."""
    unused_elements: set[int] = field(default_factory=set)
    """Elements that no value has."""
    references: int = 0
    """Elements of all lists, each as often as a list has it."""

    def read(self, kind: str, data: Mapping[str, Any]) -> None:
        match kind:
            case "thread":
                _require_once(self.thread is None, "the thread")
                self.thread = ThreadLine.model_validate(data)
            case "element":
                element = _Element.model_validate(data)
                _require_once(element.number not in self.elements, f"element {element.number}")
                self.elements[element.number] = self.codec.decode(element.value)
                self.element_bytes[element.number] = len(str(element.value))
                self.unused_elements.add(element.number)
            case "value":
                self._add_value(_Value.model_validate(data))
            case "checkpoint":
                self._add_checkpoint(_Checkpoint.model_validate(data))
            case "artefact":
                self.artefacts.append(_ArtefactReader(ArtefactLine.model_validate(data)))
            case "stream" | "version" | "receipt" | "file" | "piece" | "execution" | "context":
                if not self.artefacts:
                    raise Invalid(f"the file has a {kind!r} line that belongs to no artefact", remedy=_REMEDY)
                self.artefacts[-1].read(kind, data)
            case _:
                raise Invalid(f"the file has a line of the unknown type {kind[:40]!r}", remedy=_REMEDY)

    def file(self) -> ThreadFile:
        if self.thread is None:
            raise Invalid("the file has no thread", remedy=_REMEDY)
        if self.unused_elements:
            number = min(self.unused_elements)
            raise Invalid(f"the file has the element {number}, which no list has", remedy=_REMEDY)
        if self.unused:
            value = next(iter(self.unused))
            raise Invalid(f"the file has the value {value}, which no checkpoint has", remedy=_REMEDY)
        artefacts = tuple(artefact.entry() for artefact in self.artefacts)
        names = [artefact.name for artefact in artefacts]
        if names and names[0] != self.thread.artefact:
            raise Invalid(f"the thread is about {self.thread.artefact!r}, not {names[0]!r}", remedy=_REMEDY)
        if len(set(names)) < len(names):
            raise Invalid(f"the file has an artefact twice: {', '.join(names)}", remedy=_REMEDY)
        for entry in artefacts:
            _check_executions(entry, self.thread.id)
        return ThreadFile(self.thread, tuple(self.checkpoints), artefacts)

    def _add_value(self, line: _Value) -> None:
        key = (line.ns, line.channel, line.version)
        _require_once(key not in self.values, f"the value of {line.channel!r} in version {line.version!r}")
        self.unused.add(key)
        ranges = line.ranges()
        if ranges is None:
            self.values[key] = self.codec.decode(line.value or {})
            return
        self._count(sum(map(len, ranges)))
        self.values[key] = elements = list[Any]()
        self.list_bytes[key] = 0
        for numbers in ranges:
            elements += map(self.elements.__getitem__, numbers)
            self.list_bytes[key] += sum(map(self.element_bytes.__getitem__, numbers))
            self._note_used(numbers)

    def _count(self, references: int) -> None:
        """Count the elements of a list; raises `Invalid` for more than memory should hold."""
        self.references += references
        if self.references > self.max_references and not self.codec.trusted:
            raise Invalid(
                f"the lists of the file have more than {self.max_references} elements in all", remedy=_TRUST
            )

    def _note_used(self, numbers: range) -> None:
        if len(self.unused_elements) < len(numbers):
            self.unused_elements = {number for number in self.unused_elements if number not in numbers}
        else:
            self.unused_elements.difference_update(numbers)

    def _add_checkpoint(self, line: _Checkpoint) -> None:
        checkpoint, metadata = self.codec.decode(line.checkpoint), self.codec.decode(line.metadata)
        fields = {name: checkpoint[name] for name in _CheckpointFields.model_fields}
        versions = _CheckpointFields.model_validate(fields).channel_versions
        _MetadataFields.model_validate(metadata)
        keys = {channel: (line.ns, channel, versions[channel]) for channel in line.values}
        values = {channel: self.values[key] for channel, key in keys.items()}
        size = sum(self.list_bytes.get(key, 0) for key in keys.values())
        if size > MAX_STATE_BYTES and not self.codec.trusted:
            raise Invalid(f"the lists of a state in the file have {size} bytes", remedy=_TRUST)
        self.unused.difference_update(keys.values())
        self.empty.update((line.ns, name, one) for name, one in versions.items() if name not in keys)
        if both := self.empty & self.values.keys():
            channel = next(iter(both))[1]
            raise Invalid(f"the file has checkpoints with and without a value of {channel!r}", remedy=_REMEDY)
        _require_once((line.ns, checkpoint["id"]) not in self.ids, f"checkpoint {checkpoint['id']!r}")
        self.ids.add((line.ns, checkpoint["id"]))
        checkpoint = {**checkpoint, "channel_values": values}
        writes = tuple((write.task, write.channel, self.codec.decode(write.value)) for write in line.writes)
        self.checkpoints.append(CheckpointEntry(line.ns, line.parent, checkpoint, metadata, writes))


def _require_once(is_first: bool, name: str) -> None:  # noqa: FBT001 -- a condition
    if not is_first:
        raise Invalid(f"the file has {name} twice", remedy=_REMEDY)


@dataclass
class _ArtefactReader:
    """An artefact whose lines are being read."""

    artefact: ArtefactLine
    streams: list[StreamLine] = field(default_factory=list)
    versions: list[VersionLine] = field(default_factory=list)
    receipts: list[ReceiptLine] = field(default_factory=list)
    files: list[tuple[FileLine, bytearray]] = field(default_factory=list)
    executions: list[ExecutionLine] = field(default_factory=list)
    context: list[ContextLine] = field(default_factory=list)

    def read(self, kind: str, data: Mapping[str, Any]) -> None:
        match kind:
            case "stream":
                self.streams.append(StreamLine.model_validate(data))
            case "version":
                self.versions.append(VersionLine.model_validate(data))
            case "receipt":
                self.receipts.append(ReceiptLine.model_validate(data))
            case "file":
                self.files.append((FileLine.model_validate(data), bytearray()))
            case "execution":
                self.executions.append(ExecutionLine.model_validate(data))
            case "context":
                self.context.append(ContextLine.model_validate(data))
            case "piece":
                self._add_piece(_Piece.model_validate(data).base64)

    def _add_piece(self, piece: str) -> None:
        if not self.files:
            raise Invalid("the file has bytes that belong to no file", remedy=_REMEDY)
        try:
            self.files[-1][1].extend(b64decode(piece, validate=True))
        except ValueError as error:
            raise Invalid(f"{self.files[-1][0].name!r} cannot be read: {error}", remedy=_REMEDY) from error

    def entry(self) -> ArtefactEntry:
        """Return the artefact; raises `Invalid` for versions or files that contradict their records."""
        self._check_versions()
        for line, data in self.files:
            if len(data) != line.size or sha256(data).hexdigest() != line.sha256:
                raise Invalid(f"{line.name!r} has other bytes than the uploaded file", remedy=_REMEDY)
        self._check_context()
        return ArtefactEntry(
            self.artefact,
            tuple(self.streams),
            tuple(self.versions),
            tuple(self.receipts),
            tuple((line, bytes(data)) for line, data in self.files),
            tuple(self.executions),
            tuple(self.context),
        )

    def _check_context(self) -> None:
        if self.context and self.artefact.kind != context.KIND:
            raise Invalid(f"a {self.artefact.kind} has no context", remedy=_REMEDY)
        if len(self.context) > context.MAX_ENTRIES:
            raise Invalid(f"the file has more than {context.MAX_ENTRIES} context entries", remedy=_REMEDY)
        names = {context.field_name(line.key) for line in self.context}
        _require_once(len(names) == len(self.context), "a context entry")
        for line in self.context:
            context.check_size(line.key, line.value)

    def _check_versions(self) -> None:
        counters = {stream.stream: stream.counter for stream in self.streams}
        _require_once(len(counters) == len(self.streams), "a stream")
        names = {(version.stream, version.id) for version in self.versions}
        _require_once(len(names) == len(self.versions), "a version")
        for version in self.versions:
            if int(version.id[1:]) > counters.get(version.stream, 0):
                raise Invalid(
                    f"version {version.id!r} of {version.stream!r} exceeds the counter", remedy=_REMEDY
                )
        present = {(version.stream, version.id) for version in self.versions}
        for stream in self.streams:
            if stream.active and (stream.stream, stream.active) not in present:
                rule = f"the active version {stream.active!r} of {stream.stream!r} is missing"
                raise Invalid(rule, remedy=_REMEDY)


def _check_executions(entry: ArtefactEntry, thread: str) -> None:
    """Raise `Invalid` for the record of a plan that no server could have written."""
    ids = [line.record["id"] for line in entry.executions]
    _require_once(len(set(ids)) == len(ids), "an execution")
    for line in entry.executions:
        record, steps = line.record, [one["step"] for one in line.record["steps"]]
        names = {step["id"] for step in steps}
        _require_once(len(names) == len(steps), f"a step of execution {record['id']!r}")
        if not 0 < len(record["id"]) <= _MAX_ID or len(steps) > MAX_STEPS:
            rule = f"an id with 1 to {_MAX_ID} characters and at most {MAX_STEPS} steps"
            raise Invalid(f"an execution has {rule}", remedy=_REMEDY)
        if (record["thread"], record["project"]) != (thread, entry.artefact.id):
            raise Invalid(f"execution {record['id']!r} has another id than {entry.name!r}", remedy=_REMEDY)
        if not all(0 <= ms <= MAX_MS for ms in _times(record)):
            raise Invalid(f"execution {record['id']!r} has a wrong time", remedy=_REMEDY)
        if record["epoch"] or record.get("repetition"):
            raise Invalid(f"execution {record['id']!r} names an attempt or a run", remedy=_REMEDY)
        if not all(_are_versions(one) for step in record["steps"] for one in _versions_of(step)):
            raise Invalid(f"execution {record['id']!r} has a result without its version", remedy=_REMEDY)
        if unknown := {name for step in steps for name in waits_for(step)} - names:
            raise Invalid(f"execution {record['id']!r} has no step {min(unknown)!r}", remedy=_REMEDY)


def _versions_of(one: LiveStep) -> Iterator[object]:
    """Yield the versions that a step made, each time by stream, as the file has them."""
    if one["step"]["writes"]:
        yield from one.get("earlier", ())
        versions = one["output"].get("versions")
        yield {} if versions is None else versions
        yield {"versionId": one["output"].get("versionId", "v1")}


def _are_versions(value: object) -> bool:
    return isinstance(value, Mapping) and all(
        isinstance(one, str) and number_of(one) for one in value.values()
    )


def _times(record: Execution) -> Iterator[int]:
    """Yield the times of a plan's record, in milliseconds."""
    yield from (record["created_ms"], record["started_ms"], record["ended_ms"])
    for step in record["steps"]:
        yield from (step["started_ms"], step["ended_ms"])
    yield from (one["at_ms"] for one in record["changes"])

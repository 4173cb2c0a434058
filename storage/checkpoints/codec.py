"""Serialisation of checkpoints, values and pending writes.

Names (namespaces, ids, channels, task paths) are UTF-8 with NUL and U+0001 escaped, so that NUL can separate
them and their order as bytes is their order as text. A record is a header that scripts can read and a body
that only the serialiser can.
"""

from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any, Final, NamedTuple, cast

from langgraph.checkpoint.base import WRITES_IDX_MAP, Checkpoint, CheckpointMetadata, PendingWrite
from langgraph.checkpoint.serde.base import SerializerProtocol

Version = int | float | str

NUL: Final = b"\0"
LIST: Final = b"L"
"""What the stored value of a list in pieces begins with; any other value begins with its serialiser's tag."""

_TAGS: Final = {"msgpack": b"m", "null": b"n", "bytes": b"b", "bytearray": b"a", "pickle": b"p", "json": b"j"}
_KINDS: Final = {tag[0]: kind for kind, tag in _TAGS.items()}
_OTHER: Final = b"x"
_APART: Final = frozenset({"channel_values", "channel_versions", "id"})
_HAS: Final = b"\1="
_LACKS: Final = b"\1-"
_FIRST_INDEX: Final = 10
"""Added to the index of a write, so that the special ones, which are negative, sort before the others."""


class Record(NamedTuple):
    """One stored checkpoint without its values."""

    parent: str
    versions: dict[str, Version]
    rest: dict[str, Any]
    metadata: CheckpointMetadata


def encode_name(text: str) -> bytes:
    """`text` as part of a field."""
    data = text.encode()
    if b"\0" in data or b"\1" in data:
        return data.replace(b"\1", b"\1\2").replace(b"\0", b"\1\1")
    return data


def decode_name(data: bytes) -> str:
    """What `name` was given."""
    if b"\1" in data:
        data = data.replace(b"\1\1", b"\0").replace(b"\1\2", b"\1")
    return data.decode()


_channel = lru_cache(maxsize=4096)(encode_name)
"""`name` for names there are few of, which every checkpoint has again."""
_recent = lru_cache(maxsize=1024)(encode_name)
"""`name` for ids, of which those of a run's last steps come again."""


def join_names(*names: str) -> bytes:
    """Names as one field, NUL between them."""
    return NUL.join(map(_recent, names))


def value_field(namespace: str, channel: str, version: Version) -> bytes:
    """Where one version of a channel's value is kept."""
    return b"%b\0%b\0%b" % (_channel(namespace), _channel(channel), encode_version(version))


@lru_cache(maxsize=4096, typed=True)
def encode_version(version: Version) -> bytes:
    """A channel version as text that keeps its type."""
    if isinstance(version, int):
        return b"%d" % version
    return b"s" + encode_name(version) if isinstance(version, str) else b"f" + repr(version).encode()


def decode_version(data: bytes) -> Version:
    """What `encode_version` was given."""
    if data[:1] == b"s":
        return decode_name(data[1:])
    return float(data[1:]) if data[:1] == b"f" else int(data)


class Codec:
    """Values, records and writes in bytes, by LangGraph's serialiser."""

    def __init__(self, serde: SerializerProtocol) -> None:
        self._serde = serde

    def dump(self, value: object) -> bytes:
        """`value` as its serialiser's tag and payload."""
        kind, payload = self._serde.dumps_typed(value)
        tag = _TAGS.get(kind)
        return tag + payload if tag else _OTHER + kind.encode() + NUL + payload

    def load(self, data: bytes) -> Any:
        """What `dump` was given, as far as the serialiser keeps it."""
        if data[:1] == _OTHER:
            kind, _, payload = data[1:].partition(NUL)
            return self._serde.loads_typed((kind.decode(), payload))
        return self._serde.loads_typed((_KINDS[data[0]], data[1:]))

    def encode_record(self, parent: str, checkpoint: Checkpoint, metadata: CheckpointMetadata) -> bytes:
        r"""A checkpoint without its values: `<length>:<header><body>`.

        The header is parent, NUL, run, NUL; for each channel its name, `\1=`, its version, NUL; and for each
        channel with writes since the last stored value its name, `\1-`, NUL. No name has a bare U+0001.
        """
        unsaved = metadata.get("counters_since_delta_snapshot") or {}
        parts = [_recent(parent), _recent(str(metadata.get("run_id") or ""))]
        for channel, version in checkpoint["channel_versions"].items():
            parts.append(_channel(channel) + _HAS + encode_version(version))
        parts += (_channel(channel) + _LACKS for channel in unsaved)
        header = NUL.join((*parts, b""))
        rest = {key: item for key, item in checkpoint.items() if key not in _APART}
        return b"%d:" % len(header) + header + self.dump([rest, metadata])

    def decode_record(self, data: bytes) -> Record:
        """What `record` was given."""
        length, _, _ = data.partition(b":")
        start = len(length) + 1
        body = start + int(length)
        parent, _run, *parts = data[start : body - 1].split(NUL)
        versions = {}
        for part in parts:
            channel, has, version = part.partition(_HAS)
            if has:
                versions[decode_name(channel)] = decode_version(version)
        rest, metadata = self.load(data[body:])
        return Record(decode_name(parent), versions, rest, cast("CheckpointMetadata", metadata))

    def encode_writes(
        self, place: bytes, task: tuple[str, str], writes: Iterable[tuple[str, Any]]
    ) -> list[tuple[bytes, bool, bytes]]:
        """Each write of the task `(path, id)`: its key, whether it replaces what is there, and the rest."""
        stem = place + NUL + join_names(*task) + NUL
        drafted = []
        for position, (channel, value) in enumerate(writes):
            index = WRITES_IDX_MAP.get(channel, position)
            key = stem + b"%06d" % (index + _FIRST_INDEX) + NUL
            drafted.append((key, index < 0, _channel(channel) + NUL + self.dump(value)))
        return drafted

    def decode_writes(self, place: bytes, members: Sequence[bytes]) -> list[PendingWrite]:
        """Pending writes of the checkpoint at `place`, in the order given."""
        return [self.decode_write(member[len(place) + 1 :]) for member in members]

    def decode_write(self, member: bytes) -> PendingWrite:
        """One write without the place it is pending at."""
        _path, task, _index, channel, value = member.split(NUL, 4)
        return decode_name(task), decode_name(channel), self.load(value)


def metadata_matches(metadata: CheckpointMetadata, wanted: Mapping[str, Any] | None) -> bool:
    """Whether the metadata has every wanted value."""
    known = cast("Mapping[str, Any]", metadata)
    return not wanted or all(known.get(key) == value for key, value in wanted.items())

"""Serialisation of checkpoints, values and pending writes.

Names (namespaces, ids, channels, task paths) are UTF-8 with NUL and U+0001 escaped, so that NUL can separate
them and their byte order is their text order. A record is a header that scripts can read and a body that only
the serialiser can. The number that a script puts before a record is documented in `lua`.
"""

import sys
from collections.abc import Iterable
from functools import lru_cache
from typing import Any, Final, NamedTuple, cast

from langgraph.checkpoint.base import WRITES_IDX_MAP, Checkpoint, CheckpointMetadata, PendingWrite
from langgraph.checkpoint.serde.base import SerializerProtocol

from callsheet.state.nested_values import replace_parts
from callsheet.state.unicode import utf8_safe, utf8_safe_value

Version = int | float | str

NUL: Final = b"\0"
LIST: Final = b"L"
"""First byte of a stored piece table; any other value begins with its serialiser's tag."""

_TAGS: Final = {"msgpack": b"m", "null": b"n", "bytes": b"b", "bytearray": b"a", "pickle": b"p", "json": b"j"}
_KINDS: Final = {tag[0]: kind for kind, tag in _TAGS.items()}
_CUSTOM_TAG: Final = b"x"
_NUMBERED: Final = b"\xff"
_NUMBER_BYTES: Final = 11
_NOT_IN_BODY: Final = frozenset({"channel_values", "channel_versions", "id"})
_HAS_VERSION: Final = b"\1="
_UNSAVED: Final = b"\1-"
_FIRST_INDEX: Final = 10
"""Added to the index of a write, so that LangGraph's negative indexes sort before the others."""


class Record(NamedTuple):
    """One stored checkpoint without its values."""

    parent: str
    versions: dict[str, Version]
    body: dict[str, Any]
    """The checkpoint's other keys."""
    metadata: CheckpointMetadata


def encode_name(text: str) -> bytes:
    """Escape `text` for use in a field; half of a surrogate pair becomes U+FFFD."""
    data = utf8_safe(text).encode()
    if b"\0" in data or b"\1" in data:
        return data.replace(b"\1", b"\1\2").replace(b"\0", b"\1\1")
    return data


def decode_name(data: bytes) -> str:
    """Reverse `encode_name`."""
    if b"\1" in data:
        data = data.replace(b"\1\1", b"\0").replace(b"\1\2", b"\1")
    return data.decode()


_encode_channel = lru_cache(maxsize=4096)(encode_name)
"""For the few names that every checkpoint repeats."""
_encode_id = lru_cache(maxsize=1024)(encode_name)
"""For ids, which repeat only within the last steps of a run."""


def join_names(*names: str) -> bytes:
    """Return the names as one field, separated by NUL."""
    return NUL.join(map(_encode_id, names))


def value_field(namespace: str, channel: str, version: Version) -> bytes:
    """Return the field of one version of a channel's value."""
    return b"%b\0%b\0%b" % (_encode_channel(namespace), _encode_channel(channel), _encode_version(version))


def writes_prefix(checkpoint: bytes, task: tuple[str, str]) -> bytes:
    """Return the bytes with which the keys of all writes of the task `(path, id)` begin."""
    return checkpoint + NUL + join_names(*task) + NUL


class Member(NamedTuple):
    """A checkpoint in the index of its thread. Greater is newer."""

    number: bytes
    """Empty for a checkpoint that an earlier version stored."""
    identity: str
    field: bytes


def decode_member(data: bytes) -> Member:
    """Return a member of the index."""
    namespace, _, rest = data.partition(NUL)
    number, identity = _split_number(rest)
    return Member(number, decode_name(identity), namespace + NUL + identity)


def _split_number(data: bytes) -> tuple[bytes, bytes]:
    at = _NUMBER_BYTES if data[:1] == _NUMBERED else 0
    return data[:at], data[at:]


@lru_cache(maxsize=4096, typed=True)
def _encode_version(version: Version) -> bytes:
    """Return a channel version as text that keeps its type."""
    if isinstance(version, int):
        return b"%d" % version
    return b"s" + encode_name(version) if isinstance(version, str) else b"f" + repr(version).encode()


def _decode_version(data: bytes) -> Version:
    """Reverse `encode_version`."""
    if data[:1] == b"s":
        return decode_name(data[1:])
    return float(data[1:]) if data[:1] == b"f" else int(data)


def _without_numpy_numbers(value: Any) -> Any:
    """Return a value with Python's numbers instead of NumPy's; the same object if it has none."""
    # Only a process that has loaded NumPy can have its numbers; it is no dependency of the checkpointer.
    numpy = sys.modules.get("numpy")
    if numpy is None:
        return value
    return replace_parts(value, lambda part: part.item() if isinstance(part, numpy.generic) else part)


class Codec:
    """Converts values, records and writes to bytes with LangGraph's serialiser."""

    def __init__(self, serde: SerializerProtocol) -> None:
        self._serde = serde

    def dump(self, value: object) -> bytes:
        """Return the serialiser's tag and payload for `value`.

        Half of a surrogate pair becomes U+FFFD, and a number of NumPy that the serialiser refuses Python's.
        """
        try:
            kind, payload = self._serde.dumps_typed(value)
        except TypeError:
            if (plain := _without_numpy_numbers(value)) is value:
                raise
            return self.dump(plain)
        # LangGraph's serialiser writes this sign for each half of a surrogate pair.
        if b"?" in payload and (safe := utf8_safe_value(value)) is not value:
            kind, payload = self._serde.dumps_typed(safe)
        tag = _TAGS.get(kind)
        return tag + payload if tag else _CUSTOM_TAG + kind.encode() + NUL + payload

    def load(self, data: bytes) -> Any:
        """Reverse `dump`, as far as the serialiser keeps the value."""
        if data[:1] == _CUSTOM_TAG:
            kind, _, payload = data[1:].partition(NUL)
            return self._serde.loads_typed((kind.decode(), payload))
        return self._serde.loads_typed((_KINDS[data[0]], data[1:]))

    def encode_record(self, parent: str, checkpoint: Checkpoint, metadata: CheckpointMetadata) -> bytes:
        r"""Return a checkpoint without its values: `<length>:<header><body>`.

        The header is parent, NUL, run, NUL; then for each channel its name, `\1=`, its version, NUL; then for
        each channel with writes since its last stored value its name, `\1-`, NUL.
        """
        unsaved = metadata.get("counters_since_delta_snapshot") or {}
        parts = [_encode_id(parent), _encode_id(str(metadata.get("run_id") or ""))]
        for channel, version in checkpoint["channel_versions"].items():
            parts.append(_encode_channel(channel) + _HAS_VERSION + _encode_version(version))
        parts += (_encode_channel(channel) + _UNSAVED for channel in unsaved)
        header = NUL.join((*parts, b""))
        body = {key: item for key, item in checkpoint.items() if key not in _NOT_IN_BODY}
        return b"%d:" % len(header) + header + self.dump([body, metadata])

    def decode_record(self, data: bytes) -> Record:
        """Reverse `encode_record`."""
        _, data = _split_number(data)
        length, _, _ = data.partition(b":")
        start = len(length) + 1
        end = start + int(length)
        parent, _run, *parts = data[start : end - 1].split(NUL)
        versions = {}
        for part in parts:
            channel, has_version, version = part.partition(_HAS_VERSION)
            if has_version:
                versions[decode_name(channel)] = _decode_version(version)
        body, metadata = self.load(data[end:])
        return Record(decode_name(parent), versions, body, cast("CheckpointMetadata", metadata))

    def encode_writes(
        self, prefix: bytes, writes: Iterable[tuple[str, Any]]
    ) -> list[tuple[bytes, bool, bytes]]:
        """Return key, whether it replaces an earlier write, and payload, for each write of a task.

        `prefix` is the task's, as `writes_prefix` returns it.
        """
        encoded = []
        for position, (channel, value) in enumerate(writes):
            index = WRITES_IDX_MAP.get(channel, position)
            key = prefix + b"%06d" % (index + _FIRST_INDEX) + NUL
            try:
                data = self.dump(value)
            except TypeError as error:
                rule = f"the value of {channel!r} cannot be stored: {error}"
                raise TypeError(
                    f"{rule}. Keep plain data, messages or pydantic models in the state"
                ) from error
            encoded.append((key, index < 0, _encode_channel(channel) + NUL + data))
        return encoded

    def decode_write(self, member: bytes) -> PendingWrite:
        """Return one write; `member` is its key and payload without the checkpoint's field."""
        _path, task, _index, channel, value = member.split(NUL, 4)
        return decode_name(task), decode_name(channel), self.load(value)

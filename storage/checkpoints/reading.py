"""Reads: the newest checkpoint, given ones, a page of history, and the writes of a channel.

The scripts send only the log elements that the reader has not cached.
"""

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple, cast

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import (
    Checkpoint,
    CheckpointMetadata,
    CheckpointTuple,
    DeltaChannelHistory,
    PendingWrite,
)

from callsheet.storage.checkpoints import thread_index
from callsheet.storage.checkpoints.codec import (
    LIST,
    NUL,
    Codec,
    Member,
    Record,
    decode_member,
    decode_name,
    encode_name,
    join_names,
    value_field,
)
from callsheet.storage.checkpoints.context import CheckpointRef, Operation, SaverContext
from callsheet.storage.checkpoints.lua import HEADERS, THREAD
from callsheet.storage.checkpoints.message_log import (
    LogWitness,
    Piece,
    ThreadLog,
    decode_table,
    encode_table,
    strip_mark,
)
from callsheet.storage.redis.keys import CheckpointKeys
from callsheet.storage.redis.scripts import Script, ScriptCall

_GAPS: Final = r"""
-- The parts of the needed spans that no cached span covers. A span is {first, one past its last}; the cached
-- ones are sorted.
local function gaps(needed, cached)
  table.sort(needed, function(a, b) return a[1] < b[1] end)
  local missing, at, done = {}, 1, 0
  for _, span in ipairs(needed) do
    local first = math.max(span[1], done)
    while first < span[2] do
      while cached[at] and cached[at][2] <= first do at = at + 1 end
      local past = cached[at] and cached[at][1] or span[2]
      if past > first then missing[#missing + 1] = {first, math.min(past, span[2])} end
      first = past > first and math.min(past, span[2]) or cached[at][2]
    end
    done = math.max(done, span[2])
  end
  return missing
end
"""

_VALUES: Final = r"""
-- Every value that the rows refer to, once, as alternating fields and values.
local function values_of(rows)
  local fields, seen, flat = {}, {}, {}
  for _, row in ipairs(rows) do
    local prefix = namespace(row[1])
    for channel, version in string.gmatch(header(row[2]), VERSIONS) do
      local field = prefix .. channel .. '\0' .. version
      if not seen[field] then seen[field] = true; fields[#fields + 1] = field end
    end
  end
  for at, value in ipairs(hmget(values, fields)) do
    if value then flat[#flat + 1] = fields[at]; flat[#flat + 1] = value end
  end
  return flat
end
"""

_REPLY: Final = r"""
local function elements_for(flat, cached_table)
  local needed, cached, elements = {}, {}, {}
  for at = 2, #flat, 2 do
    if string.sub(flat[at], 1, 1) == 'L' then
      each_piece(flat[at], function(first, past) needed[#needed + 1] = {first, past} end)
    end
  end
  each_piece(cached_table, function(first, past) cached[#cached + 1] = {first, past} end)
  for _, span in ipairs(gaps(needed, cached)) do
    elements[#elements + 1] = span[1]
    elements[#elements + 1] = redis.call('LRANGE', log, span[1], span[2] - 1)
  end
  return elements
end

local function reply(fields)
  local generation, position, mark, cached_table, ttl_ms = unpack(ARGV, 1, 5)
  local names = {GENERATION}
  for at, field in ipairs(fields) do names[at + 1] = field end
  local stored = hmget(records, names)
  local cache_valid, rows = log_matches(stored[1], generation, position, mark), {}
  for at, field in ipairs(fields) do
    local record = stored[at + 1]
    if record then
      rows[#rows + 1] = {field, record, redis.call('ZRANGEBYLEX', writes, writes_range(field))}
    end
  end
  local flat = values_of(rows)
  local elements = elements_for(flat, cache_valid and cached_table or '')
  if ttl_ms ~= '0' and #rows > 0 then set_ttl(tonumber(ttl_ms)) end
  return {stored[1] or '', cache_valid and 1 or 0, rows, flat, elements}
end
"""

_READ: Final = THREAD + HEADERS + _GAPS + _VALUES + _REPLY

_LATEST: Final = Script(
    _READ
    + r"""
return reply(newest(ARGV[6]))
"""
)

_GIVEN: Final = Script(_READ + "return reply({unpack(ARGV, 6)})")

_FIELDS_OF_PAGE: Final = r"""
local name, before, limit = unpack(ARGV, 6, 8)

-- The bound of the members older than a checkpoint, or nil if it is not stored. It may be in an enclosing
-- namespace: to replay from a checkpoint, LangGraph lists those of a subgraph before it.
local function bound_of(id)
  local outer = name
  local record = redis.call('HGET', records, outer .. '\0' .. id)
  while not record and outer ~= '' do
    outer = string.match(outer, '^(.*)|') or ''
    record = redis.call('HGET', records, outer .. '\0' .. id)
  end
  local number = record and number_before(record)
  return number and name .. '\0' .. (number ~= '' and number or id)
end

local bound, fields = name .. COUNTER, {}
if before ~= '' then bound = bound_of(before) end
for at, member in ipairs(bound and newest_members(name, bound, limit) or {}) do
  fields[at] = field_of(member)
end
"""

_PAGE: Final = Script(_READ + _FIELDS_OF_PAGE + "return reply(fields)")

_RECORDS: Final = "return {fields, #fields > 0 and redis.call('HMGET', records, unpack(fields)) or {}}"
"""Fields and records, without their values."""

_RECORDS_OF_PAGE: Final = Script(_READ + _FIELDS_OF_PAGE + _RECORDS)

_RECORDS_GIVEN: Final = Script(THREAD + "local fields = {unpack(ARGV)}\n" + _RECORDS)

_MEMBERS: Final = Script(THREAD + "return members()")

_HISTORY: Final = Script(
    THREAD
    + HEADERS
    + r"""
local function elements_of(pieces)
  local elements = {}
  each_piece(pieces, function(first, past)
    local span = redis.call('LRANGE', log, first, past - 1)
    for _, element in ipairs(span) do elements[#elements + 1] = element end
  end)
  return elements
end

local name, id, needed = ARGV[1], ARGV[2], {}
for at = 3, #ARGV do needed[ARGV[at]] = true end

local function writes_at(field)
  local selected = {}
  for _, member in ipairs(redis.call('ZRANGEBYLEX', writes, writes_range(field))) do
    local write = string.sub(member, #field + 2)
    local channel = string.match(write, '^[^%z]*%z[^%z]*%z[^%z]*%z([^%z]*)%z')
    if needed[channel] then selected[#selected + 1] = write end
  end
  return selected
end

-- Consecutive ancestors share most versions, so each version is looked up once.
local count_lookup = {}
local function value_of(channel, version)
  local field = name .. '\0' .. channel .. '\0' .. version
  if count_lookup[field] then return false end
  count_lookup[field] = true
  return redis.call('HGET', values, field)
end

-- The stored values of needed channels, which are then needed no longer.
local function seeds_at(head)
  local seeds = {}
  for channel in pairs(needed) do
    local version = version_of(head, channel)
    local value = version and value_of(channel, version)
    if value then
      local elements = string.sub(value, 1, 1) == 'L' and elements_of(value) or {}
      seeds[#seeds + 1] = {channel, value, elements}
    end
  end
  for _, seed in ipairs(seeds) do needed[seed[1]] = nil end
  return seeds
end

if id == '' then
  local field = newest(name)[1]
  if not field then return {} end
  id = string.sub(field, #name + 2)
end
local target = redis.call('HGET', records, name .. '\0' .. id)
id = target and parent_of(header(target)) or ''
local steps = {}
while id ~= '' and next(needed) do
  local field = name .. '\0' .. id
  local record = redis.call('HGET', records, field)
  if not record then break end
  local head = header(record)
  -- Before seeds_at, which removes channels from needed.
  local step_writes = writes_at(field)
  steps[#steps + 1] = {step_writes, seeds_at(head)}
  id = parent_of(head)
end
return steps
"""
)


@dataclass(frozen=True, slots=True)
class Reader:
    """The reader's cached log, and the lifetime that its reads give the thread."""

    keys: CheckpointKeys
    spans: Sequence[Piece]
    """The cached elements, sorted."""
    witness: LogWitness
    ttl_ms: int
    """0 leaves the expiry unchanged."""


def _latest_call(reader: Reader, namespace: bytes) -> ScriptCall:
    """Read the newest checkpoint of a namespace.

    Replies with generation, 1 if the cached log is valid, rows, values and elements. A row is field, record
    and writes; values alternate fields and values; elements alternate a first position and the marked
    elements from there.
    """
    return _read_call(_LATEST, reader, namespace)


def _given_call(reader: Reader, fields: Sequence[bytes]) -> ScriptCall:
    """Read the checkpoints with these fields, in this order. Replies as `_latest_call`."""
    return _read_call(_GIVEN, reader, *fields)


def _page_call(reader: Reader, namespace: bytes, before: bytes, limit: int) -> ScriptCall:
    """Read up to `limit` checkpoints of a namespace, newest first, older than `before` if it is not empty.

    There are none if `before` is stored neither in the namespace nor in an enclosing one.
    """
    return _read_call(_PAGE, reader, namespace, before, limit)


def _records_call(keys: CheckpointKeys, namespace: bytes, before: bytes, limit: int) -> ScriptCall:
    """Read the fields and records of the checkpoints that `_page_call` reads, without their values."""
    no_log = (b"", -1, b"", b"", 0)
    return ScriptCall(_RECORDS_OF_PAGE, keys, (*no_log, namespace, before, limit))


def _members_call(keys: CheckpointKeys) -> ScriptCall:
    """List the members of the thread's index, as `decode_member` takes them."""
    return ScriptCall(_MEMBERS, keys, ())


def _history_call(
    keys: CheckpointKeys, namespace: bytes, checkpoint: bytes, channels: Sequence[bytes]
) -> ScriptCall:
    """Walk up from the parent of a checkpoint (the newest if empty) until each channel has a stored value.

    Replies with a step for each ancestor: its writes to those channels, and channel, value and marked
    elements of each stored value.
    """
    return ScriptCall(_HISTORY, keys, (namespace, checkpoint, *channels))


def _read_call(script: Script, reader: Reader, *args: bytes | int) -> ScriptCall:
    cached_table = encode_table(reader.spans)
    return ScriptCall(script, reader.keys, (*reader.witness, cached_table, reader.ttl_ms, *args))


Row = tuple[bytes, bytes, Sequence[bytes]]
"""A checkpoint's field, record and pending writes."""

SharedValues = dict[int, Any]
"""List elements already returned by one listing, by position."""


class ReadReply:
    """Decodes the checkpoints of one read, with their values."""

    def __init__(
        self, codec: Codec, log: ThreadLog, values: Sequence[bytes], shared: SharedValues | None
    ) -> None:
        """`values` alternates fields and values.

        With `shared`, checkpoints that have an element in common get one object for it. Without, every value
        is a fresh copy, and lists are remembered in `log` for the next put.
        """
        self._codec = codec
        self._log = log
        self._values = dict(zip(values[::2], values[1::2], strict=True))
        self._shared = shared
        self._tables: dict[bytes, list[int]] = {}

    def checkpoint_tuple(self, thread: str, row: Row) -> CheckpointTuple:
        """Return the checkpoint of one row."""
        field, data, members = row
        namespace, identity = map(decode_name, field.split(NUL, 1))
        ref = CheckpointRef(thread, namespace, identity)
        record = self._codec.decode_record(data)
        return CheckpointTuple(
            config=ref.config(),
            checkpoint=self._checkpoint(ref, record),
            metadata=record.metadata,
            parent_config=ref._replace(checkpoint=record.parent).config() if record.parent else None,
            pending_writes=[self._codec.decode_write(member[len(field) + 1 :]) for member in members],
        )

    def _checkpoint(self, ref: CheckpointRef, record: Record) -> Checkpoint:
        values = {}
        for channel, version in record.versions.items():
            field = value_field(ref.namespace, channel, version)
            stored = self._values.get(field)
            if stored is not None:
                values[channel] = self._value((ref.namespace, channel), field, stored)
        separate = {"id": ref.checkpoint, "channel_values": values, "channel_versions": record.versions}
        return cast("Checkpoint", record.body | separate)

    def _value(self, key: tuple[str, str], field: bytes, stored: bytes) -> Any:
        if stored[:1] != LIST:
            return self._codec.load(stored)
        positions = self._tables.get(field)
        if positions is None:
            positions = self._tables[field] = decode_table(stored[1:])
        if self._shared is not None:
            return self._shared_list(positions, self._shared)
        values, self._log.lists[key] = self._log.values(positions, self._codec.load)
        return values

    def _shared_list(self, positions: list[int], shared: SharedValues) -> list[Any]:
        for position in positions:
            if position not in shared:
                shared[position] = self._log.value(position, self._codec.load)
        return [shared[position] for position in positions]


def read_one(context: SaverContext, ref: CheckpointRef) -> Operation[CheckpointTuple | None]:
    """Return the checkpoint, or the newest of the namespace if `ref` names none."""

    def call(reader: Reader) -> ScriptCall:
        if ref.checkpoint:
            return _given_call(reader, [ref.field])
        return _latest_call(reader, encode_name(ref.namespace))

    checkpoints = yield from _read(context, ref.thread, call)
    return checkpoints[0] if checkpoints else None


def read_history(
    context: SaverContext, ref: CheckpointRef, channels: Sequence[str]
) -> Operation[Mapping[str, DeltaChannelHistory]]:
    """Return each channel's writes at the ancestors of `ref`, back to one that has its stored value."""
    if not channels:
        return {}
    codec, keys = context.codec, context.policy.keys(ref.thread)
    names = list(map(encode_name, dict.fromkeys(channels)))
    (steps,) = yield [_history_call(keys, encode_name(ref.namespace), encode_name(ref.checkpoint), names)]
    writes: dict[str, list[PendingWrite]] = {channel: [] for channel in channels}
    histories: dict[str, DeltaChannelHistory] = {channel: {"writes": writes[channel]} for channel in channels}
    for members, seeds in steps:
        for member in reversed(members):
            write = codec.decode_write(member)
            writes[write[1]].append(write)
        for channel, value, elements in seeds:
            is_list = value[:1] == LIST
            histories[decode_name(channel)]["seed"] = (
                [codec.load(strip_mark(element)) for element in elements] if is_list else codec.load(value)
            )
    for newest_first in writes.values():
        newest_first.reverse()
    return histories


def _read(
    context: SaverContext,
    thread: str,
    call: Callable[[Reader], ScriptCall],
    shared: SharedValues | None = None,
) -> Operation[list[CheckpointTuple]]:
    log, policy = context.logs.get(thread), context.policy
    reader = Reader(policy.keys(thread), log.spans, log.witness, policy.read_ttl_ms)
    ((generation, cache_valid, rows, values, elements),) = yield [call(reader)]
    log = context.logs.put(thread, log if cache_valid else ThreadLog(generation))
    if reader.ttl_ms and rows and (index_calls := context.index_calls(thread, log)):
        yield index_calls
        context.remember_entry(log)
    for start, span in zip(elements[::2], elements[1::2], strict=True):
        log.add(start, span)
    reply = ReadReply(context.codec, log, values, shared)
    return [reply.checkpoint_tuple(thread, row) for row in rows]


PAGE_SIZE: Final = 200
"""Checkpoints per round trip: enough to make it cheap, few enough not to block the server."""


class ListFilter(NamedTuple):
    """Filter of a listing; an empty or None field matches everything."""

    thread: str
    namespace: str | None
    checkpoint: str
    before: str
    metadata: Mapping[str, Any]

    def matches(self, metadata: CheckpointMetadata) -> bool:
        """Return whether `metadata` has every required value, of a checkpoint that `before` does not precede.

        A subgraph may store its checkpoints before the one of its parent graph at which it began.
        """
        actual: Mapping[str, Any] = dict(metadata)
        is_later = self.before and self.before in (metadata.get("parents") or {}).values()
        return not is_later and all(actual.get(key) == value for key, value in self.metadata.items())


def list_filter(
    config: RunnableConfig | None, metadata: Mapping[str, Any] | None, before: RunnableConfig | None
) -> ListFilter:
    """Return the filter for the arguments of LangGraph's `list`."""
    configurable = (config or {}).get("configurable") or {}
    older_than = (before or {}).get("configurable") or {}
    return ListFilter(
        thread=str(configurable.get("thread_id") or ""),
        namespace=configurable.get("checkpoint_ns"),
        checkpoint=configurable.get("checkpoint_id") or "",
        before=older_than.get("checkpoint_id") or "",
        metadata=metadata or {},
    )


class Listing:
    """One listing: thread by thread, newest first within a thread."""

    def __init__(self, context: SaverContext, criteria: ListFilter, limit: int | None) -> None:
        self._context = context
        self._criteria = criteria
        self._remaining = limit
        self._threads = deque([criteria.thread]) if criteria.thread else None
        self._start_thread()

    def next_page(self) -> Operation[list[CheckpointTuple]]:
        """Return the next checkpoints; an empty list at the end."""
        if self._threads is None:
            (names,) = yield [thread_index.threads(self._context.policy.thread_index)]
            self._threads = deque(map(decode_name, names))
        while self._threads and (self._remaining is None or self._remaining > 0):
            page = yield from self._fetch(self._threads[0])
            if self._exhausted:
                self._threads.popleft()
                self._start_thread()
            matching = [each for each in page if self._criteria.matches(each.metadata)][: self._remaining]
            if matching:
                self._remaining = None if self._remaining is None else self._remaining - len(matching)
                return matching
        return []

    def _start_thread(self) -> None:
        self._exhausted = False
        self._cursor = self._criteria.before
        self._fields: deque[bytes] | None = None
        self._shared: SharedValues = {}

    def _fetch(self, thread: str) -> Operation[list[CheckpointTuple]]:
        criteria, size = self._criteria, PAGE_SIZE
        if self._remaining is not None and not criteria.metadata:
            size = min(PAGE_SIZE, self._remaining)
        if criteria.namespace is None or criteria.checkpoint or self._fields is not None:
            return (yield from self._fetch_given(thread, size))
        page, fetched = yield from self._fetch_page(thread, criteria.namespace, size)
        if not fetched and self._cursor:
            # Perhaps the cursor was deleted, and the others can only be compared by their ids.
            return (yield from self._fetch_given(thread, size))
        self._exhausted = len(fetched) < size
        if fetched:
            self._cursor = fetched[-1]
        return page

    def _fetch_page(
        self, thread: str, namespace: str, size: int
    ) -> Operation[tuple[list[CheckpointTuple], list[str]]]:
        """Return the checkpoints that match, and the ids of all that were looked at."""
        name, before = encode_name(namespace), encode_name(self._cursor)
        if self._criteria.metadata:
            keys = self._context.policy.keys(thread)
            ((fields, records),) = yield [_records_call(keys, name, before, size)]
            matching = yield from self._fetch_matching(thread, fields, records)
            return matching, [decode_name(field.split(NUL, 1)[1]) for field in fields]

        def call(reader: Reader) -> ScriptCall:
            return _page_call(reader, name, before, size)

        page = yield from _read(self._context, thread, call, self._shared)
        return page, [each.checkpoint["id"] for each in page]

    def _fetch_given(self, thread: str, size: int) -> Operation[list[CheckpointTuple]]:
        """Fetch one checkpoint, or those that no lex range covers in order of age."""
        if self._fields is None:
            self._fields = deque((yield from self._matching_fields(thread)))
        batch = [self._fields.popleft() for _ in range(min(size, len(self._fields)))]
        self._exhausted = not self._fields
        if not batch:
            return []
        if self._criteria.metadata:
            ((fields, records),) = yield [
                ScriptCall(_RECORDS_GIVEN, self._context.policy.keys(thread), batch)
            ]
            return (yield from self._fetch_matching(thread, fields, records))
        return (yield from self._fetch_fields(thread, batch))

    def _fetch_matching(
        self, thread: str, fields: Sequence[bytes], records: Sequence[bytes | None]
    ) -> Operation[list[CheckpointTuple]]:
        """Fetch those checkpoints whose records match: the values of the others are many, and not wanted."""
        decode, criteria = self._context.codec.decode_record, self._criteria
        pairs = zip(fields, records, strict=True)
        matching = [field for field, data in pairs if data and criteria.matches(decode(data).metadata)]
        wanted = matching[: self._remaining]
        return (yield from self._fetch_fields(thread, wanted)) if wanted else []

    def _fetch_fields(self, thread: str, fields: Sequence[bytes]) -> Operation[list[CheckpointTuple]]:
        def call(reader: Reader) -> ScriptCall:
            return _given_call(reader, fields)

        return (yield from _read(self._context, thread, call, self._shared))

    def _matching_fields(self, thread: str) -> Operation[list[bytes]]:
        criteria = self._criteria
        if criteria.checkpoint and criteria.namespace is not None and not self._cursor:
            return [join_names(criteria.namespace, criteria.checkpoint)]
        (data,) = yield [_members_call(self._context.policy.keys(thread))]
        members = _members_before(self._cursor, sorted(map(decode_member, data), reverse=True))
        namespace = None if criteria.namespace is None else encode_name(criteria.namespace) + NUL
        return [
            member.field
            for member in members
            if criteria.checkpoint in {"", member.identity}
            and (namespace is None or member.field.startswith(namespace))
        ]


def _members_before(identity: str, newest_first: Sequence[Member]) -> Sequence[Member]:
    """Return the members older than a checkpoint, compared by their ids if it is not stored; all for none."""
    if not identity:
        return newest_first
    for at, member in enumerate(newest_first, 1):
        if member.identity == identity:
            return newest_first[at:]
    return [member for member in newest_first if member.identity < identity]

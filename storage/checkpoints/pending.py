"""Answers of runs that do not succeed: a thread's pending writes are kept before a run that goes on.

LangGraph stores an answer at the checkpoint that asked, which an earlier run has written, and keeps it until
the task ends. So a later answer would come behind it, and a rollback would leave it (decision 134).
"""

from collections.abc import Collection, Iterator, Sequence
from typing import Final, NamedTuple

from langgraph.types import PregelTask

from callsheet.storage.checkpoints.codec import NUL, encode_name
from callsheet.storage.checkpoints.context import CheckpointRef, Operation, SaverContext
from callsheet.storage.checkpoints.lua import HEADERS, THREAD
from callsheet.storage.checkpoints.writing import FENCED, AttemptFence, takeover_error
from callsheet.storage.redis.scripts import Script, ScriptCall

PENDING: Final = r"""
-- The pending writes from before a run: the run, how the namespaces of its tasks begin, 1 if it failed, and
-- for each checkpoint its field and its writes.
local PENDING, FIRST = '\1p', 4
-- The same from before a run that goes on with the answers of one that failed, which PENDING still tells.
local OWN_PENDING = '\1r'
local ALL = '*'

-- The newest checkpoints of the main graph and of the namespaces that begin so; no other subgraphs are read.
local function newest_fields(beginnings)
  local fields = newest('')
  for _, text in ipairs(beginnings) do
    local bound = text .. '\255\255'
    while bound do
      local member = redis.call('ZREVRANGEBYLEX', ids, '(' .. bound, '[' .. text, 'LIMIT', 0, 1)[1]
      if member then fields[#fields + 1] = field_of(member) end
      bound = member and namespace(member)
    end
  end
  return fields
end

local function pending_at(field) return redis.call('ZRANGEBYLEX', writes, writes_range(field)) end

local function stored_pending(name)
  local stored = redis.call('HGET', records, name or PENDING)
  return stored and cmsgpack.unpack(stored)
end

local function pending_before(run)
  local before = stored_pending()
  return before and before[1] == run and before
end

local function store_pending(before, name)
  return redis.call('HSET', records, name or PENDING, cmsgpack.pack(before))
end

local function add_pending(field, pending, first)
  if redis.call('HEXISTS', records, field) == 0 then return end
  for at = first, #pending do redis.call('ZADD', writes, 0, pending[at]) end
end

-- Remove what is kept for checkpoints that are gone.
local function forget_pending()
  for _, name in ipairs({PENDING, OWN_PENDING}) do
    local before = stored_pending(name)
    local kept = before and {unpack(before, 1, FIRST - 1)}
    for at = FIRST, before and #before or 0 do
      if redis.call('HEXISTS', records, before[at][1]) == 1 then kept[#kept + 1] = before[at] end
    end
    if before then store_pending(kept, name) end
  end
end

local function restore_pending(run)
  local failed, own = pending_before(run), stored_pending(OWN_PENDING)
  local is_own = own and own[1] == run
  local before = is_own and own or failed
  if not before then return end
  for _, field in ipairs(newest_fields(before[2])) do
    redis.call('ZREMRANGEBYLEX', writes, writes_range(field))
  end
  for at = FIRST, #before do
    redis.call('ZREMRANGEBYLEX', writes, writes_range(before[at][1]))
    add_pending(before[at][1], before[at], 2)
  end
  redis.call('HDEL', records, PENDING, OWN_PENDING)
  if is_own and failed then
    failed[3] = 1
    store_pending(failed)
  end
end

-- By task: its interrupt, its answers, and whether it has a result.
local NO_RESULT = {__error__ = true, __scheduled__ = true, __interrupt__ = true, __resume__ = true}
local function tasks_of(field, pending)
  local tasks = {}
  for _, member in ipairs(pending) do
    local write = string.sub(member, #field + 2)
    local name, channel = string.match(write, '^[^%z]*%z([^%z]*)%z[^%z]*%z([^%z]*)%z')
    local task = tasks[name] or {answers = {}}
    tasks[name] = task
    if channel == '__interrupt__' then task.interrupt = member end
    if channel == '__resume__' then table.insert(task.answers, member) end
    task.has_result = task.has_result or not NO_RESULT[channel]
  end
  return tasks
end

-- Whether a task's interrupt has one of the ids, which a comma separates. A task without one asks nothing.
local function has_id(task, names)
  for name in string.gmatch(task.interrupt and names or '', '[^,]+') do
    if string.find(task.interrupt, name, 1, true) then return true end
  end
  return not task.interrupt
end

-- A task that did not end, and asks what it asked before the run, has the answers from before the run; only a
-- task with one of the ids in names if there are names. Returns what tasks ask and asked that went on: the
-- run's answers to them are taken.
local function withdraw_answers(run, names)
  local before, earlier, asked = pending_before(run), {}, {}
  if not before then return asked end
  local fields = newest_fields(before[2])
  for at = FIRST, #before do
    local field = table.remove(before[at], 1)
    earlier[field] = tasks_of(field, before[at])
    fields[#fields + 1] = field
  end
  for _, field in ipairs(fields) do
    for name, task in pairs(tasks_of(field, pending_at(field))) do
      local was = (earlier[field] or {})[name] or {answers = {}}
      if not task.has_result and task.interrupt == was.interrupt then
        local replaced = not names or has_id(task, names)
        for _, answer in ipairs(replaced and task.answers or {}) do redis.call('ZREM', writes, answer) end
        for _, answer in ipairs(replaced and was.answers or {}) do redis.call('ZADD', writes, 0, answer) end
      elseif not task.has_result and task.interrupt then
        -- LangGraph takes the first question's id for any question of the task.
        asked[#asked + 1] = string.sub(task.interrupt, #field + 2)
        if was.interrupt then asked[#asked + 1] = string.sub(was.interrupt, #field + 2) end
      end
    end
  end
  return asked
end

local function pending_now(run, beginnings, given)
  local fields, kept = newest_fields(beginnings), {run, beginnings, 0}
  if given ~= '' then fields[#fields + 1] = given end
  for _, field in ipairs(fields) do
    local pending = pending_at(field)
    table.insert(pending, 1, field)
    if field == given or #pending > 1 then kept[#kept + 1] = pending end
  end
  return kept
end
"""

_KEEP_PENDING: Final = Script(
    THREAD
    + HEADERS
    + PENDING
    + r"""
local epoch, run, given, replaces = unpack(ARGV, 1, 4)
if fenced(epoch) then return -2 end
if redis.call('EXISTS', records) == 0 then return 0 end
local before, continues = stored_pending(), false
if before and before[1] == run then
  -- An earlier attempt at the run may have left its answers.
  before[3] = 0
  store_pending(before)
  return replaces ~= '' and withdraw_answers(run) or {}
end
local beginnings = {}
for at = 5, #ARGV do beginnings[at - 4] = ARGV[at] end
if before and before[3] == 1 then
  if replaces ~= '' then withdraw_answers(before[1], replaces ~= ALL and replaces or nil) end
  local place = newest('')[1]
  for at = FIRST, #before do continues = continues or before[at][1] == place end
end
local now = pending_now(run, beginnings, given)
if continues then
  store_pending(now, OWN_PENDING)
  before[1], before[3] = run, 0
  store_pending(before)
else
  redis.call('HDEL', records, OWN_PENDING)
  store_pending(now)
end
return {}
"""
)

_RELEASE_ANSWERS: Final = Script(
    THREAD
    + HEADERS
    + PENDING
    + r"""
if fenced(ARGV[1]) then return -2 end
local before = pending_before(ARGV[2])
if not before then return 0 end
before[3] = 1
return store_pending(before)
"""
)

_WITHDRAW_ANSWERS: Final = Script(
    THREAD
    + HEADERS
    + PENDING
    + r"""
if fenced(ARGV[1]) then return -2 end
withdraw_answers(ARGV[2])
return 1
"""
)


class ContinuingRun(NamedTuple):
    """A run that goes on with tasks of a thread's state."""

    id: str
    tasks: Sequence[PregelTask]
    answers: Collection[str] | None
    """Ids of the questions that it answers; none if its answer is for any. None without answers."""


def keep_pending(
    context: SaverContext, ref: CheckpointRef, run: ContinuingRun, fence: AttemptFence
) -> Operation[frozenset[str]]:
    """Keep the pending writes from before a run.

    Returns the ids of questions of tasks that its earlier attempt brought to another one: answers are taken.

    The run adds its own to them, at checkpoints of earlier runs: `delete_for_runs` restores what there was.
    A run with answers first takes back those of its earlier attempt, or those that a run which failed gave to
    the same questions; it goes on with the others. Raises `Fenced`.
    """
    given = ref.field if ref.checkpoint else b""
    replaces = "" if run.answers is None else ",".join(run.answers) or "*"
    beginnings = sorted({text for task in run.tasks for text in _subgraphs_of(task)})
    own_keys = (*context.policy.keys(ref.thread), fence.key)
    arguments: list[str | bytes] = [fence.epoch, encode_name(run.id), given, replaces, *beginnings]
    (reply,) = yield [ScriptCall(_KEEP_PENDING, own_keys, arguments)]
    if reply == FENCED:
        raise takeover_error(ref.thread)
    groups = [context.codec.decode_write(write)[2] for write in (reply if isinstance(reply, list) else ())]
    return frozenset(str(each.id) for interrupts in groups for each in interrupts)


def _subgraphs_of(task: PregelTask) -> Iterator[bytes]:
    """Yield how the namespaces of a task's subgraphs begin; one that keeps its own state has no task's id."""
    name = encode_name(task.name)
    yield from (name + encode_name(f":{task.id}"), name + NUL, name + b"|")


def withdraw_answers(context: SaverContext, thread: str, run: str, fence: AttemptFence) -> Operation[None]:
    """Remove the run's answers to questions whose task has not ended: they wait for others.

    LangGraph keeps such answers, and would give them instead of later ones. Twice is safe; raises `Fenced`.
    """
    yield from _fenced_call(context, _WITHDRAW_ANSWERS, thread, run, fence)


def release_answers(context: SaverContext, thread: str, run: str, fence: AttemptFence) -> Operation[None]:
    """Let other answers replace those of a run that failed; until then they stay. Raises `Fenced`."""
    yield from _fenced_call(context, _RELEASE_ANSWERS, thread, run, fence)


def _fenced_call(
    context: SaverContext, script: Script, thread: str, run: str, fence: AttemptFence
) -> Operation[None]:
    own_keys = (*context.policy.keys(thread), fence.key)
    (reply,) = yield [ScriptCall(script, own_keys, (fence.epoch, encode_name(run)))]
    if reply == FENCED:
        raise takeover_error(thread)

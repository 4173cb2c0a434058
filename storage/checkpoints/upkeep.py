"""Taking checkpoints away, and copying threads."""

from collections.abc import Sequence

from state.errors import Invalid
from storage.checkpoints import register
from storage.checkpoints import upkeep_scripts as scripts
from storage.checkpoints.books import Books
from storage.checkpoints.message_log import fresh_mark
from storage.checkpoints.records import name, text
from storage.checkpoints.round_trips import Exchange


def prune(books: Books, thread: str, strategy: str) -> Exchange[None]:
    """Keep what a thread needs to go on (`keep_latest`), or nothing (`delete`)."""
    if strategy == "delete":
        return delete(books, thread)
    if strategy == "keep_latest":
        return keep_latest(books, thread)
    remedy = "Use 'keep_latest' or 'delete'."
    raise Invalid(f"there is no strategy {strategy!r} of pruning", remedy=remedy)


def delete(books: Books, thread: str) -> Exchange[None]:
    """Take away the whole thread."""
    rules = books.rules
    yield [register.forget(rules.register, name(thread)), scripts.delete(rules.keys(thread))]
    books.logs.forget([thread])


def keep_latest(books: Books, thread: str) -> Exchange[None]:
    """Keep the newest checkpoint of each namespace, and the ancestors its values are made from."""
    yield [scripts.keep_latest(books.rules.keys(thread), fresh_mark())]


def delete_for_runs(books: Books, runs: Sequence[str]) -> Exchange[None]:
    """Take away every checkpoint of the runs, on whichever thread.

    A thread that loses its last checkpoint stays in the register: another process may be writing to it.
    """
    rules, names = books.rules, list(map(name, runs))
    if not names:
        return
    (threads,) = yield [register.threads_of_runs(rules.register, names)]
    if threads:
        keys = [rules.keys(text(thread)) for thread in threads]
        yield [scripts.without_runs(each, fresh_mark(), names) for each in keys]
        yield [register.forget_runs(rules.register, names)]


def copy(books: Books, source: str, target: str) -> Exchange[None]:
    """Make `target` a copy of `source`, whatever it was; a source that does not exist changes nothing."""
    if source == target:
        return
    rules = books.rules
    entry = register.enter_copy(rules.register, name(source), rules.entry_ttl_ms, name(target))
    if rules.clustered:
        (dumps,) = yield [scripts.dump(rules.keys(source))]
        if dumps:
            yield [entry, scripts.restore(rules.keys(target), dumps, fresh_mark(), rules.ttl_ms)]
    else:
        keys = rules.keys(source), rules.keys(target)
        _, copied = yield [entry, scripts.copy(*keys, fresh_mark(), rules.ttl_ms)]
        if copied == scripts.NOTHING:
            yield [register.forget(rules.register, name(target))]

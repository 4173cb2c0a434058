"""Tests in several processes that part when all is collected: what is imported and collected is so only once.

A process takes the next group of tests as soon as it is free. What happened in it is told as pytest's own
reports, so whoever reads those (the terminal, `-x`, `--lf`, `--durations`) need not know of processes.
"""

import os
import signal
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from multiprocessing import get_context
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from typing import Any, Final

import pytest

_PLACE: Final = 4
"""Bytes that say which group is next. A pipe gives so few to one reader whole."""
_PATIENCE: Final = 20.0
"""Seconds that a process that is told to stop has to take down what its tests had set up."""

Group = list[pytest.Item]
Location = tuple[str, int | None, str]


@dataclass
class _Done:
    """What came of a test."""

    nodeid: str
    location: Location
    reports: list[dict[str, Any]] = field(default_factory=list)
    """As pytest spells them for another process."""


class Telling:
    """What a process tells of its tests: which it begins, and what came of it."""

    def __init__(self, config: pytest.Config, told: "Connection[Any, Any]") -> None:
        self._config = config
        self._told = told
        self._done = _Done("", ("", None, ""))

    def pytest_runtest_logstart(self, nodeid: str, location: Location) -> None:
        self._done = _Done(nodeid, location)
        self._told.send((nodeid, location))

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        spelt = self._config.hook.pytest_report_to_serializable(config=self._config, report=report)
        self._done.reports.append(spelt)

    def pytest_runtest_logfinish(self) -> None:
        self._told.send(self._done)


@dataclass
class _Worker:
    """One of the processes, seen from the one that collected."""

    process: BaseProcess
    told: "Connection[Any, Any]"
    begun: tuple[str, Location] | None = None
    """The test it is at."""

    def news(self) -> Iterator[_Done]:
        """The tests that it has told of, as far as they have come."""
        while self.told.poll():
            try:
                news = self.told.recv()
            except EOFError:
                return
            if isinstance(news, _Done):
                self.begun = None
                yield news
            else:
                self.begun = news

    def broken_off(self, config: pytest.Config) -> Iterator[_Done]:
        """The test that it was at when it ended, or itself if it failed between tests or after the last."""
        self.process.join()
        if self.begun or self.process.exitcode:
            at = self.begun or (self.process.name, ("", None, ""))
            yield _failed(config, *at, f"its process ended with {self.process.exitcode}")

    def stop(self) -> None:
        """End it, as Ctrl-C would if it is at a test."""
        if self.process.pid and self.process.is_alive():
            os.kill(self.process.pid, signal.SIGINT)
        self.process.join(_PATIENCE)
        self.process.kill()
        self.process.join()


class Forking:
    """Runs the collected tests in several processes.

    Tests of one group run in one process, one after the other; `group` names it by a test's id.
    """

    def __init__(self, processes: int, group: Callable[[str], str]) -> None:
        self._processes = processes
        self._group = group

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool | None:
        if session.testsfailed or session.config.option.collectonly:
            return None  # pytest's own loop knows what to say
        left = {item.nodeid for item in session.items}
        workers: list[_Worker] = []
        try:
            workers.extend(self._parted(session))
            for done in _told(workers, session.config):
                left.discard(done.nodeid)
                _replay(session, done)
            for item in session.items:
                if item.nodeid in left:
                    why = "it did not run: the process that should have run it ended"
                    _replay(session, _failed(session.config, item.nodeid, item.location, why))
        finally:
            for worker in workers:
                worker.stop()
        return True

    def _parted(self, session: pytest.Session) -> Iterator[_Worker]:
        # Made before the processes part, so that all of them use the same.
        session.config._tmp_path_factory.getbasetemp()  # type: ignore[attr-defined]  # pytest has no public way
        groups, fork = self._groups(session.items), get_context("fork")
        places, free = os.pipe()
        os.write(free, b"".join(place.to_bytes(_PLACE, "big") for place in range(len(groups))))
        os.close(free)
        for _ in range(min(self._processes, len(groups))):
            told, telling = fork.Pipe(duplex=False)
            process = fork.Process(target=_work, args=(session, _next(groups, places), telling))
            process.start()
            telling.close()
            yield _Worker(process, told)
        os.close(places)

    def _groups(self, items: Iterable[pytest.Item]) -> list[Group]:
        """The largest first, so that none is left alone with one."""
        groups: dict[str, Group] = defaultdict(list)
        for item in items:
            groups[self._group(item.nodeid)].append(item)
        return sorted(groups.values(), key=len, reverse=True)


def _next(groups: Sequence[Group], places: int) -> Iterator[Group]:
    """The groups that nobody has taken yet."""
    while place := os.read(places, _PLACE):
        yield groups[int.from_bytes(place, "big")]


def _work(session: pytest.Session, groups: Iterator[Group], telling: "Connection[Any, Any]") -> None:
    """Run the tests here, in a process of its own."""
    config = session.config
    config.workerinput = {}  # type: ignore[attr-defined]  # by this, pytest knows that another writes its files
    config.pluginmanager.unregister(name="terminalreporter")
    config.pluginmanager.register(Telling(config, telling))
    # What was printed goes to a file; each process needs one of its own.
    capture: Any = config.pluginmanager.getplugin("capturemanager")
    capture.stop_global_capturing()
    capture.start_global_capturing()
    try:
        for group in groups:
            # Whichever test comes next is of another file; what is set up for all of them stays.
            for item, following in zip(group, [*group[1:], session], strict=True):
                config.hook.pytest_runtest_protocol(item=item, nextitem=following)
        config.hook.pytest_sessionfinish(session=session, exitstatus=pytest.ExitCode.OK)
    except KeyboardInterrupt:
        config.hook.pytest_sessionfinish(session=session, exitstatus=pytest.ExitCode.INTERRUPTED)
    finally:
        # What goes wrong after the last test is printed where it can be read.
        capture.stop_global_capturing()


def _told(workers: Sequence[_Worker], config: pytest.Config) -> Iterator[_Done]:
    """What all of them tell, until the last has ended; of a test that ended its process, too."""
    running = list(workers)
    while running:
        ready = wait([one.told for one in running] + [one.process.sentinel for one in running])
        for worker in list(running):
            yield from worker.news()
            if worker.process.sentinel in ready:
                running.remove(worker)
                yield from worker.broken_off(config)


def _failed(config: pytest.Config, nodeid: str, location: Location, why: str) -> _Done:
    report = pytest.TestReport(nodeid, location, {}, "failed", why, "call")
    return _Done(nodeid, location, [config.hook.pytest_report_to_serializable(config=config, report=report)])


def _replay(session: pytest.Session, done: _Done) -> None:
    """Tell pytest here what happened there."""
    config = session.config
    config.hook.pytest_runtest_logstart(nodeid=done.nodeid, location=done.location)
    for spelt in done.reports:
        report = config.hook.pytest_report_from_serializable(config=config, data=spelt)
        config.hook.pytest_runtest_logreport(report=report)
    config.hook.pytest_runtest_logfinish(nodeid=done.nodeid, location=done.location)
    if session.shouldfail:
        raise session.Failed(session.shouldfail)
    if session.shouldstop:
        raise session.Interrupted(session.shouldstop)

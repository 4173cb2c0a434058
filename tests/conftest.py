"""Fixtures of all tests; the session has one real Valkey, emptied before each test and checked after it."""

import asyncio
import gc
import os
import shutil
import tempfile
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, settings
from redis import Redis

from callsheet.storage import Storage, connect, use
from callsheet.storage.embedded import server as embedded
from tests.doubles.chat_double import ChatDouble
from tests.doubles.key_leaks import leaks
from tests.doubles.killing import KillableServer, KillingProxy, WarmParent
from tests.doubles.waiting import until

if TYPE_CHECKING:
    from httpx import AsyncClient
    from langgraph.pregel import Pregel
    from langgraph_sdk.client import LangGraphClient

    from tests.lessons.lesson_client import LessonClient
    from tests.lessons.lesson_drivers import LessonDriver
    from tests.video.video_double import PlanningModel, VideoClient

# Imported modules stay, so searching them for garbage again and again would be an eighth of all the work.
gc.set_threshold(100_000, 20, 50)

# A model server on this machine must not answer a test by accident.
os.environ["OLLAMA_DISCOVERY"] = "off"

# Tests name the authority that they trust; reading all the authorities of the machine costs each
# client 20 ms and more, and there are thousands.
os.environ["SSL_CERT_FILE"] = str(Path(__file__).with_name("authority.pem"))


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--long", action="store_true", help="run all of the tests that are otherwise sampled")
    slow = "also run tests that take half a second or need programs beside PyPI; the default with CI set"
    parser.addoption("--slow", action="store_true", default=bool(os.environ.get("CI")), help=slow)


def pytest_configure(config: pytest.Config) -> None:
    if not config.getoption("--long"):
        # A busy machine is no failure.
        slow = [HealthCheck.too_slow]
        settings.register_profile("quick", max_examples=30, deadline=None, suppress_health_check=slow)
        settings.load_profile("quick")


# Wraps the other plugins, so that it sorts after pytest-randomly has shuffled.
@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> "Iterator[None]":
    yield
    long = config.getoption("--long")
    slow = long or config.getoption("--slow")
    for item in items:
        if item.get_closest_marker("local_llm") and not os.environ.get("CALLSHEET_LOCAL_LLM_URL"):
            item.add_marker(pytest.mark.skip(reason="runs where CALLSHEET_LOCAL_LLM_URL is set"))
        if item.get_closest_marker("long") and not long:
            item.add_marker(pytest.mark.skip(reason="runs with --long only"))
        elif item.get_closest_marker("slow") and not slow:
            item.add_marker(pytest.mark.skip(reason="runs with --slow, and in CI"))
    # Files that take a minute or two come first, the longest of them before others, so that none starts last.
    limits_s: dict[Path, float] = {}
    for item in items:
        if marker := item.get_closest_marker("timeout"):
            limits_s[item.path] = max(limits_s.get(item.path, 0), marker.args[0])
    items.sort(key=lambda item: -limits_s.get(item.path, 0))


def pytest_collection_finish() -> None:
    gc.freeze()


@pytest.fixture(scope="session")
def valkey_url() -> Iterator[str]:
    """The URL of this process's own server, `unix://…?db=0`.

    It is empty when a test begins, and a test may leave only keys that storage/redis/key_table.py declares.
    """
    # Not pytest's own folder: with the test's name in it, the path may be too long for a socket.
    folder = Path(tempfile.mkdtemp(prefix="callsheet-test-"))
    lease = embedded.ensure_running(folder)
    try:
        yield f"{lease.url}?db=0"
    finally:
        lease.close()
        until(lambda: not embedded.is_running(folder), "the end of the session's server")
        shutil.rmtree(folder)


@pytest.fixture
async def storage(valkey_url: str) -> AsyncIterator[Storage]:
    """A connection to the session's server."""
    async with connect(valkey_url) as storage:
        yield storage


@pytest.fixture(scope="module")
def redis() -> Iterator[str]:
    """The URL of a Redis for all tests of the file, which is not emptied between them."""
    from tests.doubles.wire_served import running_redis_for_file

    with running_redis_for_file() as url:
        yield url


@pytest.fixture(scope="module")
def url(redis: str, request: pytest.FixtureRequest) -> Iterator[str]:
    """The URL of a server on that Redis, with the file's `GRAPHS`."""
    from tests.doubles.wire_server import running_server

    with running_server(redis, request.module.GRAPHS) as address:
        yield address


@pytest.fixture
async def used(redis: str) -> AsyncIterator[Storage]:
    """The file's storage, as the one that `storage.current()` returns in this process."""
    async with connect(redis) as storage:
        use(storage)
        yield storage
        use(None)


@pytest.fixture
async def client(url: str) -> "AsyncIterator[LangGraphClient]":
    """A client of LangGraph's SDK for the file's server."""
    from langgraph_sdk import get_client

    async with get_client(url=url) as sdk_client:
        yield sdk_client


@pytest.fixture
async def http(url: str) -> "AsyncIterator[AsyncClient]":
    """A plain HTTP client of the file's server."""
    from httpx import AsyncClient

    async with AsyncClient(base_url=url, timeout=20) as http_client:
        yield http_client


@pytest.fixture
def lesson_client(http: "AsyncClient") -> "LessonClient":
    """A client of the lesson API without a session."""
    from tests.lessons.lesson_client import LessonClient

    return LessonClient(http)


@pytest.fixture(
    params=(
        "graph",
        pytest.param("sdk", marks=pytest.mark.slow),
        pytest.param("rest", marks=pytest.mark.slow),
    )
)
def lesson_driver(
    request: pytest.FixtureRequest, used: Storage, client: "LangGraphClient", lesson_client: "LessonClient"
) -> "LessonDriver":
    """Drives a lesson by the graph, LangGraph's SDK or REST."""
    from tests.lessons.lesson_drivers import GraphDriver, RestDriver, SdkDriver

    if request.param == "graph":
        return GraphDriver(used)
    return SdkDriver(used, client) if request.param == "sdk" else RestDriver(used, lesson_client)


@pytest.fixture(scope="session")
def warm_parent() -> Iterator[WarmParent]:
    """Starts processes that tests kill, by forking a process that has imported everything."""
    with WarmParent() as parent:
        yield parent


@pytest.fixture
async def killable_server(warm_parent: WarmParent, valkey_url: str) -> AsyncIterator[KillableServer]:
    """Servers that are killed at a chosen message to Redis, and whose runs others take over."""
    target = valkey_url.removeprefix("unix://").split("?")[0]
    async with KillingProxy(f"{target}-proxy-{os.getpid()}", target) as proxy:
        yield KillableServer(warm_parent, proxy, valkey_url)
    # From Python 3.13 on a server removes its socket itself.
    await asyncio.to_thread(Path(proxy.path).unlink, missing_ok=True)


@pytest.fixture(scope="session")
def inspector(valkey_url: str) -> Iterator[Redis]:
    """A connection that checks the session's server between the tests."""
    with Redis.from_url(valkey_url) as server:
        yield server


@pytest.fixture(autouse=True)
def declared_keys(request: pytest.FixtureRequest) -> Iterator[None]:
    """Empty the server before and after a test that uses it; fail the test if it leaves undeclared keys.

    After it too: a module's own server starts before its first test does.
    """
    if "valkey_url" not in request.fixturenames:
        yield
        return
    server: Redis = request.getfixturevalue("inspector")
    server.flushall()
    yield
    undeclared = leaks(server)
    server.flushall()
    assert not undeclared, "\n".join(undeclared)


@pytest.fixture
async def opened(storage: Storage) -> AsyncIterator[Storage]:
    """The test's storage, as the one that `storage.current()` returns to tools and nodes."""
    use(storage)
    yield storage
    use(None)


@pytest.fixture
def model(monkeypatch: pytest.MonkeyPatch) -> Iterator[ChatDouble]:
    """A scripted endpoint of a vendor; the environment points OpenAI's provider to it."""
    with ChatDouble() as double:
        for name, value in double.environ.items():
            monkeypatch.setenv(name, value)
        yield double


@pytest.fixture
def graph(opened: Storage) -> "Pregel[Any, Any]":
    """The audio-ad workflow with a checkpointer on the test's storage."""
    # A test that needs no graph should not wait for LangGraph.
    from callsheet.graphs import ad_creation
    from callsheet.storage.checkpoints import RedisSaver

    return ad_creation.graph.copy(update={"checkpointer": RedisSaver(opened.redis)})


@pytest.fixture
async def api(valkey_url: str) -> "AsyncIterator[AsyncClient]":
    """A client of the complete application on the session's server, called in process."""
    from tests.doubles.served import served_app

    async with served_app(valkey_url) as http_client:
        yield http_client


@pytest.fixture
def planning_model(monkeypatch: pytest.MonkeyPatch) -> "Iterator[PlanningModel]":
    """A model whose plans the test scripts; projects created from now on use it."""
    from tests.video.video_double import PlanningModel

    with PlanningModel() as double:
        for name, value in double.environ.items():
            monkeypatch.setenv(name, value)
        yield double
        double.release()


@pytest.fixture
async def video(api: "AsyncClient", planning_model: "PlanningModel") -> "VideoClient":
    """A new project of four scenes, edited by the director's plans."""
    from tests.video.video_double import VideoClient

    video_client = VideoClient(api, planning_model)
    await video_client.create()
    return video_client

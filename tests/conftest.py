"""What every test gets: one real Valkey for the session, emptied before each test and inspected after it."""

import asyncio
import gc
import os
import shutil
import tempfile
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import settings
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

# What is imported stays, so going through it for garbage again and again is an eighth of all the work.
gc.set_threshold(100_000, 20, 50)

# A model server that runs on this machine answers no test that does not ask for it.
os.environ["OLLAMA_DISCOVERY"] = "off"

# Whatever a test speaks TLS with it trusts by name; reading all the authorities of the machine costs each
# client 20 ms and more, and there are thousands.
os.environ["SSL_CERT_FILE"] = str(Path(__file__).with_name("authority.pem"))


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--long", action="store_true", help="run the whole of tests that are otherwise sampled")
    slow = "run tests that take a second or programs from beside PyPI, too; on by itself where CI is set"
    parser.addoption("--slow", action="store_true", default=bool(os.environ.get("CI")), help=slow)


def pytest_configure(config: pytest.Config) -> None:
    if not config.getoption("--long"):
        settings.register_profile("quick", max_examples=30)
        settings.load_profile("quick")


# Around the other plugins, of which pytest-randomly shuffles.
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
    # The files that take a minute or two come first, so that no process is left with one at the end.
    long_files = {item.path for item in items if item.get_closest_marker("timeout")}
    items.sort(key=lambda item: item.path not in long_files)


def pytest_collection_finish() -> None:
    gc.freeze()


@pytest.fixture(scope="session")
def valkey_url() -> Iterator[str]:
    """A server of this process's own, `unix://…?db=0`.

    A test that uses it finds it empty and must leave nothing that storage/redis/keys.py does not declare.
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
    """A connection to the session's server, which is empty when the test begins."""
    async with connect(valkey_url) as opened:
        yield opened


@pytest.fixture(scope="module")
def redis() -> Iterator[str]:
    """A Redis for the whole file, which nothing empties."""
    from tests.doubles.wire_served import running_redis_for_file

    with running_redis_for_file() as found:
        yield found


@pytest.fixture(scope="module")
def url(redis: str, request: pytest.FixtureRequest) -> Iterator[str]:
    """A server on it, of the graphs that the file calls `GRAPHS`."""
    from tests.doubles.wire_server import running_server

    with running_server(redis, request.module.GRAPHS) as found:
        yield found


@pytest.fixture
async def used(redis: str) -> AsyncIterator[Storage]:
    """The storage of the whole file, in use here, too."""
    async with connect(redis) as found:
        use(found)
        yield found
        use(None)


@pytest.fixture
async def client(url: str) -> "AsyncIterator[LangGraphClient]":
    """LangGraph's own client of the server that the file calls `url`."""
    from langgraph_sdk import get_client

    async with get_client(url=url) as found:
        yield found


@pytest.fixture
async def http(url: str) -> "AsyncIterator[AsyncClient]":
    """A client of the same server that knows nothing but HTTP."""
    from httpx import AsyncClient

    async with AsyncClient(base_url=url, timeout=20) as found:
        yield found


@pytest.fixture
def lesson_client(http: "AsyncClient") -> "LessonClient":
    """A client of the REST endpoints of lessons, without a session yet."""
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
    """A lesson, driven by the graph itself, by LangGraph's client and over REST."""
    from tests.lessons.lesson_drivers import GraphDriver, RestDriver, SdkDriver

    if request.param == "graph":
        return GraphDriver(used)
    return SdkDriver(used, client) if request.param == "sdk" else RestDriver(used, lesson_client)


@pytest.fixture(scope="session")
def warm_parent() -> Iterator[WarmParent]:
    """What starts processes that are there to be killed; it has imported everything once."""
    with WarmParent() as parent:
        yield parent


@pytest.fixture
async def killable_server(warm_parent: WarmParent, valkey_url: str) -> AsyncIterator[KillableServer]:
    """Servers to be killed at a chosen message to Redis, and to go on elsewhere."""
    target = valkey_url.removeprefix("unix://").split("?")[0]
    async with KillingProxy(f"{target}-proxy-{os.getpid()}", target) as proxy:
        yield KillableServer(warm_parent, proxy, valkey_url)
    # From Python 3.13 on a server removes its socket itself.
    await asyncio.to_thread(Path(proxy.path).unlink, missing_ok=True)


@pytest.fixture(scope="session")
def inspector(valkey_url: str) -> Iterator[Redis]:
    """A connection that looks at the session's server between the tests."""
    with Redis.from_url(valkey_url) as server:
        yield server


@pytest.fixture(autouse=True)
def declared_keys(request: pytest.FixtureRequest) -> Iterator[None]:
    """Empty the server before a test that uses it, and fail the test for every key it leaves undeclared."""
    if "valkey_url" not in request.fixturenames:
        yield
        return
    server: Redis = request.getfixturevalue("inspector")
    server.flushall()
    yield
    assert not (found := leaks(server)), "\n".join(found)


@pytest.fixture
async def opened(storage: Storage) -> AsyncIterator[Storage]:
    """The test's storage, in use: what `storage.current()` returns to tools and nodes."""
    use(storage)
    yield storage
    use(None)


@pytest.fixture
def model(monkeypatch: pytest.MonkeyPatch) -> Iterator[ChatDouble]:
    """A vendor's endpoint at the wire; the environment points OpenAI's provider to it."""
    with ChatDouble() as double:
        for name, value in double.environ.items():
            monkeypatch.setenv(name, value)
        yield double


@pytest.fixture
def graph(opened: Storage) -> "Pregel[Any, Any]":
    """The audio-ad workflow, remembering in the test's storage."""
    # A test that needs no graph should not wait for LangGraph.
    from callsheet.graphs import ad_creation
    from callsheet.storage.checkpoints import RedisSaver

    return ad_creation.graph.copy(update={"checkpointer": RedisSaver(opened.redis)})


@pytest.fixture
async def api(valkey_url: str) -> "AsyncIterator[AsyncClient]":
    """A client of the whole application on the session's server, called without a network."""
    from tests.doubles.served import served_app

    async with served_app(valkey_url) as found:
        yield found


@pytest.fixture
def planning_model(monkeypatch: pytest.MonkeyPatch) -> "Iterator[PlanningModel]":
    """A model that plans what the test says; a project that is made now uses it."""
    from tests.video.video_double import PlanningModel

    with PlanningModel() as one:
        for name, value in one.environ.items():
            monkeypatch.setenv(name, value)
        yield one
        one.release()


@pytest.fixture
async def video(api: "AsyncClient", planning_model: "PlanningModel") -> "VideoClient":
    """A new project of four scenes, edited by the director's plans."""
    from tests.video.video_double import VideoClient

    one = VideoClient(api, planning_model)
    await one.create()
    return one

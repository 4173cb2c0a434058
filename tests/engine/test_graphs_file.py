"""The graphs file (`langgraph.json`): the graphs that it may name, its settings, and its errors."""

import importlib
import json
import os
import sys
from collections.abc import Iterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.pregel import Pregel
from langgraph.store.memory import InMemoryStore
from langgraph_sdk import get_client

from callsheet.server.app import create_app
from callsheet.server.engine import graph_loading, graphs_file
from callsheet.server.settings.settings import Settings, read_settings
from callsheet.state.errors import Invalid
from callsheet.storage import Storage
from callsheet.storage.checkpoints import RedisSaver
from callsheet.storage.store import RedisStore
from tests.doubles.command import command_in_process
from tests.doubles.wire_graphs import GRAPHS
from tests.doubles.wire_server import running_server

ROOT = Path(__file__).parents[2]
NAMES = [*json.loads((ROOT / "langgraph.json").read_text())["graphs"]]
CODE = '''
"""Graphs in every form a file may have them in."""
import os
from contextlib import asynccontextmanager, contextmanager
from typing_extensions import TypedDict
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.func import entrypoint
from langgraph.graph import START, StateGraph
from langgraph.store.memory import InMemoryStore

class Count(TypedDict):
    x: int

builder = StateGraph(Count)
builder.add_node("add", lambda state: {"x": state["x"] + 1})
builder.add_edge(START, "add")
compiled = builder.compile()
named = builder.compile(name="theirs")
closed = []

def plain():
    return builder

def configured(config):
    assert config == {"configurable": {}}
    return compiled

async def later():
    return builder.compile()

@asynccontextmanager
async def opened():
    yield compiled
    closed.append("opened")

@contextmanager
def held(config=None):
    yield builder
    closed.append("held")

@entrypoint()
def steps(x: int) -> int:
    return x + 1

def greedy(one, two):
    return compiled

def broken():
    raise RuntimeError("no weather today")

kept = builder.compile(checkpointer=InMemorySaver(), store=InMemoryStore())
from_environment = os.environ.get("TEST_GRAPHS_NEW")
number = 7
'''
FORMS = ("builder", "compiled", "named", "plain", "configured", "later", "opened", "held", "steps")


@pytest.fixture(autouse=True)
def restored_imports() -> Iterator[None]:
    path_before, modules = list(sys.path), set(sys.modules)
    yield
    sys.path[:] = path_before
    for name in set(sys.modules) - modules:
        if name.startswith(("forms", "local_forms")):
            del sys.modules[name]


def write_project(folder: Path, graphs: Any = None, **more: Any) -> Path:
    (folder / "forms.py").write_text(CODE)
    file = folder / "langgraph.json"
    file.write_text(json.dumps({"graphs": graphs or {name: f"./forms.py:{name}" for name in FORMS}, **more}))
    return file


async def load_graphs(file: Path) -> dict[str, Pregel[Any, Any]]:
    async with AsyncExitStack() as stack:
        return await graph_loading.load_graphs(graphs_file.read_graphs_file(file), stack)


async def test_graphs_of_every_form_that_langgraph_accepts_are_loaded(tmp_path: Path) -> None:
    graphs = await load_graphs(write_project(tmp_path))
    assert tuple(graphs) == FORMS
    for name in FORMS:
        assert isinstance(graphs[name], Pregel), name
    for name in FORMS[:-1]:
        assert await graphs[name].ainvoke({"x": 1}) == {"x": 2}, name
    assert await graphs["steps"].ainvoke(1) == 2


async def test_a_module_is_imported_once_and_its_context_managers_are_closed_at_the_end(
    tmp_path: Path,
) -> None:
    file = graphs_file.read_graphs_file(write_project(tmp_path))
    async with AsyncExitStack() as stack:
        graphs = await graph_loading.load_graphs(file, stack)
        [module] = [loaded for name, loaded in sys.modules.items() if name.startswith("forms_")]
        assert graphs["compiled"] is graphs["opened"] is module.compiled
        assert module.closed == []
    assert module.closed == ["held", "opened"]


async def test_a_module_is_imported_from_the_folder_of_the_file_or_its_dependencies(tmp_path: Path) -> None:
    (tmp_path / "lib" / "local_forms").mkdir(parents=True)
    (tmp_path / "lib" / "local_forms" / "__init__.py").write_text(CODE)
    graphs = {"one": "local_forms:compiled", "two": {"path": "forms:builder", "description": "Counts"}}
    loaded = await load_graphs(write_project(tmp_path, graphs, dependencies=["./lib", "langchain"]))
    assert [await graph.ainvoke({"x": 1}) for graph in loaded.values()] == [{"x": 2}, {"x": 2}]


async def test_environment_variables_of_the_file_are_set_before_its_graphs_are_imported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TEST_GRAPHS_KEPT", "mine")
    monkeypatch.delenv("TEST_GRAPHS_NEW", raising=False)
    (tmp_path / "vars").write_text("TEST_GRAPHS_NEW=yes\nTEST_GRAPHS_KEPT=theirs\n")
    await load_graphs(write_project(tmp_path, env="vars"))
    [module] = [loaded for name, loaded in sys.modules.items() if name.startswith("forms_")]
    assert module.from_environment == "yes"
    assert os.environ["TEST_GRAPHS_KEPT"] == "mine"
    monkeypatch.delenv("TEST_GRAPHS_NEW")
    assert graphs_file.read_graphs_file(write_project(tmp_path, env={"A": 1})).env == {"A": "1"}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{bad", "is not JSON"),
        ("[]", "is not a JSON object"),
        ("{}", "has no 'graphs'"),
        ('{"graphs": {}}', "has no 'graphs'"),
        ('{"graphs": {"a": 7}}', "has 7 for graph 'a'"),
        ('{"graphs": {"a": "./forms.py"}}', "has './forms.py' for graph 'a'"),
        ('{"graphs": {"a": "./none.py:graph"}}', "which is not a file"),
        ('{"graphs": {"a": "m:graph"}, "env": "none"}', "has 'none' for 'env'"),
    ],
)
def test_an_invalid_file_is_refused_when_the_app_is_created(tmp_path: Path, text: str, message: str) -> None:
    file = tmp_path / "langgraph.json"
    file.write_text(text)
    with pytest.raises(Invalid) as caught:
        create_app(Settings(config=file))
    assert str(file) in caught.value.message
    assert message in caught.value.message
    assert caught.value.remedy


def test_a_missing_file_is_named_in_the_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CALLSHEET_CONFIG", "/nowhere/langgraph.json")
    with pytest.raises(Invalid, match="cannot be read: No such file"):
        create_app(read_settings())


PROTECTED: list[tuple[dict[str, Any], str]] = [
    ({"auth": {"path": "./auth.py:auth"}}, "has 'auth'"),
    ({"auth": {"path": "./auth.py:auth", "disable_studio_auth": True}}, "has 'auth'"),
    ({"auth": {"path": ""}}, "has 'auth'"),
    ({"auth": {"paht": "./auth.py:auth"}}, "has 'auth'"),
    ({"auth": "./auth.py:auth"}, "has 'auth'"),
    ({"encryption": {"path": "./encryption.py:encryption"}}, "has 'encryption'"),
    ({"encryption": {"paht": "./encryption.py:encryption"}}, "has 'encryption'"),
    ({"encryption": True}, "has 'encryption'"),
]


@pytest.mark.parametrize(("keys", "rule"), PROTECTED)
def test_a_project_protected_by_langgraphs_auth_or_encryption_is_not_served_without_it(
    tmp_path: Path, keys: dict[str, Any], rule: str
) -> None:
    """Otherwise a project that is closed on LangGraph's own server would be open on ours."""
    file = write_project(tmp_path, **keys)
    with pytest.raises(Invalid) as caught:
        create_app(Settings(config=file))
    assert f"{str(file)!r} {rule}" in caught.value.message
    assert "does not" in caught.value.message
    assert "docs/security.md" in caught.value.remedy


@pytest.mark.parametrize(
    "arguments", [("serve", "--port", "0"), ("worker",), ("serve", "--for-terminals", "terminal.sock")]
)
def test_every_command_that_executes_graphs_refuses_a_protected_project(
    arguments: tuple[str, ...],
    valkey_url: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    write_project(tmp_path, auth={"path": "./auth.py:auth"})
    with command_in_process(valkey_url, tmp_path, monkeypatch, capsys) as command:
        result = command(*arguments)
    assert result.code == 1
    assert "langgraph.json' has 'auth'" in " ".join(result.err.split())
    assert "http://" not in result.out


@pytest.mark.parametrize(
    "harmless", [None, {}, {"path": None}, {"disable_studio_auth": True}, {"openapi": {}, "cache": {}}]
)
def test_an_auth_key_without_a_path_protects_nothing_and_is_accepted(
    tmp_path: Path, harmless: dict[str, Any] | None
) -> None:
    """LangGraph's own server enforces nothing without a path either."""
    assert graphs_file.read_graphs_file(write_project(tmp_path, auth=harmless, encryption=None)).locations


@pytest.mark.parametrize(
    ("location", "message"),
    [
        ("./forms.py:nothing", "has no 'nothing'"),
        ("./forms.py:number", "is of type int"),
        ("./forms.py:greedy", "takes "),
        ("./forms.py:broken", "cannot be made: RuntimeError: no weather today"),
        ("./syntax.py:graph", "cannot be imported: SyntaxError"),
        ("no_such_module_anywhere:graph", "there is no module"),
        ("no_such.module:graph", "there is no module"),
    ],
)
async def test_a_graph_that_cannot_be_loaded_is_refused_with_the_reason(
    tmp_path: Path, location: str, message: str
) -> None:
    (tmp_path / "syntax.py").write_text("graph = (")
    with pytest.raises(Invalid) as caught:
        await load_graphs(write_project(tmp_path, {"mine": location}))
    assert message in caught.value.message
    assert caught.value.remedy


async def test_a_server_whose_graphs_cannot_be_loaded_does_not_start(tmp_path: Path, valkey_url: str) -> None:
    app = create_app(
        Settings(redis_url=valkey_url, config=write_project(tmp_path, {"mine": "./forms.py:broken"}))
    )
    with pytest.raises(Invalid, match="no weather today"):
        async with app.router.lifespan_context(app):
            pass


async def test_a_limit_for_an_unknown_tool_is_logged_at_startup(
    valkey_url: str, caplog: pytest.LogCaptureFixture
) -> None:
    app = create_app(Settings(redis_url=valkey_url, tools='{"fetch_dat": {"calls": 3}, "*": {"tries": 1}}'))
    async with app.router.lifespan_context(app):
        pass
    warnings = [record.getMessage() for record in caplog.records if "CALLSHEET_TOOLS" in record.getMessage()]
    assert len(warnings) == 1
    assert "'fetch_dat'" in warnings[0]


async def test_a_graph_with_its_own_checkpointer_gets_the_servers_with_a_warning(
    tmp_path: Path, storage: Storage, caplog: pytest.LogCaptureFixture
) -> None:
    graphs = await load_graphs(
        write_project(tmp_path, {"kept": "./forms.py:kept", "named": "./forms.py:named"})
    )
    assert isinstance(graphs["kept"].checkpointer, InMemorySaver)
    assert isinstance(graphs["kept"].store, InMemoryStore)
    saver, store = RedisSaver(storage.redis), RedisStore(storage, lambda: "local")
    attached = graph_loading.attach_storage(graphs, saver, store)
    assert all(graph.checkpointer is saver and graph.store is store for graph in attached.values())
    assert [graph.name for graph in attached.values()] == ["kept", "theirs"]
    messages = [record.getMessage() for record in caplog.records]
    assert [
        ("'kept'" in message, word in message)
        for message, word in zip(messages, ("checkpointer", "store"), strict=True)
    ]
    assert isinstance(graphs["kept"].checkpointer, InMemorySaver), "the original is unchanged"


async def test_only_the_graphs_of_the_file_are_served(valkey_url: str) -> None:
    file = ROOT / "tests" / "doubles" / "wire_graphs.json"
    assert json.loads(file.read_text())["graphs"].keys() == GRAPHS.keys()
    with running_server(valkey_url, None, config=file) as url:
        async with get_client(url=url) as client:
            assistants: Any = await client.assistants.search(limit=100)
            assert {assistant["graph_id"] for assistant in assistants} == GRAPHS.keys()
            thread: Any = await client.threads.create(graph_id="counter")
            await client.threads.update_state(thread["thread_id"], {"x": 3}, as_node="a")
            state: Any = await client.threads.get_state(thread["thread_id"])
            assert state["next"] == ["b"]
            http: Any = client.http.client
            assert (await http.get("/api/ads")).status_code == 404, "there are no ads without their workflow"


@pytest.mark.parametrize("name", NAMES)
def test_a_graph_of_this_project_has_at_most_fourteen_edges(name: str) -> None:
    """X6: Studio draws at most fourteen edges."""
    module = importlib.import_module(f"callsheet.graphs.{name}")
    assert len(module.graph.get_graph().edges) <= 14

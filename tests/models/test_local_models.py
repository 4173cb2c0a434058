"""Discovery of an Ollama on this machine when no key is set."""

import json
import os
import socket
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
from langchain_core.messages import HumanMessage

from callsheet.providers import find_local, load, with_key
from callsheet.providers.local import LIMIT_S, ollama_url
from callsheet.providers.routing import RoutingRequest, route
from callsheet.server.settings.settings import read_settings

EMBEDDING_MODEL = {"name": "nomic-embed-text:latest", "capabilities": ["embedding"]}
CHAT_MODEL = {"name": "qwen3:8b", "capabilities": ["completion", "tools", "thinking"]}


@contextmanager
def ollama(models: list[dict[str, Any]], show_replies: Mapping[str, Any] | None = None) -> Iterator[str]:
    """Serve an Ollama API with these models and replies of /api/show; yield its host and port."""

    class OllamaHandler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            cards = {"data": models, "models": models} if self.path in {"/api/tags", "/v1/models"} else {}
            self.answer(cards)

        def do_POST(self) -> None:
            request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            self.answer((show_replies or {})[request["model"]])

        def answer(self, content: Any) -> None:
            body = json.dumps(content).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class's name
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), OllamaHandler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield f"127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def test_the_first_model_that_can_call_tools_is_chosen_and_named_in_the_reason():
    with ollama([EMBEDDING_MODEL, CHAT_MODEL]) as host:
        environ = {"OLLAMA_HOST": host}
        find_local(environ)
    assert environ["OLLAMA_MODEL"] == "qwen3:8b"
    assert with_key(environ) == {"ollama", "offline"}
    answer = route(RoutingRequest(), with_key(environ))
    assert answer.provider == "ollama"
    assert answer.reason.endswith("OpenAI is not available (it needs OPENAI_API_KEY), so Ollama answers")
    model: Any = load("ollama", environ=environ)
    assert (model.model_name, model.openai_api_base) == ("qwen3:8b", f"http://{host}/v1")


def test_an_older_ollama_is_queried_for_each_models_capabilities():
    show_replies = {"old": {"capabilities": ["completion"]}, "new": {"capabilities": ["completion", "tools"]}}
    with ollama([{"name": "old"}, {"name": "new"}], show_replies) as host:
        environ = {"OLLAMA_HOST": host}
        find_local(environ)
    assert environ["OLLAMA_MODEL"] == "new"


@pytest.mark.parametrize(
    "more",
    [
        {"OLLAMA_DISCOVERY": "off"},
        {"OPENAI_API_KEY": "sk-x"},
        {"COMPATIBLE_BASE_URL": "http://127.0.0.1:1"},
        {"OLLAMA_MODEL": "mine"},
    ],
)
def test_no_local_model_is_searched_when_a_provider_is_set_or_discovery_is_off(more):
    with ollama([CHAT_MODEL]) as host:
        environ = {"OLLAMA_HOST": host, **more}
        find_local(environ)
    assert environ.get("OLLAMA_MODEL") == more.get("OLLAMA_MODEL")


@pytest.mark.parametrize("models", [[], [EMBEDDING_MODEL], [{"nonsense": 1}]])
def test_a_server_without_a_model_that_calls_tools_is_not_used(models):
    with ollama(models) as host:
        environ = {"OLLAMA_HOST": host}
        find_local(environ)
    assert "OLLAMA_MODEL" not in environ


def card(parameters: float) -> dict[str, Any]:
    """Return a model's card as llama.cpp's server shows it."""
    return {"id": "mine", "meta": {"n_params": parameters}}


@pytest.mark.parametrize(
    ("models", "model", "profile"),
    [
        ([card(1.78e9)], "mine", "lean"),
        ([card(30.5e9)], "mine", "full"),
        ([card(1.78e9)], "other", None),
        ([card(1.78e9)], "mine-30b", None),
        ([{"id": "mine", "meta": None}], "mine", None),
    ],
)
def test_a_compatible_servers_card_gives_the_size_that_the_name_lacks(models, model, profile):
    with ollama(models) as host:
        environ = {"COMPATIBLE_BASE_URL": f"http://{host}/v1", "COMPATIBLE_MODEL": model}
        find_local(environ)
    assert environ.get("COMPATIBLE_PROFILE") == profile


@pytest.mark.parametrize(("size", "profile"), [("7.6B", "lean"), ("31.1B", "full"), ("494M", "lean")])
def test_ollamas_card_gives_the_size_that_the_name_lacks(size, profile):
    with ollama([], {"mine:latest": {"details": {"parameter_size": size}}}) as host:
        environ = {"OLLAMA_HOST": host, "OLLAMA_MODEL": "mine:latest"}
        find_local(environ)
    assert environ["OLLAMA_PROFILE"] == profile


def test_a_profile_that_is_set_is_kept_whatever_the_card_says():
    with ollama([card(1.78e9)]) as host:
        given = {"COMPATIBLE_BASE_URL": f"http://{host}/v1", "COMPATIBLE_MODEL": "mine"}
        environ = {**given, "COMPATIBLE_PROFILE": "full"}
        find_local(environ)
    assert environ["COMPATIBLE_PROFILE"] == "full"


def test_a_server_that_does_not_answer_delays_the_start_by_the_limit_at_most():
    with socket.create_server(("127.0.0.1", 0)) as silent:
        environ = {"OLLAMA_HOST": f"127.0.0.1:{silent.getsockname()[1]}"}
        began = time.monotonic()
        find_local(environ)
        took_s = time.monotonic() - began
    assert "OLLAMA_MODEL" not in environ
    assert took_s < 20 * LIMIT_S


@pytest.mark.parametrize(
    ("host", "url"),
    [
        ("", "http://127.0.0.1:11434"),
        ("0.0.0.0", "http://127.0.0.1:11434"),
        ("studio.local:8000", "http://studio.local:8000"),
        ("https://models.example", "https://models.example:443"),
        ("[::1]:11434", "http://[::1]:11434"),
    ],
)
def test_the_address_is_read_in_every_form_that_ollama_accepts(host, url):
    assert ollama_url({"OLLAMA_HOST": host}) == url


def test_reading_the_settings_searches_for_a_local_model(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("OLLAMA_MODEL", "")
    monkeypatch.delenv("OLLAMA_DISCOVERY")
    with ollama([CHAT_MODEL]) as host:
        monkeypatch.setenv("OLLAMA_HOST", host)
        read_settings()
    assert os.environ["OLLAMA_MODEL"] == "qwen3:8b"


@pytest.mark.local_llm
async def test_a_real_local_model_calls_a_tool():
    """Runs where `CALLSHEET_LOCAL_LLM_URL` is set, such as http://127.0.0.1:8080/v1; see docs/models.md."""
    environ = {
        "COMPATIBLE_BASE_URL": os.environ["CALLSHEET_LOCAL_LLM_URL"],
        "COMPATIBLE_MODEL": os.environ.get("CALLSHEET_LOCAL_LLM_MODEL", "local"),
        "COMPATIBLE_TIMEOUT_S": "600",
    }
    schema = {"type": "object", "properties": {"language": {"type": "string"}}, "required": ["language"]}
    tool = {"type": "function", "function": {"name": "search_voices", "parameters": schema}}
    model = load("compatible", environ=environ).bind_tools([tool], stream=True)
    answer: Any = await model.ainvoke([HumanMessage("Search voices that speak Thai. Use the tool.")])
    assert [call["name"] for call in answer.tool_calls] == ["search_voices"]
    assert "<think>" not in answer.text

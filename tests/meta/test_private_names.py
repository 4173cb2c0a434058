"""The project uses public names of its libraries only, with at most three exceptions, which are listed."""

from typing import Final

import pytest

from tests.meta import private_names, syntax

DOCUMENTED: Final = {"_current_frames"}
"""Functions whose names are private, and which Python's documentation offers for use."""
EXCEPTIONS: Final = {
    "_get_request_payload": "sends a vendor its own reasoning back, which ChatOpenAI leaves out",
    "_create_chat_result": "reads the reasoning and the broken tool calls of an answer",
    "_convert_chunk_to_generation_chunk": "reads the same in a piece of a stream",
}
"""The methods of LangChain's ChatOpenAI that `ChatModel` overrides, with the reasons.

ChatOpenAI keeps no field beyond OpenAI's own and refers to a subclass for each vendor; LangChain's own
packages for vendors override the same methods. https://github.com/langchain-ai/langchain/issues/34706
"""


def sources() -> list[private_names.SourceFile]:
    files = {str(file.relative_to(syntax.ROOT)): file for file in syntax.files()}
    return [private_names.SourceFile(name, syntax.parse(file)) for name, file in files.items()]


def test_every_private_name_of_a_library_is_listed_and_every_listed_one_is_used() -> None:
    places = [place for place in private_names.find(sources()) if place[1] not in DOCUMENTED]
    assert {name for _, name in places} == set(EXCEPTIONS), sorted(places)
    assert {path.split("/")[0] for path, _ in places} == {"providers"}
    assert len(EXCEPTIONS) <= 3


BASE: Final = "from redis.asyncio import Connection\nclass Own(Connection)"


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("import redis._parsers", ["_parsers"]),
        ("from redis._parsers import Encoder", ["_parsers"]),
        ("from langgraph.graph.message import _reducer", ["_reducer"]),
        ("from redis.asyncio import Connection\nConnection()._writer.write(b'')", ["_writer"]),
        ("def count(worker): return len(getattr(worker, '_tasks_by_key'))", ["_tasks_by_key"]),
        ("def copy(message): return message.__pydantic_private__", ["__pydantic_private__"]),
        ("def stop(protocol): protocol.timeout_keep_alive_task.cancel()", ["timeout_keep_alive_task"]),
        (f"{BASE}: ...\nclass Other(Own):\n    async def _connect(self): ...", ["_connect"]),
        (f"{BASE}:\n    def ping(self): return self._send_ping()", ["_send_ping"]),
    ],
)
def test_a_private_name_is_detected(text: str, names: list[str]) -> None:
    assert [
        name for _, name in private_names.find([private_names.SourceFile.parse("server/new.py", text)])
    ] == names


@pytest.mark.parametrize(
    "text",
    [
        "class Own:\n    def __init__(self): self._a = self.__class__\ndef read(own: Own): return own._a",
        "from callsheet.state import _own",
        "def move(place): return place._replace(x=1)",
        f"{BASE}:\n    def _mine(self): return self._mine()",
    ],
)
def test_an_own_or_documented_name_is_not_reported(text: str) -> None:
    assert not [*private_names.find([private_names.SourceFile.parse("server/new.py", text)])]

"""Sentences as people type them: the offline model does what is meant, or says what it did not understand."""

import json
from typing import Any

import httpx
import pytest
from langchain_core.messages import HumanMessage, SystemMessage

from callsheet.providers.offline.model import OfflineModel
from tests.lessons.lesson_material import material
from tests.models.offline_sentences import WORKFLOWS, Sentences, read_rows

_TOOLS = {
    "ads": ("get_current_state", "create_music_draft"),
    "lessons": ("extractFactsTool",),
    "pages": ("list_elements", "modify_element"),
    "video": ("submit_plan",),
    "campaigns": ("search",),
}


@pytest.mark.parametrize("workflow", [*WORKFLOWS])
def test_a_sentence_that_is_not_understood_calls_no_tool_and_is_named(workflow):
    tools = [{"type": "function", "function": {"name": name}} for name in _TOOLS[workflow]]
    model = OfflineModel().bind_tools(tools)
    later = SystemMessage("Previous conversation summary: there is an ad.")
    for row in (row for row in read_rows(workflow) if "part" in row and "setup" not in row):
        say = row["say"].replace("{material}", material("honeybees").text.strip())
        answer = model.invoke([later, HumanMessage(say)])
        assert (answer.tool_calls, f"“{row['part']}”" in answer.text) == ([], True), row


async def _assert_right(session: Sentences, row: dict[str, Any]) -> None:
    text, done = await session.play(row)
    assert json.loads(json.dumps(done)) == row.get("did", {}), row
    assert text.startswith(row.get("says", "")), row
    if "part" in row:
        assert f"did not understand “{row['part']}”" in text, row


@pytest.mark.slow
@pytest.mark.parametrize("workflow", [*WORKFLOWS])
async def test_a_sentence_that_once_had_a_wrong_effect_has_the_right_one(
    api: httpx.AsyncClient, workflow: str
):
    """`was` says what it had done or said: the opposite, something false, or something else."""
    session = WORKFLOWS[workflow](api)
    for row in (row for row in read_rows(workflow) if "was" in row):
        await _assert_right(session, row)


@pytest.mark.long
@pytest.mark.parametrize("workflow", [*WORKFLOWS])
async def test_every_sentence_has_the_right_effect_and_no_other(api: httpx.AsyncClient, workflow: str):
    """`right` says what is meant, in the words in which it was written before the model was asked."""
    session = WORKFLOWS[workflow](api)
    for row in read_rows(workflow):
        await _assert_right(session, row)

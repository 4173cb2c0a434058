"""Rows of a table are named in a warning, and a question with a pronoun says what it is about."""

from typing import Any

import pytest

from callsheet.graphs import fact_narration
from callsheet.state.lessons.facts import new_fact
from callsheet.state.lessons.quiz import gap_quiz
from tests.lessons.lesson_client import SOURCE, LessonClient, ok
from tests.lessons.lesson_material import material

GRAPHS = {"fact_narration": fact_narration.graph}
TABLES = {
    "tabs": "Country\tMillion tons\nChina\t64\nIndia\t45",
    "bars": "| Country | Million tons |\n|---|---|\n| China | 64 |\n| India | 45 |",
    "blanks": "Country    Million tons\nChina      64\nIndia      45",
}


async def add(client: LessonClient, text: str) -> dict[str, Any]:
    await client.start_session()
    return ok(await client.request("POST", SOURCE, json={"text": text}), 201)


@pytest.mark.parametrize("form", TABLES)
async def test_a_table_in_a_material_is_named(lesson_client: LessonClient, form: str) -> None:
    """At the upload of the material, and with the facts that are found in it."""
    text = f"{material('photosynthesis').text}\n\n{TABLES[form]}\n\nThe plants grow in the light."
    added = await add(lesson_client, text)
    warning = "3 rows of the table “Country, Million tons” are not offered as facts"
    assert [one.partition(";")[0] for one in added["warnings"]] == [warning]
    reply = await lesson_client.send("Find the facts in the text")
    assert any(one.startswith(warning) for one in reply["warnings"])


async def test_a_text_without_a_table_has_no_warning(lesson_client: LessonClient) -> None:
    """Two cells in one line, and a list, are no table."""
    text = f"{material('photosynthesis').text}\n\nName:    Date:\n\n-   one\n-   two\n-   three"
    assert (await add(lesson_client, text))["warnings"] == []


@pytest.mark.parametrize(
    ("details", "prompt"),
    [
        ("An adult has about 200 g of it.", "About Salt: An adult has about _____ g of it."),
        ("They were paid with 20 g a day.", "About Salt: They were paid with _____ g a day."),
        ("Camels carried 90 kg of salt on their backs.", "Camels carried _____ kg of salt on their backs."),
    ],
)
def test_a_question_with_a_pronoun_names_the_topic(details: str, prompt: str) -> None:
    [question] = gap_quiz([new_fact("Salt", details)], "Salt", "english").questions
    assert question.prompt == prompt

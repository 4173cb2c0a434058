"""The examples of the OpenAPI document: each request is sent, and each reply is of the documented form."""

import json
from importlib.resources import files

import pytest

from tests.doubles.documented import openapi_document, operation_of, problems, resolve
from tests.doubles.served import served_app

MAIN = {"generateAd", "chatAboutAd", "createLessonTurn", "askAboutCampaigns", "chatAboutPage", "createRun"}


@pytest.mark.slow
async def test_every_example_is_accepted_and_answered_as_it_says(valkey_url: str) -> None:
    examples = json.loads(files("callsheet.server.http").joinpath("examples.json").read_text())
    assert {one["operation"] for one in examples} >= MAIN
    async with served_app(valkey_url) as client:
        for example in examples:
            options = {"json": example["request"]} if "request" in example else {}
            reply = await client.request(example["method"], example["path"], **options)
            assert reply.is_success, (example["operation"], reply.text)
            operation = operation_of(reply.request)
            assert operation is not None
            assert operation["operationId"] == example["operation"]
            if "response" not in example:
                continue
            answered, shown = reply.json(), example["response"]
            if isinstance(shown, dict):
                assert {*answered} == {*shown}, example["operation"]
            documented = resolve(openapi_document(), operation["responses"][str(reply.status_code)])
            content = documented["content"]["application/json"]
            assert content["examples"]["example"]["value"] == shown
            assert problems(content["schema"], shown) == [], example["operation"]

"""The cost of a plan's record: one write a step, and none for a plan of one step."""

from redis import Redis

from callsheet.storage.redis import keys
from tests.doubles.served import chat_about_ad, generate_ad, served_app


async def test_a_record_is_written_once_a_step_and_not_for_a_single_one(
    valkey_url: str, inspector: Redis
) -> None:
    """A brief makes three drafts at once; a wish makes one."""
    async with served_app(valkey_url) as http:
        await generate_ad(http)
        values = (await http.get("/threads/ad-1/state")).json()["values"]
        plan = next(one["plan"] for one in values["results"] if one["tool"] == "create_music_draft")
        record = keys.execution_keys("ad", "ad-1", plan).record
        assert 2 <= int(inspector.hget(record, "changes") or 0) <= 4, (
            "its beginning, and the end of each step"
        )
        await chat_about_ad(http, "make the music calmer")
    stored = {str(name, "utf-8") for name in inspector.keys("*:execution:*") if isinstance(name, bytes)}
    assert stored == {record, keys.execution_place("local", plan)}

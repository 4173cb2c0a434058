"""Undo of an ad's last change: by the person's words, by a model's call, and as a rule."""

from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from langchain_core.messages import HumanMessage
from langgraph.pregel import Pregel

from callsheet.state.ads.undo import last_change, needed_versions
from callsheet.state.errors import Gone, Invalid
from callsheet.state.owners import LOCAL
from callsheet.state.versions import Origin, Version
from callsheet.storage import Storage
from callsheet.storage.artefacts.artefacts import Artefact, NewVersion, OldVersions
from callsheet.storage.redis.scripts import read_time_ms
from tests.doubles.ad_model import brief_input, call, config, drafts, stream, tool_messages
from tests.doubles.chat_double import ChatDouble, Say
from tests.doubles.served import chat_about_ad, generate_ad, served_app

BRIEF = "Harbour Bikes rents e-bikes by the hour in Porto. For weekend visitors, 20 seconds."
Graph = Pregel[Any, Any]
Turn = Callable[[str], Awaitable[dict[str, Any]]]


@pytest.fixture
def say(graph: Graph) -> Turn:
    """Play a turn of the offline model, and return the state."""

    async def say(text: str) -> dict[str, Any]:
        turn_input = {"messages": [HumanMessage(text)]}
        state: dict[str, Any] = await graph.ainvoke(turn_input, config(), context={"provider": "offline"})
        return state

    return say


async def newest(opened: Storage) -> dict[str, Any]:
    return {name: (await stream(opened, name)).versions[-1].data for name in ("voices", "music", "sfx")}


def problems(state: dict[str, Any]) -> list[str]:
    listed: list[str] = state["messages"][-1].additional_kwargs["receipt"]["problems"]
    return listed


async def test_undo_takes_back_every_part_of_the_last_change_and_then_goes_further_back(
    say: Turn, opened: Storage
) -> None:
    """A56: earlier versions stay, and each step back is a version of its own."""
    await say(BRIEF)
    first = await newest(opened)
    await say("make the music more upbeat")
    second = await newest(opened)
    await say("make the ad more urgent")
    state = await say("undo that")
    assert state["drafts"] == {"voices": "v3", "music": "v4", "sfx": "v3"}
    assert state["messages"][-1].additional_kwargs["receipt"]["text"] == (
        "Changed: voices v3 · music v4 · sound effects v3."
    )
    assert await newest(opened) == second
    version = (await stream(opened, "music")).versions[-1]
    assert (version.origin["by"], version.parent, version.origin["request"]) == ("undo", "v2", "undo that")
    state = await say("undo")
    assert (state["drafts"], await newest(opened)) == ({"music": "v5"}, first)
    state = await say("undo that")
    assert problems(state) == ["there is nothing to undo: the ad is in its first state"]
    assert await newest(opened) == first


async def test_undo_over_rest_names_the_version_that_is_there_again(valkey_url: str) -> None:
    async with served_app(valkey_url) as client:
        await generate_ad(client)
        await chat_about_ad(client, "make the music more upbeat")
        reply = await chat_about_ad(client, "undo that")
        assert reply["message"] == (
            "The last change (“make the music more upbeat”) is taken back: music as in v1."
        )
        [version] = (await client.get("/api/ads/ad-1/music")).json()["versions"][-1:]
        assert (version["by"], version["parent"]) == ("undo", "v1")


async def test_effects_that_there_were_none_of_before_are_gone_by_undo(say: Turn, opened: Storage) -> None:
    await say(f"{BRIEF} No sound effects. No music.")
    await say("add a whoosh")
    state = await say("undo that")
    assert state["messages"][-1].text == "The last change (“add a whoosh”) is taken back: no sound effects."
    assert (await stream(opened, "sfx")).versions[-1].data == {"soundFxPrompts": []}
    assert "the ad is in its first state" in problems(await say("undo that"))[0]


async def test_a_model_undoes_one_part_and_a_lock_of_another_does_not_stop_it(
    graph: Graph, model: ChatDouble, opened: Storage
) -> None:
    """A real model is offered the tool; what a person has locked stays."""
    openai = {"provider": "openai"}
    model.script(Say(calls=drafts("หนึ่ง")), Say("Ready."))
    await graph.ainvoke(brief_input(), config(), context=openai)
    model.script(Say(calls=drafts("สอง", music="loud drums")), Say("Ready."))
    await graph.ainvoke({"messages": [HumanMessage("Louder")]}, config(), context=openai)
    artefact = Artefact(opened, "ad", "kopi", LOCAL)
    await artefact.lock("voices", LOCAL)
    undo = [("u1", "undo_change", "{}"), call("u2", "undo_change", streams=["music"])]
    model.script(Say(calls=undo[:1]), Say(calls=undo[1:]), Say("The music is quiet again."))
    state = await graph.ainvoke({"messages": [HumanMessage("Undo that")]}, config(), context=openai)
    results = dict(tool_messages(state))
    assert "'voices' of this ad is locked" in results["u1"]["error"]
    assert (state["drafts"], results["u2"]["versions"]) == ({"music": "v3"}, {"music": "v3"})
    assert (await stream(opened, "music")).versions[-1].data["musicPrompt"] == "gentle piano, warm"
    assert len((await stream(opened, "voices")).versions) == 2


async def test_undo_of_the_first_version_of_a_part_names_it(
    graph: Graph, model: ChatDouble, opened: Storage
) -> None:
    openai = {"provider": "openai"}
    model.script(Say(calls=drafts("หนึ่ง")[:1]), Say("Ready."))
    await graph.ainvoke(brief_input(), config(), context=openai)
    model.script(
        Say(calls=drafts("หนึ่ง")[1:2]), Say("Ready."), Say(calls=[call("u", "undo_change")]), Say("No.")
    )
    await graph.ainvoke({"messages": [HumanMessage("Music")]}, config(), context=openai)
    state = await graph.ainvoke({"messages": [HumanMessage("Undo that")]}, config(), context=openai)
    assert dict(tool_messages(state))["u"]["error"] == "there is nothing to undo: there was no music before"
    assert len((await stream(opened, "music")).versions) == 1


async def test_undo_ends_where_the_version_before_is_removed(say: Turn, opened: Storage) -> None:
    await say(BRIEF)
    for wish in ("louder", "calmer"):
        await say(f"make the music {wish}")
    old = OldVersions("music", 1, (), await read_time_ms(opened.redis) + 60_000, "v3")
    await Artefact(opened, "ad", "kopi", LOCAL).remove_old_versions(old, 0, 100)
    [problem] = problems(await say("undo that"))
    assert problem.startswith("undo ends here: the version before is not kept any more: somebody deleted it,")


async def test_undo_names_the_request_whose_change_it_takes_back(
    graph: Graph, model: ChatDouble, opened: Storage
) -> None:
    """The last request changed nothing, so an older one is undone: the person learns which, in any words."""
    openai = {"provider": "openai"}
    model.script(Say(calls=drafts("หนึ่ง")), Say("Ready."))
    await graph.ainvoke(brief_input(), config(), context=openai)
    model.script(
        Say(calls=drafts("สอง", music="loud drums")[1:2]), Say("Ready."), Say("It is good as it is.")
    )
    await graph.ainvoke({"messages": [HumanMessage("Louder music")]}, config(), context=openai)
    await graph.ainvoke({"messages": [HumanMessage("Is it good?")]}, config(), context=openai)
    model.script(Say(calls=[call("u", "undo_change")]), Say("Done."))
    state = await graph.ainvoke({"messages": [HumanMessage("Undo that")]}, config(), context=openai)
    result = dict(tool_messages(state))["u"]
    assert result["message"] == "The last change (“Louder music”) is taken back: music as in v1"
    assert state["messages"][-1].text.startswith("Done.")
    assert "Taken back is the change of “Louder music”" in state["messages"][-1].text


async def test_undo_does_not_jump_over_a_version_that_is_removed(say: Turn, opened: Storage) -> None:
    """An older one that is kept, such as the active one, would come back as the last change undone."""
    await say(BRIEF)
    for wish in ("louder", "calmer"):
        await say(f"make the music {wish}")
    music = Artefact(opened, "ad", "kopi", LOCAL)
    await music.activate("music", "v1")
    old = OldVersions("music", 1, (), await read_time_ms(opened.redis) + 60_000, "v3")
    await music.remove_old_versions(old, 0, 100)
    assert [one.id for one in (await stream(opened, "music")).versions] == ["v1", "v3"]
    assert "not kept any more" in problems(await say("undo that"))[0]
    assert [one.id for one in (await stream(opened, "music")).versions] == ["v1", "v3"]


async def test_undo_finds_the_version_before_more_variations_than_it_reads_first(
    say: Turn, opened: Storage
) -> None:
    """It was said not to be kept."""
    await say(BRIEF)
    artefact = Artefact(opened, "ad", "kopi", LOCAL)
    [first] = (await stream(opened, "music")).versions
    new = [NewVersion("music", {**first.data, "duration": float(at)}, "llm", "one") for at in range(110)]
    for one in new:
        await artefact.create_version(one)
    assert (await say("undo that"))["drafts"] == {"music": "v112"}
    assert (await newest(opened))["music"] == first.data


def version_of(name: str, batch: str, at: int, *, data: object = None, undone: str = "") -> Version:
    origin = Origin(by="undo" if undone else "model")
    content = {"text": data or name}
    return Version(name, "music", content, at, "llm", undone or None, batch, origin)


def test_all_variations_of_one_run_are_undone_together() -> None:
    versions = [version_of("v1", "a", 1), *(version_of(f"v{n}", "b", n) for n in (2, 3, 4))]
    assert last_change({"music": versions}).before == {"music": versions[0]}


def test_undo_of_a_change_behind_an_undo_restores_what_the_undo_restored() -> None:
    versions = [
        version_of("v1", "a", 1),
        version_of("v2", "b", 2),
        version_of("v3", "c", 3, data="v1", undone="v1"),
        version_of("v4", "d", 4),
    ]
    assert last_change({"music": versions}).before == {"music": versions[2]}


def test_a_part_whose_restored_version_is_removed_does_not_keep_others_from_being_undone() -> None:
    lost = [version_of("v3", "c", 3, data="v1", undone="v1")]
    other = [version_of("v1", "a", 1), version_of("v2", "d", 4)]
    assert last_change({"sfx": lost, "music": other}).before == {"music": other[0]}
    with pytest.raises(Gone, match="undo ends here"):
        last_change({"sfx": lost, "music": []})
    with pytest.raises(Gone, match="undo ends here"):
        last_change({"music": other[1:]})


def test_an_ad_without_versions_has_nothing_to_undo() -> None:
    with pytest.raises(Invalid, match="nothing to undo"):
        last_change({"voices": [], "music": []})


def test_an_undo_needs_the_version_before_and_all_that_undoing_has_restored() -> None:
    versions = [
        version_of("v1", "a", 1),
        version_of("v2", "b", 2),
        version_of("v3", "c", 3),
        version_of("v4", "d", 4, data="v2", undone="v2"),
    ]
    assert needed_versions(versions) == ["v4", "v2", "v1"]
    assert needed_versions(versions[:1]) == ["v1"]
    assert needed_versions(versions[2:]) == []
    assert needed_versions([]) == []

"""The audio-ad workflow through its compiled graph, with a vendor's model at the wire (A73)."""

import pytest
from langchain_core.messages import AIMessage, HumanMessage

from callsheet.graphs import ad_creation
from callsheet.nodes.node import EPOCH_KEY, OWNER_KEY, RUN_KEY
from callsheet.state.errors import Invalid
from callsheet.state.owners import LOCAL
from callsheet.storage import indexes
from callsheet.storage.artefacts.artefacts import Artefact, NewVersion
from callsheet.storage.artefacts.receipts import Fence, receipt_name
from callsheet.storage.threads import threads
from tests.doubles.ad_model import SAY_DONE, THAI, brief_input, call, config, drafts, stream, tool_messages
from tests.doubles.chat_double import Fail, Say


async def test_a_brief_becomes_three_drafts_over_several_rounds(graph, model, opened):
    """A54, A59, A73, A-R11: search, drafts, a word; the ad id is the thread's where none is given (X5)."""
    model.script(
        Say("A calm family morning.", [call("s1", "search_voices", language="th", count=3)]),
        Say(calls=drafts("สวัสดีตอนเช้า", "กาแฟดอยช้าง")),
        SAY_DONE,
    )
    state = await graph.ainvoke(brief_input(), config(), context={"provider": "openai"})
    assert state["drafts"] == {"voices": "v1", "music": "v1", "sfx": "v1"}
    assert state["messages"][-1].text == "All three drafts are ready to review."
    tracks = (await stream(opened, "voices")).versions[0].data["voiceTracks"]
    assert [(track["id"], track["playAfter"], track["overlap"], track["speed"]) for track in tracks] == [
        ("track-0", "start", 0.0, 1.0),
        ("track-1", "track-0", 0.0, 1.0),
    ]
    assert (state["provider"], state["provider_reason"]) == ("openai", "the caller asked for OpenAI")


async def test_an_ad_of_a_graph_without_a_server_is_on_the_list_of_local_ads(graph, model, opened):
    """A29, X5: a server on the same data shows it; the thread is kept by whoever runs the graph."""
    model.script(Say(calls=drafts("หนึ่ง")), SAY_DONE)
    await graph.ainvoke(brief_input(), config(), context={"provider": "openai"})
    page = await indexes.list_owned(opened, LOCAL, "ad", after=None, limit=5)
    assert page.ids == ("kopi",)
    assert not await threads.exists(opened, config()["configurable"]["thread_id"])


async def test_the_brief_is_told_to_the_model_as_the_template_says(graph, model):
    """A23, A52, A62, X12: a system prompt with the tools and guidelines, then the template."""
    model.script(SAY_DONE, SAY_DONE)
    await graph.ainvoke(brief_input(), config(), context={"provider": "openai"})
    system, user = model.requests[0].messages
    text, _, block = user["content"].partition("\n\n<state>\n")
    assert block == "Spot: 20 s, thai, market US. About 247 characters fit, without effects.\n</state>"
    assert text.splitlines() == [
        "Create an audio ad.",
        "Client: Doi Chang Coffee",
        "Target Audience: Thai families",
        "Duration: 20s",
        "Market: US",
        "Language: thai",
        "Additional context: None",
    ]
    assert "creative director" in system["content"]
    assert all(name in system["content"] for name in ad_creation.WORKFLOW.tools)
    assert THAI[0] not in system["content"], "no voice catalogue in the prompt"


async def test_a_brief_that_is_only_a_message_says_how_long_the_spot_is(graph, model):
    """A51, A-R15: a length said once there is something, such as that of an effect, is not the spot's."""
    model.script(
        Say("What is the ad for?"), Say(calls=drafts("หนึ่ง")), SAY_DONE, Say(calls=drafts("สอง")), SAY_DONE
    )
    for said in ("Hi", "A bakery in Oslo, 15 seconds", "Let the door bell ring for 5 seconds"):
        given = {"messages": [HumanMessage(said)], "ad_id": "kopi"}
        state = await graph.ainvoke(given, config(), context={"provider": "openai"})
    blocks = [request.messages[-1]["content"].partition("<state>\n")[2] for request in model.requests]
    assert [block.partition(" s,")[0] for block in blocks] == ["Spot: 30", *["Spot: 15"] * 4]
    assert dict(tool_messages(state))["c1"]["timeline"]["spotSeconds"] == 15
    assert ad_creation.WORKFLOW.facts(state)["spotSeconds"] == "15"


async def test_another_brief_on_a_thread_is_heard_and_so_is_another_ad(graph, model, opened):
    """A50, A52: also where no message comes with it; every version is kept."""
    for brief, ad_id, drafted in (
        ("20s for Doi Chang Coffee", "kopi", "v1"),
        ("A 15 second spot for Elm Books", "kopi", "v2"),
        ("A 15 second spot for Elm Books", "other", "v1"),
    ):
        model.script(Say(calls=drafts("หนึ่ง", ad=ad_id)), SAY_DONE)
        state = await graph.ainvoke(
            {"brief": brief, "ad_id": ad_id}, config(), context={"provider": "openai"}
        )
        assert set(state["drafts"].values()) == {drafted}, brief
        assert f"Client: {brief}" in state["messages"][-6].text
    assert sum(isinstance(one, HumanMessage) for one in state["messages"]) == 3


async def test_another_brief_is_heard_where_the_run_before_it_failed_halfway(graph, model, opened):
    """A50, A52: the same brief goes on with what is there instead."""
    first, other = "20s for Doi Chang Coffee", "A 15 second spot for Elm Books"
    for brief, said in ((first, 1), (first, 1), (other, 2)):
        model.script(Say(calls=drafts("หนึ่ง")), Fail(400))
        with pytest.raises(Exception, match="OpenAI"):
            await graph.ainvoke(brief_input() | {"brief": brief}, config(), context={"provider": "openai"})
        state = (await graph.aget_state(config())).values
        assert sum(isinstance(one, HumanMessage) for one in state["messages"]) == said, brief
    heard = [one["content"] for one in model.requests[-1].messages if one["role"] == "user"]
    assert f"Client: {other}" in heard[-1]


async def test_refinement_makes_versions_of_what_was_asked_for_alone(graph, model, opened):
    """A56, A58, A32, A73: music and effects become v2 while voices stay v1."""
    model.script(Say(calls=drafts("หนึ่ง")), SAY_DONE)
    await graph.ainvoke(brief_input(), config(), context={"provider": "openai"})
    model.script(
        Say(
            calls=[
                call("m", "create_music_draft", adId="kopi", prompt="upbeat piano, 128 BPM"),
                call(
                    "x",
                    "create_sfx_draft",
                    adId="kopi",
                    prompts=[
                        {"description": "whoosh", "placement": {"type": "start"}},
                        {"description": "rain"},
                    ],
                ),
            ]
        ),
        Say("Brighter music and a whoosh at the start."),
    )
    state = await graph.ainvoke(
        {"messages": [HumanMessage("Make the music more upbeat and add a whoosh at the start")]},
        config(),
        context={"provider": "openai"},
    )
    assert state["drafts"] == {"music": "v2", "sfx": "v2"}
    assert [made["toolCallId"] for made in state["created"]] == ["m", "x"]
    effects = (await stream(opened, "sfx")).versions[-1].data["soundFxPrompts"]
    assert [(effect["playAfter"], effect["duration"]) for effect in effects] == [("start", 3.0), ("end", 3.0)]
    assert len((await stream(opened, "voices")).versions) == 1


async def test_every_call_has_one_answer_in_call_order_even_when_calls_fail(graph, model):
    """A9, A25, A26, A27, A28, A73, A-R5: unknown tool, wrong arguments, unknown voice, another's ad."""
    calls = [
        call("1", "make_coffee"),
        call("2", "create_sfx_draft", adId="kopi", prompts=[{"description": "x", "duration": 0}]),
        call("3", "create_music_draft", adId="someone-elses", prompt="x"),
        call("4", "create_voice_draft", adId="kopi", tracks=[{"voiceId": "nobody", "text": "hi"}]),
        call("5", "search_voices", language="klingon"),
    ]
    model.script(Say(calls=calls), Say("I could not do that."), Say("I could not do that."))
    state = await graph.ainvoke(brief_input(), config(), context={"provider": "openai"})
    answers = dict(tool_messages(state))
    assert list(answers) == ["1", "2", "3", "4", "5"]
    assert "(No draft was made; the last step failed: " in state["messages"][-1].text
    assert answers["1"]["error"] == "Unknown tool: make_coffee"
    assert "'nobody' is not in the catalogue" in answers["4"]["error"]
    assert "such as azure/" in answers["4"]["suggestion"] or "such as openai/" in answers["4"]["suggestion"]
    assert [answers[i]["type"] for i in "1234"] == [
        "unknown_tool",
        "validation_error",
        "permission_denied",
        "validation_error",
    ]
    assert answers["2"]["suggestion"] == "Retry with different parameters or check argument format"
    assert answers["5"] == {
        "error": "No voices found matching the criteria",
        "suggestion": "Try broadening your search (remove accent/style filters, try different gender)",
        "voices": [],
        "count": 0,
    }
    assert state["drafts"] == {}


async def test_a_step_that_waits_for_a_failed_one_is_not_carried_out(graph, model, opened):
    """The effects of a round wait for its voices, since they may be placed after one."""
    _, music, sfx = drafts("หนึ่ง")
    bad = call("c1", "create_voice_draft", adId="kopi", tracks=[{"voiceId": "nobody", "text": "hi"}])
    model.script(Say(calls=[bad, sfx, music]), Say("Sorry."))
    state = await graph.ainvoke(brief_input(), config(), context={"provider": "openai"})
    assert [(result["tool"], result["status"]) for result in state["results"]] == [
        ("create_voice_draft", "error"),
        ("create_sfx_draft", "blocked"),
        ("create_music_draft", "completed"),
    ]
    assert not (await stream(opened, "sfx")).versions


async def test_call_ids_that_repeat_from_message_to_message_are_told_apart(graph, model, opened):
    """C-R7, A45: Kimi counts its calls from 0 in every message."""
    again = "functions.create_music_draft:0"
    model.script(
        *(Say(calls=[call(again, "create_music_draft", adId="kopi", prompt=name)]) for name in ("a", "b")),
        SAY_DONE,
    )
    state = await graph.ainvoke(brief_input(), config(), context={"provider": "openai"})
    assert [version.data["musicPrompt"] for version in (await stream(opened, "music")).versions] == ["a", "b"]
    assert [answer["versionId"] for _, answer in tool_messages(state)] == ["v1", "v2"]
    assert [result["output"]["versionId"] for result in state["results"]] == ["v1", "v2"]


@pytest.mark.parametrize(
    ("arguments", "kept"),
    [
        ('{adId: "kopi", prompt: "calm, slow: a b",}', "calm, slow: a b"),
        ("{'adId': 'kopi', 'prompt': 'don\\'t rush'}", "don't rush"),
        ('```json\n{"adId": "kopi", "prompt": "x, y: z"}\n```', "x, y: z"),
    ],
)
async def test_nearly_right_arguments_are_repaired_without_touching_their_strings(
    graph, model, opened, arguments, kept
):
    """A43, A71, A-R16."""
    model.script(Say(calls=[("m", "create_music_draft", arguments)]), SAY_DONE)
    await graph.ainvoke(brief_input(), config(), context={"provider": "openai"})
    assert (await stream(opened, "music")).versions[0].data["musicPrompt"] == kept


async def test_arguments_beyond_repair_run_nothing_and_the_model_is_told(graph, model, opened):
    """A26, A70, A-R16: a text cut off in the middle is not guessed at."""
    model.script(
        Say(calls=[("m", "create_music_draft", '{"adId": "kopi", "prompt": "cal')]),
        Say("Sorry."),
        Say("Sorry."),
    )
    state = await graph.ainvoke(brief_input(), config(), context={"provider": "openai"})
    [(call_id, answer)] = tool_messages(state)
    assert call_id == "m"
    assert answer["error"].startswith("the arguments are not JSON")
    assert not (await stream(opened, "music")).versions


async def test_a_turn_ends_with_text_when_its_rounds_are_used_up(graph, model):
    """A-R11, A72: the bound is the caller's to set, and the history stays valid."""
    look = call("look", "get_current_state", adId="kopi")
    model.script(*(Say(calls=[(f"look{i}", *look[1:])]) for i in range(3)), Say("That is all I could do."))
    state = await graph.ainvoke(brief_input(), config(), context={"provider": "openai", "max_rounds": 3})
    assert state["messages"][-1].text == "That is all I could do.\n\n(No draft was made.)"
    assert model.requests[-1].body["tool_choice"] == "none"
    assert model.unused == 0


async def test_a_model_that_calls_tools_past_the_bound_is_answered_for(graph, model):
    """A-R11: no dangling calls in stored history."""
    model.script(*(Say(calls=[(f"c{i}", "get_current_state", '{"adId": "kopi"}')]) for i in range(3)))
    state = await graph.ainvoke(brief_input(), config(), context={"provider": "openai", "max_rounds": 2})
    last = state["messages"][-1]
    assert isinstance(last, AIMessage)
    assert last.text
    assert not last.tool_calls


async def test_a_failing_provider_ends_the_run_and_loses_nothing(graph, model):
    """A-R10: the person's message is stored before the model is called."""
    model.script(Fail(500, "engine down"))
    with pytest.raises(Exception, match="OpenAI"):
        await graph.ainvoke(
            {"messages": [HumanMessage("A spot for Doi Chang")]},
            config(),
            context={"provider": "openai"},
            durability="sync",
        )
    kept = await graph.aget_state(config())
    assert [message.text for message in kept.values["messages"]] == ["A spot for Doi Chang"]


async def test_calls_that_a_stopped_run_left_open_are_answered_before_the_model_is_asked_again(
    graph, model, opened
):
    """A-R11: an effect that happened is told from its receipt, the rest as cancelled, each in its place."""
    music, search = (
        call("m", "create_music_draft", adId="kopi", prompt="calm"),
        call("s", "search_voices", language="th"),
    )
    model.script(Say(calls=[music, search]))
    await graph.ainvoke(
        brief_input(), config(), context={"provider": "openai"}, interrupt_before=["tool_executor"]
    )
    asking = (await graph.aget_state(config())).values["messages"][-1]
    fence = await Artefact(opened, "ad", "kopi", LOCAL).claim(
        receipt_name("kopi", "crashed-task", f"{asking.id}/m"),
        epoch=1,
        owner="local",
        thread="kopi",
        facts={},
    )
    assert isinstance(fence, Fence)
    made = await Artefact(opened, "ad", "kopi", LOCAL).create_version(music_version(), fence)
    model.script(Say("Where were we?"))
    state = await graph.ainvoke(
        {"messages": [HumanMessage("Go on")]}, config(), context={"provider": "openai"}
    )
    kinds = [(type(message).__name__, getattr(message, "tool_call_id", "")) for message in state["messages"]]
    assert kinds == [
        ("HumanMessage", ""),
        ("AIMessage", ""),
        ("ToolMessage", "m"),
        ("ToolMessage", "s"),
        ("HumanMessage", ""),
        ("AIMessage", ""),
    ]
    answers = dict(tool_messages(state))
    assert answers["m"] == made
    assert "cancelled" in answers["s"]["error"]


def music_version():
    return NewVersion(
        "music", {"musicPrompt": "calm", "musicProvider": "loudly"}, "llm", "r", result={"status": "draft"}
    )


async def test_a_version_that_was_never_made_is_corrected_in_the_last_word(graph, model):
    model.script(Say(calls=[drafts("หนึ่ง")[1]]), Say("I made music v1 and voices v7."))
    state = await graph.ainvoke(brief_input(), config(), context={"provider": "openai"})
    assert state["messages"][-1].text.endswith("(There is no v7; the newest versions are: music v1.)")


@pytest.mark.parametrize("offer", ["Should I create v2?", "ให้ฉันทำ v2 ไหม", "要不要做v2？"])
async def test_an_offer_of_a_next_version_is_not_corrected(graph, model, offer):
    """A78."""
    model.script(Say(calls=[drafts("หนึ่ง")[1]]), Say(f"I made music v1. {offer}"))
    state = await graph.ainvoke(brief_input(), config(), context={"provider": "openai"})
    assert state["messages"][-1].text == f"I made music v1. {offer}"


async def test_an_empty_last_word_is_filled_with_what_was_made(graph, model):
    model.script(Say(calls=[drafts("หนึ่ง")[1]]), Say(""), Say(""))
    state = await graph.ainvoke(brief_input(), config(), context={"provider": "openai"})
    assert state["messages"][-1].text == "Made music v1."


async def test_tokens_are_added_up_over_the_thread(graph, model):
    """A66, X14."""
    model.script(
        Say(calls=[drafts("หนึ่ง")[1]], prompt_tokens=100, completion_tokens=20), Say("ok", prompt_tokens=150)
    )
    state = await graph.ainvoke(brief_input(), config(), context={"provider": "openai"})
    assert (state["usage"]["input_tokens"], state["usage"]["output_tokens"], state["usage"]["calls"]) == (
        250,
        27,
        2,
    )


async def test_a_long_script_is_kept_as_written_and_the_model_is_told_what_fits(graph, model, opened):
    """No sentence is cut by the server; the model rewrites."""
    text = "".join(f"นี่คือประโยคที่ {i} ของโฆษณาที่ยาวเกินไปมากสำหรับเวลา. " for i in range(20)) + "โทรเลยวันนี้!"
    model.script(Say(calls=[drafts(text)[0]]), SAY_DONE)
    state = await graph.ainvoke(brief_input(), config(), context={"provider": "openai"})
    [(_, answer)] = tool_messages(state)
    assert not answer["timeline"]["fits"]
    assert answer["overBySeconds"] == pytest.approx(answer["timeline"]["durationSeconds"] - 20, abs=0.01)
    assert answer["charactersPerSecond"] == 13.0
    assert 200 < answer["budgetCharacters"] <= 260
    assert "Rewrite the script" in answer["suggestion"]
    spoken = (await stream(opened, "voices")).versions[0].data["voiceTracks"][0]["text"]
    assert spoken == text


async def test_a_fork_before_the_tools_makes_versions_of_its_own(graph, model, opened):
    """A resumed step finds its receipt; a deliberate fork is another task and makes another version."""
    model.script(Say(calls=[drafts("หนึ่ง")[1]]), SAY_DONE)
    await graph.ainvoke(brief_input(), config(), context={"provider": "openai"})
    before, *_ = [s async for s in graph.aget_state_history(config()) if s.next == ("tool_executor",)]
    model.script(SAY_DONE)
    forked = await graph.aupdate_state(before.config, {}, as_node="approval")
    await graph.ainvoke(None, forked, context={"provider": "openai"})
    assert [version.id for version in (await stream(opened, "music")).versions] == ["v1", "v2"]


async def test_a_run_without_a_thread_is_refused(opened):
    with pytest.raises(Invalid, match="no thread id"):
        await ad_creation.graph.ainvoke(brief_input())


async def test_the_graph_is_exported_without_a_checkpointer_and_shows_its_nodes():
    """X1, X2, X6."""
    assert ad_creation.graph.checkpointer is None
    assert {"planner", "approval", "tool_executor", "summarizer"} <= set(ad_creation.graph.get_graph().nodes)
    for schema in (ad_creation.graph.get_input_jsonschema(), ad_creation.graph.get_output_jsonschema()):
        assert "messages" in schema["properties"]


async def test_the_owner_the_server_names_is_the_one_whose_ad_is_written(graph, model, opened):
    """X16: two owners' ads of one name are two ads."""
    for owner, thread in (("ana", "kopi"), ("bob", "other-thread")):
        model.script(Say(calls=drafts("หนึ่ง")[1:2]), SAY_DONE)
        chosen = config(thread, **{OWNER_KEY: owner, EPOCH_KEY: 1, RUN_KEY: owner})
        await graph.ainvoke({**brief_input(), "ad_id": "kopi"}, chosen, context={"provider": "openai"})
    for owner in ("ana", "bob"):
        artefact = Artefact(opened, "ad", "kopi", owner)
        assert len((await artefact.stream("music")).versions) == 1
        assert (await artefact.meta())["owner"] == owner
    assert not (await stream(opened, "music")).versions


async def test_an_ad_whose_record_names_another_owner_is_refused_to_the_tools(graph, model, opened):
    """X16."""
    await Artefact(opened, "ad", "kopi", LOCAL).open(owner="ana", thread="hers", facts={})
    model.script(Say(calls=drafts("หนึ่ง", prefix="d")[1:2]), Say("No."), Say("No."))
    state = await graph.ainvoke(brief_input(), config(), context={"provider": "openai"})
    assert dict(tool_messages(state))["d2"]["type"] == "permission_denied"
    assert not (await stream(opened, "music")).versions

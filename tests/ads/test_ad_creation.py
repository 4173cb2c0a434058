"""The audio-ad workflow through its compiled graph, with a vendor's model at the wire (A73)."""

import pytest
from langchain_core.messages import AIMessage, HumanMessage

from callsheet.graphs import ad_creation
from callsheet.nodes.node import EPOCH_KEY, OWNER_KEY, RUN_KEY
from callsheet.state.errors import Invalid
from callsheet.state.owners import LOCAL
from callsheet.state.tokens import estimate_text
from callsheet.storage import indexes
from callsheet.storage.artefacts.artefacts import Artefact, NewVersion
from callsheet.storage.artefacts.receipts import StepFence, receipt_name
from callsheet.storage.threads import threads
from callsheet.tools.ads import voices
from tests.doubles.ad_model import SAY_DONE, THAI, brief_input, call, config, drafts, stream, tool_messages
from tests.doubles.chat_double import Fail, Say


async def test_a_brief_leads_to_three_drafts_over_several_rounds(graph, model, opened):
    """A54, A59, A73, A-R11: search, drafts, last message; without an ad id, the thread's id is used (X5)."""
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


async def test_an_ad_made_without_a_server_is_in_the_list_of_local_ads(graph, model, opened):
    """A29, X5: a server on the same data shows it, but has no record of its thread."""
    model.script(Say(calls=drafts("หนึ่ง")), SAY_DONE)
    await graph.ainvoke(brief_input(), config(), context={"provider": "openai"})
    page = await indexes.list_owned(opened, LOCAL, "ad", after=None, limit=5)
    assert page.ids == ("kopi",)
    assert not await threads.exists(opened, config()["configurable"]["thread_id"])


async def test_the_model_is_sent_the_system_prompt_and_the_brief_in_the_template(graph, model):
    """A23, A52, A62, X12: a system prompt with the tools and guidelines, then the template."""
    model.script(SAY_DONE, SAY_DONE)
    await graph.ainvoke(brief_input(), config(), context={"provider": "openai"})
    system, user = model.requests[0].messages
    text, _, block = user["content"].partition("\n\n<state>\n")
    heading, offered, *cast = block.removesuffix("\n</state>").splitlines()
    assert heading == "Spot: 20 s, thai, market US. About 234 characters fit, without effects."
    assert offered == "Voices for thai, others by search_voices:"
    assert len(cast) == 6
    for line in cast:
        voice = voices.find(line.removeprefix("- ").partition(": ")[0])
        assert voice
        assert voice.language == "thai"
        assert line.endswith(f": {voice.words()}")
    assert {"female", "male"} <= {word for line in cast for word in line.replace(",", "").split()}
    assert estimate_text(block) <= 400
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


async def test_a_first_message_without_a_brief_sets_the_length_of_the_spot(graph, model):
    """A51, A-R15: a length in a message after the first draft, such as an effect's, is not."""
    model.script(
        Say("What is the ad for?"), Say(calls=drafts("หนึ่ง")), SAY_DONE, Say(calls=drafts("สอง")), SAY_DONE
    )
    for text in ("Hi?", "A bakery in Oslo, 15 seconds", "Let the door bell ring for 5 seconds"):
        graph_input = {"messages": [HumanMessage(text)], "ad_id": "kopi"}
        state = await graph.ainvoke(graph_input, config(), context={"provider": "openai"})
    blocks = [request.messages[-1]["content"].partition("<state>\n")[2] for request in model.requests]
    assert [block.partition(" s,")[0] for block in blocks] == ["Spot: 30", *["Spot: 15"] * 4]
    assert dict(tool_messages(state))["c1"]["timeline"]["spotSeconds"] == 15
    assert ad_creation.WORKFLOW.view.facts(state)["spotSeconds"] == "15"


async def test_another_brief_or_ad_on_a_thread_is_a_new_message(graph, model, opened):
    """A50, A52: also without a message of its own; every version is kept."""
    for brief, ad_id, expected_version in (
        ("20s for Doi Chang Coffee", "kopi", "v1"),
        ("A 15 second spot for Elm Books", "kopi", "v2"),
        ("A 15 second spot for Elm Books", "other", "v1"),
    ):
        model.script(Say(calls=drafts("หนึ่ง", ad=ad_id)), SAY_DONE)
        state = await graph.ainvoke(
            {"brief": brief, "ad_id": ad_id}, config(), context={"provider": "openai"}
        )
        assert set(state["drafts"].values()) == {expected_version}, brief
        assert f"Client: {brief}" in state["messages"][-6].text
    assert sum(isinstance(message, HumanMessage) for message in state["messages"]) == 3


async def test_another_brief_after_a_failed_run_is_a_new_message(graph, model, opened):
    """A50, A52: the same brief continues the failed run."""
    first, other = "20s for Doi Chang Coffee", "A 15 second spot for Elm Books"
    for brief, message_count in ((first, 1), (first, 1), (other, 2)):
        model.script(Say(calls=drafts("หนึ่ง")), Fail(400))
        with pytest.raises(Exception, match="OpenAI"):
            await graph.ainvoke(brief_input() | {"brief": brief}, config(), context={"provider": "openai"})
        state = (await graph.aget_state(config())).values
        assert sum(isinstance(message, HumanMessage) for message in state["messages"]) == message_count, brief
    user_messages = [
        message["content"] for message in model.requests[-1].messages if message["role"] == "user"
    ]
    assert f"Client: {other}" in user_messages[-1]


async def test_a_refinement_makes_new_versions_of_the_named_streams_only(graph, model, opened):
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
    assert [version["toolCallId"] for version in state["created"]] == ["m", "x"]
    effects = (await stream(opened, "sfx")).versions[-1].data["soundFxPrompts"]
    assert [(effect["playAfter"], effect["duration"]) for effect in effects] == [("start", 3.0), ("end", 3.0)]
    assert len((await stream(opened, "voices")).versions) == 1


async def test_every_call_has_one_answer_in_call_order_even_when_calls_fail(graph, model):
    """A9, A25, A26, A27, A28, A73, A-R5: unknown tool, wrong arguments, unknown voice, another's ad."""
    calls = [
        call("1", "make_coffee"),
        call("2", "create_sfx_draft", adId="kopi", prompts=[{"description": "x", "duration": 0}]),
        call("3", "create_music_draft", adId="someone-elses", prompt="x"),
        call(
            "4",
            "create_voice_draft",
            adId="kopi",
            tracks=[{"voiceId": "nobody", "text": "hi"}],
            language="xx-klingon",
        ),
        call("5", "search_voices", language="klingon"),
    ]
    model.script(Say(calls=calls), Say("I could not do that."), Say("I could not do that."))
    state = await graph.ainvoke(brief_input(), config(), context={"provider": "openai"})
    results = dict(tool_messages(state))
    assert list(results) == ["1", "2", "3", "4", "5"]
    assert "\n\nNothing was changed: Unknown tool: make_coffee; " in state["messages"][-1].text
    assert results["1"]["error"] == "Unknown tool: make_coffee"
    assert "'nobody' is not in the catalogue" in results["4"]["error"]
    assert [results[i]["type"] for i in "1234"] == [
        "unknown_tool",
        "validation_error",
        "permission_denied",
        "validation_error",
    ]
    assert results["2"]["suggestion"].startswith("Call it again in this form: {")
    assert results["5"] == {
        "error": "No voices found matching the criteria",
        "suggestion": "Try broadening your search (remove accent/style filters, try different gender)",
        "voices": [],
        "count": 0,
    }
    assert state["drafts"] == {}


async def test_a_step_that_depends_on_a_failed_one_is_blocked(graph, model, opened):
    """The effects of a round wait for its voices, since they may be placed after one."""
    _, music, sfx = drafts("หนึ่ง")
    bad_call = call("c1", "create_voice_draft", adId="kopi", tracks=[{"voiceId": "nobody", "text": ""}])
    model.script(Say(calls=[bad_call, sfx, music]), Say("Sorry."))
    state = await graph.ainvoke(brief_input(), config(), context={"provider": "openai"})
    assert [(result["tool"], result["status"]) for result in state["results"]] == [
        ("create_voice_draft", "error"),
        ("create_sfx_draft", "blocked"),
        ("create_music_draft", "completed"),
    ]
    assert not (await stream(opened, "sfx")).versions


async def test_calls_with_the_same_id_in_two_messages_are_executed_separately(graph, model, opened):
    """C-R7, A45: Kimi counts its calls from 0 in every message."""
    repeated_id = "functions.create_music_draft:0"
    model.script(
        *(
            Say(calls=[call(repeated_id, "create_music_draft", adId="kopi", prompt=name)])
            for name in ("a", "b")
        ),
        SAY_DONE,
    )
    state = await graph.ainvoke(brief_input(), config(), context={"provider": "openai"})
    assert [version.data["musicPrompt"] for version in (await stream(opened, "music")).versions] == ["a", "b"]
    assert [result["versionId"] for _, result in tool_messages(state)] == ["v1", "v2"]
    assert [result["output"]["versionId"] for result in state["results"]] == ["v1", "v2"]


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ('{adId: "kopi", prompt: "calm, slow: a b",}', "calm, slow: a b"),
        ("{'adId': 'kopi', 'prompt': 'don\\'t rush'}", "don't rush"),
        ('```json\n{"adId": "kopi", "prompt": "x, y: z"}\n```', "x, y: z"),
    ],
)
async def test_invalid_json_arguments_are_repaired_without_changing_their_strings(
    graph, model, opened, arguments, expected
):
    """A43, A71, A-R16."""
    model.script(Say(calls=[("m", "create_music_draft", arguments)]), SAY_DONE)
    await graph.ainvoke(brief_input(), config(), context={"provider": "openai"})
    assert (await stream(opened, "music")).versions[0].data["musicPrompt"] == expected


async def test_arguments_beyond_repair_are_an_error_for_the_model_and_run_no_tool(graph, model, opened):
    """A26, A70, A-R16: a truncated text is not completed by guessing."""
    model.script(
        Say(calls=[("m", "create_music_draft", '{"adId": "kopi", "prompt": "cal')]),
        Say("Sorry."),
        Say("Sorry."),
    )
    state = await graph.ainvoke(brief_input(), config(), context={"provider": "openai"})
    [(call_id, result)] = tool_messages(state)
    assert call_id == "m"
    assert result["error"].startswith("the arguments are not JSON")
    assert not (await stream(opened, "music")).versions


async def test_a_turn_ends_with_text_after_its_maximum_of_rounds(graph, model):
    """A-R11, A72: the caller sets the maximum; the history stays valid."""
    look_call = call("look", "get_current_state", adId="kopi")
    model.script(
        *(Say(calls=[(f"look{i}", *look_call[1:])]) for i in range(3)), Say("That is all I could do.")
    )
    state = await graph.ainvoke(brief_input(), config(), context={"provider": "openai", "max_rounds": 3})
    assert state["messages"][-1].text.partition("\n\n")[0] == "That is all I could do."
    assert (state["receipt"]["text"], state["truncated"]) == ("Nothing was changed.", True)
    assert model.requests[-1].body["tool_choice"] == "none"
    assert model.unused == 0


async def test_a_tool_call_after_the_last_round_is_replaced_by_text(graph, model):
    """A-R11: no dangling calls in stored history."""
    model.script(*(Say(calls=[(f"c{i}", "get_current_state", '{"adId": "kopi"}')]) for i in range(3)))
    state = await graph.ainvoke(brief_input(), config(), context={"provider": "openai", "max_rounds": 2})
    last_message = state["messages"][-1]
    assert isinstance(last_message, AIMessage)
    assert last_message.text
    assert not last_message.tool_calls


async def test_a_failed_provider_ends_the_run_and_the_message_is_kept(graph, model):
    """A-R10: the person's message is stored before the model is called."""
    model.script(Fail(500, "engine down"))
    with pytest.raises(Exception, match="OpenAI"):
        await graph.ainvoke(
            {"messages": [HumanMessage("A spot for Doi Chang")]},
            config(),
            context={"provider": "openai"},
            durability="sync",
        )
    snapshot = await graph.aget_state(config())
    assert [message.text for message in snapshot.values["messages"]] == ["A spot for Doi Chang"]


async def test_open_calls_of_a_stopped_run_get_results_before_the_next_model_call(graph, model, opened):
    """A-R11: in call order; an executed call's result comes from its receipt, the others are cancelled."""
    music, search = (
        call("m", "create_music_draft", adId="kopi", prompt="calm"),
        call("s", "search_voices", language="th"),
    )
    model.script(Say(calls=[music, search]))
    await graph.ainvoke(
        brief_input(), config(), context={"provider": "openai"}, interrupt_before=["tool_executor"]
    )
    call_message = (await graph.aget_state(config())).values["messages"][-1]
    fence = await Artefact(opened, "ad", "kopi", LOCAL).claim(
        receipt_name("kopi", "crashed-task", f"{call_message.id}/m"),
        epoch=1,
        owner="local",
        thread="kopi",
        facts={},
    )
    assert isinstance(fence, StepFence)
    receipt_result = await Artefact(opened, "ad", "kopi", LOCAL).create_version(music_version(), fence)
    model.script(Say("Where were we?"))
    state = await graph.ainvoke(
        {"messages": [HumanMessage("Go on?")]}, config(), context={"provider": "openai"}
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
    results = dict(tool_messages(state))
    assert results["m"] == receipt_result
    assert "cancelled" in results["s"]["error"]


def music_version():
    return NewVersion(
        "music", {"musicPrompt": "calm", "musicProvider": "loudly"}, "llm", "r", result={"status": "draft"}
    )


async def test_the_words_of_a_model_stay_and_the_receipt_has_what_was_made(graph, model):
    model.script(Say(calls=[drafts("หนึ่ง")[1]]), Say("I made music v1 and voices v7."))
    state = await graph.ainvoke(brief_input(), config(), context={"provider": "openai"})
    assert state["messages"][-1].text == "I made music v1 and voices v7."
    assert state["receipt"]["text"] == "Changed: music v1."


async def test_an_empty_last_message_is_replaced_by_the_versions_that_were_made(graph, model):
    model.script(Say(calls=[drafts("หนึ่ง")[1]]), Say(""), Say(""))
    state = await graph.ainvoke(brief_input(), config(), context={"provider": "openai"})
    assert state["messages"][-1].text == "Made music v1."


async def test_usage_sums_the_tokens_of_all_calls(graph, model):
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


async def test_a_script_that_is_too_long_is_stored_uncut_and_the_result_says_how_much_fits(
    graph, model, opened
):
    """The server cuts no sentence; the model rewrites."""
    text = "".join(f"นี่คือประโยคที่ {i} ของโฆษณาที่ยาวเกินไปมากสำหรับเวลา. " for i in range(20)) + "โทรเลยวันนี้!"
    model.script(Say(calls=[drafts(text)[0]]), SAY_DONE)
    state = await graph.ainvoke(brief_input(), config(), context={"provider": "openai"})
    [(_, result)] = tool_messages(state)
    assert not result["timeline"]["fits"]
    assert result["overBySeconds"] == pytest.approx(result["timeline"]["durationSeconds"] + 1 - 20, abs=0.01)
    assert 200 < result["budgetCharacters"] <= 260
    block = model.requests[1].messages[-1]["content"]
    assert f"About {result['budgetCharacters']} characters fit" in block, "one figure for one thing"
    assert "Rewrite the script" in result["suggestion"]
    stored_text = (await stream(opened, "voices")).versions[0].data["voiceTracks"][0]["text"]
    assert stored_text == text


async def test_a_fork_before_the_tool_executor_makes_new_versions(graph, model, opened):
    """A resumed step finds its receipt; a fork is another task."""
    model.script(Say(calls=[drafts("หนึ่ง")[1]]), SAY_DONE)
    await graph.ainvoke(brief_input(), config(), context={"provider": "openai"})
    snapshot, *_ = [
        state async for state in graph.aget_state_history(config()) if state.next == ("tool_executor",)
    ]
    model.script(SAY_DONE)
    fork_config = await graph.aupdate_state(snapshot.config, {}, as_node="approval")
    await graph.ainvoke(None, fork_config, context={"provider": "openai"})
    assert [version.id for version in (await stream(opened, "music")).versions] == ["v1", "v2"]


async def test_a_run_without_a_thread_id_is_refused(opened):
    with pytest.raises(Invalid, match="no thread id"):
        await ad_creation.graph.ainvoke(brief_input())


async def test_the_graph_is_compiled_without_a_checkpointer_and_shows_its_nodes():
    """X1, X2, X6."""
    assert ad_creation.graph.checkpointer is None
    assert {"planner", "approval", "tool_executor", "summarizer"} <= set(ad_creation.graph.get_graph().nodes)
    for schema in (ad_creation.graph.get_input_jsonschema(), ad_creation.graph.get_output_jsonschema()):
        assert "messages" in schema["properties"]


async def test_two_owners_ads_of_one_id_are_separate(graph, model, opened):
    """X16: the server names the owner in the config."""
    for owner, thread in (("ana", "kopi"), ("bob", "other-thread")):
        model.script(Say(calls=drafts("หนึ่ง")[1:2]), SAY_DONE)
        run_config = config(thread, **{OWNER_KEY: owner, EPOCH_KEY: 1, RUN_KEY: owner})
        await graph.ainvoke({**brief_input(), "ad_id": "kopi"}, run_config, context={"provider": "openai"})
    for owner in ("ana", "bob"):
        artefact = Artefact(opened, "ad", "kopi", owner)
        assert len((await artefact.stream("music")).versions) == 1
        assert (await artefact.meta())["owner"] == owner
    assert not (await stream(opened, "music")).versions


async def test_tools_are_denied_an_ad_whose_record_names_another_owner(graph, model, opened):
    """X16."""
    await Artefact(opened, "ad", "kopi", LOCAL).open(owner="ana", thread="hers", facts={})
    model.script(Say(calls=drafts("หนึ่ง", prefix="d")[1:2]), Say("No."), Say("No."))
    state = await graph.ainvoke(brief_input(), config(), context={"provider": "openai"})
    assert dict(tool_messages(state))["d2"]["type"] == "permission_denied"
    assert not (await stream(opened, "music")).versions


async def test_a_turn_at_its_limit_of_rounds_logs_each_reason_for_refused_calls_once(graph, model, caplog):
    bad = [f'{{"adId": "kopi", "promt": "hunter2 {i}"}}' for i in range(4)]
    model.script(
        *(
            Say(calls=[(f"c{i}", "create_music_draft", one), (f"d{i}", "sing", one)])
            for i, one in enumerate(bad)
        )
    )
    state = await graph.ainvoke(brief_input(), config(), context={"provider": "openai", "max_rounds": 3})
    assert state["messages"][-1].text.startswith("This turn ended at its limit of rounds.")
    lines = [record.getMessage() for record in caplog.records if "limit of rounds" in record.getMessage()]
    assert len(lines) == 2
    assert lines[0].endswith("calls of create_music_draft failed: validation_error")
    assert lines[1].endswith("calls of sing failed: unknown_tool")
    assert "hunter2" not in caplog.text

"""Budgets of model calls: reserved before a call, raised by a person, reported as usage (X14)."""

import asyncio
import json
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from datetime import UTC, date, datetime
from typing import Any

import httpx
import pytest
from langchain_core.messages import HumanMessage
from redis import Redis

from callsheet.providers import load
from callsheet.state.budgets import BudgetExceeded, Budgets, OverBudget, parse_budgets
from callsheet.state.errors import Invalid
from callsheet.storage import Storage, spending, use
from callsheet.storage.spending import Account, ModelUsage
from callsheet.tools.models.calls import call_model, charge
from tests.doubles.ad_model import call
from tests.doubles.chat_double import ChatDouble, Fail, Say, Silence
from tests.doubles.served import GENERATE, VOICE, app_client, started_app
from tests.doubles.waiting import eventually, until

MUSIC = call("c2", "create_music_draft", adId="ad-1", prompt="gentle piano")
VOICES = call("c1", "create_voice_draft", adId="ad-1", tracks=[{"voiceId": VOICE, "text": "Bread at four."}])
SFX = call("c3", "create_sfx_draft", adId="ad-1", prompts=[{"description": "an oven door"}])
BRIEF = {**GENERATE, "provider": "openai"}
FIRST = Say("Three drafts.", calls=(VOICES, MUSIC, SFX), prompt_tokens=100_000, completion_tokens=1_000)
DONE = Say("Ready to review.", prompt_tokens=2_000, completion_tokens=100)
FIRST_USD = 0.1 * 0.15 + 0.001 * 0.60
DONE_USD = 0.002 * 0.15 + 0.0001 * 0.60


@pytest.fixture
def double(monkeypatch: pytest.MonkeyPatch) -> Iterator[ChatDouble]:
    with ChatDouble() as model:
        for name, value in {**model.environ, "OPENAI_MODEL": "gpt-4o-mini"}.items():
            monkeypatch.setenv(name, value)
        yield model


@asynccontextmanager
async def client(valkey_url: str, **budgets: float) -> AsyncIterator[httpx.AsyncClient]:
    async with started_app(valkey_url, budgets=json.dumps(budgets)) as app, app_client(app) as http:
        yield http


async def post(http: httpx.AsyncClient, path: str, body: dict[str, Any]) -> dict[str, Any]:
    reply = await http.post(path, json=body)
    assert reply.status_code == 200, reply.text
    parsed: dict[str, Any] = reply.json()
    return parsed


async def versions(http: httpx.AsyncClient, stream: str = "music") -> list[str]:
    return [one["id"] for one in (await http.get(f"/api/ads/ad-1/{stream}")).json()["versions"]]


async def test_a_turn_pauses_at_its_budget_and_continues_once_a_person_raises_it(
    valkey_url: str, double: ChatDouble
) -> None:
    """The question names spent, estimate and cap; steps done before the question are not repeated."""
    async with client(valkey_url, turn=0.005) as http:
        double.script(FIRST, DONE)
        paused = await post(http, "/api/ai/generate", BRIEF)
        [action] = paused["question"]["actions"]
        assert action["name"] == "raise_budget"
        assert (action["args"]["budget"], action["args"]["cap"]) == ("turn", 0.005)
        assert action["args"]["spent"] == pytest.approx(FIRST_USD)
        assert 0 < action["args"]["estimate"] < 0.01
        assert paused["message"] == action["description"]
        assert len(double.requests) == 1, "nothing was sent that could exceed the budget"
        assert await versions(http) == ["v1"]
        done = await post(http, "/api/ads/ad-1/chat", {"message": "yes", "provider": "openai"})
        assert (done["message"].partition("\n")[0], done["question"]) == ("Ready to review.", None)
        assert done["drafts"] == {"voices": "v1", "music": "v1", "sfx": "v1"}
        assert [await versions(http, name) for name in ("voices", "music", "sfx")] == [["v1"]] * 3
        assert done["turnUsage"]["modelCalls"] == len(double.requests) == 2
        assert done["turnUsage"]["costUsd"] == pytest.approx(FIRST_USD + DONE_USD)


async def test_a_turn_whose_budget_is_not_raised_ends_and_keeps_its_versions(
    valkey_url: str, double: ChatDouble
) -> None:
    async with client(valkey_url, thread=0.005) as http:
        double.script(FIRST)
        await post(http, "/api/ai/generate", BRIEF)
        ended = await post(http, "/api/ads/ad-1/chat", {"message": "no", "provider": "openai"})
        assert "budget was not raised" in ended["message"]
        assert ended["question"] is None
        assert await versions(http) == ["v1"]
        assert double.unused == 0
        # The next turn asks again, because the thread's budget is still spent.
        next_turn = await post(http, "/api/ads/ad-1/chat", {"message": "calmer music", "provider": "openai"})
        assert next_turn["question"]["actions"][0]["args"]["budget"] == "thread"


async def test_an_answer_with_too_low_a_cap_is_refused_and_a_sufficient_one_resumes_the_turn(
    valkey_url: str, double: ChatDouble
) -> None:
    async with client(valkey_url, turn=0.005) as http:
        double.script(FIRST, DONE)
        await post(http, "/api/ai/generate", BRIEF)
        path = "/threads/ad-1/runs/wait"

        async def raise_cap(cap: object) -> Any:
            edit = {"type": "edit", "edited_action": {"name": "raise_budget", "args": {"cap": cap}}}
            body = {"assistant_id": "ad_creation", "command": {"resume": {"decisions": [edit]}}}
            return (await http.post(path, json=body)).json()

        assert "too low" in json.dumps(await raise_cap(0.006))
        assert len(double.requests) == 1
        assert (await raise_cap(0.5))["messages"][-1]["content"][0]["text"] == "Ready to review."


async def test_an_owners_daily_budget_is_not_raised_by_an_answer(valkey_url: str, double: ChatDouble) -> None:
    async with client(valkey_url, day=0.005) as http:
        double.script(FIRST)
        paused = await post(http, "/api/ai/generate", BRIEF)
        assert paused["question"]["actions"][0]["args"]["budget"] == "day"
        assert (paused["outcome"], paused["drafts"]) == (
            "over_budget",
            {"voices": "v1", "music": "v1", "sfx": "v1"},
        )
        assert paused["message"].startswith("This is not finished: ")
        ended = await post(http, "/api/ads/ad-1/chat", {"message": "yes", "provider": "openai"})
        assert "budget was not raised" in ended["message"]
        assert len(double.requests) == 1


HELLO: Any = [
    {"id": "m1", "role": "user", "parts": [{"type": "text", "text": "The Moon is round and grey."}]}
]


WORKFLOWS: Any = [
    ("/api/ai/generate", BRIEF),
    ("/api/agent-create/tools", {"messages": HELLO}),
    ("/api/pages/bakery/chat", {"message": "Make the title green"}),
    ("/api/projects/launch/executions", {"message": "Make all scenes green"}),
    ("/api/chat", {"message": "Which offers are there?"}),
]
NAMES = ("ads", "lessons", "pages", "videos", "campaigns")


@pytest.mark.parametrize(("path", "body"), WORKFLOWS, ids=NAMES)
async def test_a_turn_whose_budget_is_too_small_asks_in_every_workflow_and_is_never_an_empty_success(
    valkey_url: str, double: ChatDouble, path: str, body: dict[str, Any]
) -> None:
    """X14: the question names the budget and what is spent, and the outcome says that it is not done."""
    async with client(valkey_url, turn=0.000001) as http:
        reply = await post(http, path, {**body, "provider": "openai"})
        question = reply["interrupt"]["value"]["action_requests"] if "interrupt" in reply else None
        [action] = question or reply["question"]["actions"]
        assert (action["name"], action["args"]["budget"]) == ("raise_budget", "turn")
        text = action["description"]
        assert "The budget of this turn is $" in text
        assert text.startswith("This is not finished: ")
        assert reply["response" if path == "/api/chat" else "message"] == text
        assert reply.get("outcome", "over_budget") == "over_budget"
        assert not double.requests


@pytest.mark.parametrize(("path", "body"), WORKFLOWS, ids=NAMES)
async def test_new_work_of_an_owner_whose_day_is_used_up_is_402_and_leaves_no_message_and_no_question(
    valkey_url: str, double: ChatDouble, path: str, body: dict[str, Any]
) -> None:
    """X14: the refusal says when the budget begins again; the same request is done then."""
    async with client(valkey_url, day=0.000001) as http:
        for _ in range(2):
            refused = await http.post(path, json={**body, "provider": "openai"})
            assert refused.status_code == 402, refused.text
            problem = refused.json()
            assert problem["type"] == "budget_used_up"
            assert problem["error"].startswith(
                "the budget of this day is used up: of $0.0000010, $0.0000 is spent"
            )
            assert datetime.fromisoformat(problem["details"]["ends"]) > datetime.now(UTC)
            assert problem["details"]["ends"] in problem["remedy"]
            assert problem["details"]["budget"] == "day"
        assert not double.requests
        assert (await http.get("/api/questions")).json()["questions"] == []
        threads = (await http.post("/threads/search", json={})).json()
        assert threads
        for thread in threads:
            state = (await http.get(f"/threads/{thread['thread_id']}/state")).json()
            assert not state["values"].get("messages")
            assert state["next"] == []
            assert thread["status"] == "idle"
    async with client(valkey_url, day=1.0) as http:
        double.script(*[Say("Which offers do you mean?")] * 3)
        done = await http.post(path, json={**body, "provider": "openai"})
        assert done.status_code in {200, 202}, done.text
        assert double.requests


@pytest.mark.parametrize(("path", "body"), WORKFLOWS, ids=NAMES)
async def test_a_stream_of_new_work_after_a_used_up_day_ends_with_an_error_of_status_402(
    valkey_url: str, double: ChatDouble, path: str, body: dict[str, Any]
) -> None:
    async with client(valkey_url, day=0.000001) as http:
        body = {**body, "provider": "openai"}
        reply = await http.post(path, json=body, headers={"Accept": "text/event-stream"})
        assert "the budget of this day is used up" in reply.text
        assert "when the budget begins again" in reply.text
        if reply.status_code == 200:
            assert "event: error" in reply.text or '"type":"error"' in reply.text
        else:
            assert reply.status_code == 402
        assert not double.requests


MATERIAL = "The Moon has no air, and its sky is black at noon. " * 10


@pytest.mark.parametrize("interface", ["REST", "LangGraph"])
async def test_a_step_that_begins_a_turn_without_the_planners_model_is_refused_too(
    valkey_url: str, double: ChatDouble, interface: str
) -> None:
    """A pasted material is read without asking the model what to do."""
    async with client(valkey_url, day=0.000001) as http:
        if interface == "LangGraph":
            thread = (await http.post("/threads", json={})).json()["thread_id"]
            body = {"assistant_id": "fact_narration", "input": {"messages": MATERIAL}}
            body["context"] = {"provider": "openai"}
            ended = (await http.post(f"/threads/{thread}/runs/wait", json=body)).json()
            assert ended["__error__"]["error"] == "BudgetUsedUp"
            assert "Nothing was done. Send the request again after" in ended["__error__"]["message"]
            [run] = (await http.get(f"/threads/{thread}/runs")).json()
            assert run["status"] == "error"
            assert not (await http.get(f"/threads/{thread}/state")).json()["values"]
        else:
            turn = {"messages": [{"role": "user", "content": MATERIAL}], "provider": "openai"}
            refused = await http.post("/api/agent-create/tools", json=turn)
            assert (refused.status_code, refused.json()["type"]) == (402, "budget_used_up")
        assert not double.requests


async def test_a_question_that_waits_is_kept_where_a_message_is_refused_for_the_budget(
    valkey_url: str, double: ChatDouble
) -> None:
    async with client(valkey_url, day=0.000001) as http:
        page = {"message": "Change the headline to “Fresh bread”", "provider": "offline"}
        await post(http, "/api/pages/shop/chat", page)
        deletion = {"message": "delete the features section", "provider": "offline"}
        asks = await post(http, "/api/pages/shop/chat", deletion)
        other = {"message": "Make the title green", "provider": "openai"}
        assert (await http.post("/api/pages/shop/chat", json=other)).status_code == 402
        [waiting] = (await http.get("/api/questions")).json()["questions"]
        assert waiting["id"].startswith(asks["question"]["id"])
        agreed = await post(http, "/api/pages/shop/decisions", {"decisions": [{"type": "approve"}]})
        assert agreed["created"]
        assert not double.requests


@pytest.mark.parametrize("interface", ["questions", "LangGraph"])
async def test_an_answer_in_words_after_a_used_up_day_is_kept_and_the_lesson_goes_on_later(
    valkey_url: str, double: ChatDouble, interface: str
) -> None:
    """An answer is stored with its question, so that the run asks again instead of being refused."""
    words = "Which of these are the most fun for small children?"
    async with client(valkey_url, day=0.000001) as http:
        turn = {"messages": [{"role": "user", "content": MATERIAL}], "provider": "offline"}
        thread = (await post(http, "/api/agent-create/tools", turn))["sessionId"]
        if interface == "LangGraph":
            run = {"assistant_id": "fact_narration", "context": {"provider": "openai"}}
            await post(http, f"/threads/{thread}/runs/wait", {**run, "command": {"resume": words}})
        else:
            [first] = (await http.get("/api/questions")).json()["questions"]
            answer = {"answer": words, "provider": "openai"}
            await post(http, f"/api/questions/{first['id']}/answer", answer)

        async def waits() -> bool:
            return bool((await http.get(f"/threads/{thread}")).json()["status"] != "busy")

        await eventually(waits, "the run has ended")
        [question] = (await http.get("/api/questions")).json()["questions"]
        assert "This is not finished" in json.dumps(question)
        assert not double.requests
    async with client(valkey_url, day=1.0) as http:
        double.script(*[Say("The sky of the Moon.")] * 3)
        run = {"assistant_id": "fact_narration", "context": {"provider": "openai"}}
        await post(http, f"/threads/{thread}/runs/wait", {**run, "command": {"resume": True}})
        assert words in json.dumps([one.body for one in double.requests])


@pytest.mark.parametrize(
    ("path", "named", "words"),
    [("/api/chat", "conversationId", "response"), ("/api/projects/launch/executions", "", "message")],
    ids=["campaigns", "videos"],
)
@pytest.mark.parametrize("answer", ["yes", "no"])
async def test_a_message_answers_the_question_about_a_budget(
    valkey_url: str, double: ChatDouble, path: str, named: str, words: str, answer: str
) -> None:
    async with client(valkey_url, turn=0.000001) as http:
        reply = await post(http, path, {"message": "Which offers are there?", "provider": "openai"})
        double.script(*[Say("There is nothing to do.")] * 2)
        thread = {named: reply[named]} if named else {}
        second_reply = await post(http, path, {"message": answer, "provider": "openai", **thread})
        assert second_reply["question"] is None
        expected = "There is nothing to do." if answer == "yes" else "the budget was not raised"
        assert expected in second_reply[words]
        assert bool(double.requests) == (answer == "yes")


async def test_calls_wait_for_the_reservations_of_others_while_the_budget_suffices(
    valkey_url: str, double: ChatDouble
) -> None:
    """A call costs a small part of what is reserved for it: all are answered, and none is reply about."""
    double.script(*[Say("Which offers do you mean?", prompt_tokens=100, completion_tokens=10)] * 12)
    # The reservation of a call is 0.003, its cost 0.00002.
    async with client(valkey_url, day=0.008) as http:
        body = {"message": "Which offers are there?", "provider": "openai"}
        answers = await asyncio.gather(*(post(http, "/api/chat", body) for _ in range(12)))
        assert [one["question"] for one in answers] == [None] * 12
        assert {one["response"] for one in answers} == {"Which offers do you mean?"}
        assert len(double.requests) == 12


OFFERS = {"message": "Which offers are there?", "provider": "openai"}
ASKS_BACK = Say("Which offers do you mean?", prompt_tokens=1_400, completion_tokens=150)
ASKS_BACK_USD = 0.0014 * 0.15 + 0.00015 * 0.60


async def question_about(
    http: httpx.AsyncClient, path: str, body: dict[str, Any], number: int
) -> tuple[str, dict[str, Any]]:
    """Return a question about a thing of its own; an order that changes nothing would cost a second call."""
    if path == "/api/ai/generate":
        await post(http, path, {**GENERATE, "adId": f"ad-{number}"})
        path, body = f"/api/ads/ad-{number}/chat", {"message": "Is the music calm?"}
    if path == "/api/pages/bakery/chat":
        body = {"message": "Is the title green?"}
    for name in ("bakery", "launch"):
        path = path.replace(name, f"{name}-{number}")
    return path, {**body, "provider": "openai"}


_LONG = {"ads", "lessons", "pages", "videos"}
"""Workflows whose 40 turns take several seconds, and go the same way as the others'."""


@pytest.mark.parametrize(
    ("path", "body"),
    [
        pytest.param(*each, id=name, marks=pytest.mark.long if name in _LONG else ())
        for name, each in zip(NAMES, WORKFLOWS, strict=True)
    ],
)
async def test_of_40_parallel_calls_with_money_for_28_nearly_all_are_answered_and_none_beyond_the_budget(
    valkey_url: str, double: ChatDouble, path: str, body: dict[str, Any]
) -> None:
    """X14: a reservation is near the cost of a call; who gets no answer learns which budget is used up."""
    # As long as the prompts are.
    read = 5_000 if path in {"/api/ai/generate", "/api/pages/bakery/chat"} else 1_400
    cost = (read * 0.15 + 150 * 0.60) / 1_000_000
    double.script(*[Say("Which offers do you mean?", prompt_tokens=read, completion_tokens=150)] * 40)
    budget = 28.5 * cost
    async with client(valkey_url, day=budget) as http:
        requests = [await question_about(http, path, body, number) for number in range(40)]
        replies = await asyncio.gather(*(http.post(place, json=one) for place, one in requests))
        refused = [one.json() for one in replies if one.status_code == 402]
        answered = [one.json() for one in replies if one.status_code in {200, 202}]
        assert len(refused) + len(answered) == 40
        assert 24 <= len(answered) <= 28
        assert len(double.requests) == len(answered)
        words = {one.get("response") or one["message"].partition("\n")[0] for one in answered}
        assert words == {"Which offers do you mean?"}
        for one in refused:
            assert one["type"] == "budget_used_up"
            assert one["details"]["ends"] in one["remedy"]
        spent = (await http.get("/api/usage")).json()["total"]["costUsd"]
        assert spent == pytest.approx(len(answered) * cost)
        assert spent <= budget
        metrics = (await http.get("/metrics")).text
        assert f'callsheet_budget_refusals_total{{budget="day"}} {len(refused)}.0' in metrics


async def test_parallel_calls_never_reserve_more_than_a_budget(storage: Storage) -> None:
    account, budgets = Account("alice", "t", "m"), Budgets(turn=1.0, thread=0.75, day=5.0)
    refusals = await asyncio.gather(
        *(spending.reserve(storage, account, f"c{number}", 0.1, budgets, 60) for number in range(20))
    )
    assert sum(over is None for over in refusals) == 7
    assert {(over.budget, over.cap) for over in refusals if over} == {("thread", 0.75)}
    granted = [number for number, over in enumerate(refusals) if over is None]
    for number in granted:
        await spending.settle(storage, account, f"c{number}", "m1", ModelUsage(1, 10, 5, 0, 0.05))
        await spending.settle(storage, account, f"c{number}", "m1", ModelUsage(1, 10, 5, 0, 0.05))
    for name in ("turn", "thread", "day"):
        used = await spending.read_usage(storage, account, name)
        assert used["m1"].cost == pytest.approx(0.35)
        assert (used["m1"].calls, used["m1"].input, used["m1"].output) == (7, 70, 35), "each is settled once"
    assert await spending.reserve(storage, account, "again", 0.4, budgets, 60) is None


async def test_a_model_call_is_charged_to_the_day_of_redis_whatever_the_clock_of_the_process_says(
    storage: Storage, inspector: Redis, double: ChatDouble
) -> None:
    double.script(DONE)
    use(storage)
    try:
        with charge(Account("alice", "t", "m", day=date(2000, 1, 1))):
            model = load("openai/gpt-4o-mini")
            await call_model(model, [HumanMessage("Hello")], lambda: model.ainvoke("Hello"))
    finally:
        use(None)
    seconds, _ = inspector.time()
    today = datetime.fromtimestamp(seconds, UTC).date()
    assert await spending.read_days(storage, "alice", date(2000, 1, 1), date(2000, 1, 1)) == {}
    assert [*await spending.read_days(storage, "alice", today, today)] == [today]


async def test_a_reservation_of_a_dead_process_expires_and_a_failed_call_costs_nothing(
    storage: Storage, inspector: Redis
) -> None:
    account, budgets = Account("alice", "t", "m"), Budgets(thread=1.0)
    assert await spending.reserve(storage, account, "dead", 0.9, budgets, 60) is None
    assert await spending.reserve(storage, account, "next", 0.9, budgets, 60) is not None
    for key in account.keys:
        stored: Any = inspector.hgetall(key)
        for name, value in stored.items():
            if name == b"r:dead":
                # Its process died long ago.
                inspector.hset(key, name, value.split()[0] + b" 1")
    assert await spending.reserve(storage, account, "next", 0.9, budgets, 60) is None
    await spending.settle(storage, account, "next")
    assert await spending.reserve(storage, account, "last", 0.9, budgets, 60) is None
    assert await spending.read_usage(storage, account, "thread") == {}


async def test_usage_is_reported_by_day_and_model_and_by_conversation(
    valkey_url: str, double: ChatDouble, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A75, X14: a model without a price is reported too, with an unknown cost."""
    async with client(valkey_url) as http:
        double.script(FIRST, DONE)
        await post(http, "/api/ai/generate", BRIEF)
        report = (await http.get("/api/usage", params={"conversationId": "ad-1"})).json()
        row = {
            "day": None,
            "model": "gpt-4o-mini",
            "modelCalls": 2,
            "inputTokens": 102_000,
            "cachedTokens": 0,
            "outputTokens": 1_100,
            "costUsd": pytest.approx(FIRST_USD + DONE_USD),
            "estimatedCalls": 0,
        }
        assert report["rows"] == [row]
        monkeypatch.setenv("OPENAI_MODEL", "unheard-of")
        double.script(Say("Fine."))
        reply = await post(http, "/api/ads/ad-1/chat", {"message": "thanks?", "provider": "openai"})
        assert reply["turnUsage"]["costUsd"] is None
        report = (await http.get("/api/usage")).json()
        today = datetime.now(UTC).date().isoformat()
        assert [(one["day"], one["model"]) for one in report["rows"]] == [
            (today, "gpt-4o-mini"),
            (today, "unheard-of"),
        ]
        assert (report["total"]["modelCalls"], report["total"]["costUsd"]) == (3, None)
        filtered = (await http.get("/api/usage", params={"model": "gpt-4o-mini", "from": today})).json()
        assert filtered["total"]["costUsd"] == pytest.approx(FIRST_USD + DONE_USD)
        assert (await http.get("/api/usage", params={"from": "2020-01-01"})).status_code == 422
        other = (await http.get("/api/usage", params={"conversationId": "another"})).json()
        assert other["rows"] == []
        metrics = (await http.get("/metrics")).text
        assert 'callsheet_model_calls_total{model="gpt-4o-mini",outcome="ok"} 2.0' in metrics
        assert 'callsheet_model_calls_total{model="other",outcome="ok"} 1.0' in metrics
        assert 'callsheet_model_tokens_total{kind="input",model="gpt-4o-mini"} 102000.0' in metrics


async def test_a_failed_model_call_is_not_charged(valkey_url: str, double: ChatDouble) -> None:
    async with client(valkey_url, turn=1.0) as http:
        double.script(Fail(500))
        assert (await http.post("/api/ai/generate", json=BRIEF)).status_code == 503
        assert (await http.get("/api/usage")).json()["rows"] == []


async def test_a_model_call_that_a_stop_cuts_is_charged_at_its_estimate_and_marked(
    valkey_url: str, double: ChatDouble
) -> None:
    """The vendor bills what it wrote until then, and never says how much that was."""
    async with client(valkey_url) as http:
        double.script(*[ASKS_BACK] * 9)
        for _ in range(9):
            await post(http, "/api/chat", OFFERS)
    double.script(Silence())
    async with started_app(valkey_url, stop_grace_s=0) as app, app_client(app) as http:
        body = {"assistant_id": "campaign_search", "input": {"messages": "Which offers are there?"}}
        thread = (await http.post("/threads", json={})).json()["thread_id"]
        body |= {"context": {"provider": "openai"}}
        assert (await http.post(f"/threads/{thread}/runs", json=body)).status_code == 200
        await asyncio.to_thread(until, lambda: len(double.requests) == 10, "the model has been called")
    double.closing.set()
    async with started_app(valkey_url, carry_runs=False) as app, app_client(app) as http:
        report = (await http.get("/api/usage", params={"conversationId": thread})).json()
        [row] = report["rows"]
        assert (row["modelCalls"], row["estimatedCalls"]) == (1, 1)
        assert ASKS_BACK_USD < row["costUsd"] < 2.5 * ASKS_BACK_USD
        total = (await http.get("/api/usage")).json()["total"]
        assert (total["modelCalls"], total["estimatedCalls"]) == (10, 1)


async def test_the_offline_model_is_free(valkey_url: str) -> None:
    async with client(valkey_url, turn=0.000001) as http:
        reply = await post(http, "/api/ai/generate", dict(GENERATE))
        assert reply["drafts"]
        assert (reply["turnUsage"]["modelCalls"], reply["turnUsage"]["costUsd"]) == (0, 0)


@pytest.mark.parametrize(
    "budgets", [{"turn": "1"}, {"turn": 0}, {"week": 1}, {"day": True}, {"thread": None}]
)
def test_an_invalid_budget_is_refused_by_its_name(budgets: dict[str, Any]) -> None:
    with pytest.raises(Invalid, match=f"the budget '{next(iter(budgets))}'"):
        parse_budgets(budgets)


def test_the_answer_to_a_budget_question_gives_the_raised_cap_or_is_refused() -> None:
    assert not Budgets()
    assert parse_budgets({"turn": 1})
    over = OverBudget("turn", spent=0.9, estimate=0.3, cap=1.0)
    assert [over.raised_cap(answer) for answer in (True, False)] == [2.0, None]
    assert (
        OverBudget("turn", spent=0.9, estimate=3, cap=1.0).raised_cap({"decisions": [{"type": "approve"}]})
        == 3.9
    )
    invalid: Any
    for invalid in ("perhaps", {"decisions": []}, {"decisions": [{"type": "respond"}]}, {"decisions": [1]}):
        with pytest.raises(Invalid, match="no decision"):
            over.raised_cap(invalid)
    for args in ({}, {"args": {"cap": "2"}}, {"args": {"cap": 1.1}}):
        with pytest.raises(Invalid, match="too low"):
            over.raised_cap({"decisions": [{"type": "edit", "edited_action": args}]})


def test_a_budget_that_others_have_reserved_may_be_free_in_a_minute() -> None:
    over = OverBudget("day", 0.9, 0.3, 1.0, settled=0.1, ends="2030-01-01T00:00:00Z")
    refusal = over.refusal()
    assert "$0.9000 is spent or reserved by calls in progress" in refusal.message
    assert refusal.remedy.startswith("Send the request again in a minute")


def test_small_amounts_of_a_budget_are_shown_with_enough_digits() -> None:
    over = OverBudget("turn", spent=0.0, estimate=0.0000314, cap=0.000001)
    assert str(BudgetExceeded(over)).startswith(
        "the model call may cost $0.000031; of the turn's $0.0000010, $0.0000 is spent"
    )
    with pytest.raises(Invalid, match=r"cost \$0\.000031") as low:
        over.raised_cap({"decisions": [{"type": "edit", "edited_action": {"args": {"cap": 0.00001}}}]})
    enough = float(low.value.remedy.split()[3].rstrip(","))
    assert (
        over.raised_cap({"decisions": [{"type": "edit", "edited_action": {"args": {"cap": enough}}}]})
        == enough
    )

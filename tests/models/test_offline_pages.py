"""The offline model on landing pages: the forms of requests, declined requests, and replies."""

from collections.abc import Callable
from typing import Any

import pytest
from langchain_core.messages import HumanMessage
from langchain_core.runnables import RunnableConfig
from langgraph.types import Command

from callsheet.graphs import page_builder
from callsheet.providers.offline.model import OfflineModel
from callsheet.providers.offline.pages.edits import FORMS
from callsheet.state.pages import history as page_history
from callsheet.state.pages.history import STARTER
from callsheet.state.pages.page import Page, walk
from callsheet.state.pages.styles import THEMES
from callsheet.storage import Storage
from callsheet.storage.artefacts.artefacts import Artefact, NewVersion
from callsheet.storage.checkpoints import RedisSaver
from callsheet.tools import REGISTRY
from callsheet.tools.registry import definitions
from tests.pages.page_double import same_page

CONFIG: RunnableConfig = {"configurable": {"thread_id": "t"}}
OFFLINE: Any = {"provider": "offline"}


class OfflinePageChat:
    """A conversation with the compiled graph about the page `shop`."""

    def __init__(self, storage: Storage) -> None:
        self.graph: Any = page_builder.graph.copy(update={"checkpointer": RedisSaver(storage.redis)})
        self.artefact = Artefact(storage, "page", "shop", "local")
        self.state: dict[str, Any] = {}

    async def say(self, text: str, selected: str = "", answer: str = "yes") -> str:
        """Return the reply of a turn; every approval gets this answer."""
        turn = {"messages": [HumanMessage(text)], "page_id": "shop", "selected_element_id": selected}
        self.state = await self.graph.ainvoke(turn, CONFIG, context=OFFLINE)
        while "__interrupt__" in self.state:
            self.state = await self.graph.ainvoke(Command(resume=answer), CONFIG, context=OFFLINE)
        return str(self.state["messages"][-1].text)

    async def page(self) -> Page:
        return page_history.page_of((await self.artefact.stream_head("page")).newest)

    async def sections(self) -> list[str]:
        return [one.id for one in (await self.page()).root.children]


@pytest.fixture
def chat(opened: Storage) -> OfflinePageChat:
    return OfflinePageChat(opened)


def style(element: str, name: str, value: str) -> Callable[[Page], bool]:
    return lambda page: page.get(element).style.get(name) == value


EFFECTS: dict[str, Callable[[Page], bool]] = {
    "page": lambda page: (
        [page.get(name).content for name in ("heading-1", "text-1", "text-2", "text-6")]
        == ["Miel", "Miel", "A bakery in Lyon.", "© Miel"]
    ),
    "text": lambda page: page.get("heading-1").content == "Bread at four",
    "colour": style("section-1", "background-color", "lightblue"),
    "size": style("heading-1", "font-size", "40px"),
    "style": style("text-6", "font-weight", "bold"),
    "attribute": lambda page: page.get("button-1").attributes["href"] == "/shop",
    "link": lambda page: page.get("button-1").attributes["href"] == "https://bakery.example/shop",
    "add.section": lambda page: [one.id for one in page.root.children][3:] == ["section-3", "footer-1"],
    "add.element": lambda page: page.get("section-1").children[-1].content == "Call us",
    "clear": lambda page: not page.root.children,
    "delete": lambda page: page.find("card-2") is None,
    "move": lambda page: page.root.children[1].id == "section-2",
    "theme": lambda page: page.theme == THEMES["ocean"],
}
"""A check of the page after the example of a form; other forms leave the starter page as it is."""


@pytest.mark.parametrize("form", FORMS, ids=lambda form: form.name)
async def test_the_example_of_each_form_has_its_effect(chat: OfflinePageChat, form: Any) -> None:
    if form.name == "undo":
        await chat.say("make the headline red and move the hero below the features")
        assert not same_page(await chat.page(), STARTER)
    reply = await chat.say(form.example)
    assert "changed nothing" not in reply
    assert "could not" not in reply
    page = await chat.page()
    assert EFFECTS.get(form.name, lambda page: same_page(page, STARTER))(page), reply


async def test_questions_about_the_page_and_about_requests_are_answered(chat: OfflinePageChat) -> None:
    assert "the section “Hero”, the section “Features”" in await chat.say("what's on the page?")
    reply = await chat.say("what can you do?")
    assert [form.example for form in FORMS if form.example not in reply] == []


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("make the headline not red", "did not understand “not”"),
        ("make everything except the footer red", "did not understand “except the”"),
        ("don't delete the features", "did not understand"),
        ("make the headline red but leave the hero alone", "did not understand"),
        ("delete the features unless they are needed", "did not understand “unless they are needed”"),
        ("add a contact form, a map and a calendar", "did not understand"),
        ("write a nice text for the section about invoicing", "did not understand"),
        ("cambia el titular a “Hola”", "did not understand"),
        ("make the headline bigger and book me a table", "did not understand"),
        ("make me a page for my bakery in Porto", "did not understand"),
        ("undo that and redo it", "did not understand"),
        ("make the unicorn teal", "the section “Hero”, the section “Features”, the footer “Footer”"),
        ('change the button "Buy" to "Go"', "there is the button “Get started”"),
        ("make the headline teal and delete the card", "the card “First reason”, the card “Second reason”"),
        ("make the headline teal and make it teal", "the same twice"),
        ("make this red", "nothing is selected"),
        ("add a contact form and make it teal", "“it” names nothing"),
        ("a landing page for my bakery", "did not understand"),
        ("a landing page for Miel, a bakery in Lyon, with a contact form", "did not understand"),
        ("use the neon theme", "there is light, dark, ocean"),
        ('add a button "Call us"', "where to; there is the navigation"),
    ],
)
async def test_an_unclear_request_changes_nothing_and_the_reply_has_the_reason(
    chat: OfflinePageChat, text: str, words: str
) -> None:
    reply = await chat.say(text)
    assert "changed nothing" in reply
    assert words in reply
    assert (await chat.artefact.stream_head("page")).newest is None


@pytest.mark.parametrize(
    ("words", "element"),
    [
        ("the second card", "card-2"),
        ("the heading in the second card", "heading-4"),
        ("the features heading", "heading-2"),
        ('the "First reason" heading', "heading-3"),
        ("the last text", "text-6"),
        ("the third heading of the features section", "heading-4"),
        ('"Get started"', "button-1"),
        ("card-3", "card-3"),
    ],
)
async def test_an_element_can_be_named_by_position_text_label_or_id(
    chat: OfflinePageChat, words: str, element: str
) -> None:
    await chat.say(f"make {words} underlined")
    assert [one.id for one, _ in walk((await chat.page()).root) if "text-decoration" in one.style] == [
        element
    ]


async def test_the_words_it_and_this_name_the_last_or_the_selected_element(chat: OfflinePageChat) -> None:
    """C26: the element named last, the one selected, and the one changed last."""
    assert "The page is v2 now" in await chat.say(
        'Change the headline to "Bread at four" and make it darkgreen'
    )
    await chat.say("make it bigger")
    await chat.say("make this orange", selected="section-2")
    await chat.say("make it smaller")
    page = await chat.page()
    assert page.get("heading-1").style == {"color": "darkgreen", "font-size": "40px"}
    assert page.get("section-2").style.items() >= {"background-color": "orange", "font-size": "13px"}.items()
    await chat.say("delete it")
    assert "nothing is selected" in await chat.say("make it red")


async def test_undo_reverts_the_last_message_but_no_later_change_by_hand(chat: OfflinePageChat) -> None:
    await chat.say("add a pricing section and make the headline teal")
    assert "the last 2 changes" in await chat.say("undo that")
    assert same_page(await chat.page(), STARTER)
    await chat.say("make the headline red")
    assert "the last change: " in await chat.say("undo")
    await chat.say("add a pricing section and make the headline teal")
    newest = (await chat.artefact.stream_head("page")).newest
    assert newest is not None
    await chat.artefact.create_version(
        NewVersion("page", {**newest.data, "back": newest.id}, "local", "by-hand")
    )
    assert "the last change: " in await chat.say("undo that")
    assert (await chat.sections())[-2] == "section-4"


async def test_an_edit_after_a_summary_starts_from_the_current_page(chat: OfflinePageChat) -> None:
    await chat.say("make the headline 20px")
    for colour in ("red", "teal", "navy", "green", "orange", "purple") * 2:
        await chat.say(f"make the footer {colour}")
    assert chat.state["summary"]
    await chat.say("make the headline bigger and make it bold")
    assert (await chat.page()).get("heading-1").style == {"font-size": "25px", "font-weight": "bold"}


async def test_the_reply_reports_tool_results_and_the_persons_decision(chat: OfflinePageChat) -> None:
    reply = await chat.say("add a contact form below the features, then delete the features", answer="no")
    assert reply == (
        "I added the section “Contact form” with placeholder texts below the section “Features”. "
        "You said no, so the section “Features” stays. The page is v1 now."
    )
    assert await chat.sections() == ["nav-1", "section-1", "section-2", "section-3", "footer-1"]
    assert "I removed the section “Features”." in await chat.say("delete the features")
    await chat.artefact.lock("heading-1", "local")
    reply = await chat.say("make the footer red and make the headline teal")
    assert 'I changed the footer “Footer”: background-color set to "red".' in reply
    assert "I could not change the heading “Say what you offer in one line”: heading-1" in reply
    reply = await chat.say("make the footer red")
    assert reply.endswith("nothing on the page would be different. Nothing was changed.")


@pytest.mark.parametrize("choice", ["none", "undo"])
def test_a_tool_outside_tool_choice_is_not_called(choice: str) -> None:
    model = OfflineModel().bind_tools(definitions(REGISTRY.of("page")), tool_choice=choice)
    reply = model.invoke([HumanMessage("make the headline teal")])
    assert (reply.tool_calls, reply.text) == ([], "I may not call list_elements now, so I changed nothing.")

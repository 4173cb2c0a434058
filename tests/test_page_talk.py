"""More of what people say about a page: what is added, moved, asked and refused, by rules alone."""

import pytest

from state.page import walk
from tests.page_chat import PageChat
from tests.page_score import page_of


def told(page: str, text: str, *before: str, selected: str = "") -> tuple[PageChat, str]:
    chat = PageChat(page_of(page), selected=selected)
    for sentence in before:
        chat.say(sentence)
    return chat, chat.say(text)


def edits(chat: PageChat) -> list[str]:
    return [call["name"] for call in chat.calls if call["name"] not in {"list_elements", "read_element"}]


@pytest.mark.parametrize(
    ("text", "kind", "says"),
    [
        ("add a pricing section with two plans", "section", "Basic"),
        ("add a features section", "section", "Feature 3"),
        ("add a team section", "section", "Person 1"),
        ("add a gallery", "section", "Gallery"),
        ("add a newsletter signup", "section", "Stay in touch"),
        ("add a section about delivery", "section", "Delivery"),
        ("add a section called Opening hours", "section", "Opening hours"),
        ("add a form with name, phone and message", "section", "Contact us"),
        ("add a list with apples, pears and plums", "list", "apples"),
        ("add a hero section saying 'Hello'", "section", "Hello"),
        ("add a header", "header", "Your brand"),
        ("add a text saying 'Open daily'", "text", "Open daily"),
        ("add a link to our Instagram: https://instagram.example/x", "link", "Instagram"),
        ("add a video https://video.example/a.mp4", "video", ""),
        ("add a divider after the hero", "divider", ""),
        ("add a quote 'Lovely. Ana'", "quote", "Lovely. Ana"),
        ("add a card", "card", "New card"),
        ("copy the hero", "section", "Care tips"),
    ],
)
def test_what_is_to_be_added_is_added_once(text: str, kind: str, says: str) -> None:
    """C22."""
    chat, reply = told("garden", text)
    assert edits(chat) == ["create_element"], reply
    known = {one.id for one, _ in walk(chat.pages[0].root)}
    new = [one for one, _ in walk(chat.page.root) if one.id not in known]
    assert new[0].type == kind
    said = " ".join(f"{one.content} {one.label}" for one in new)
    assert says in said or text.startswith("copy"), said


@pytest.mark.parametrize(
    ("page", "text", "element", "style"),
    [
        (
            "coffee",
            "the hero should be dark green with white text",
            "hero",
            {"background-color": "darkgreen"},
        ),
        ("gym", "make Join today larger than Free trial", "start-join", {"font-size": "22px"}),
        ("garden", "capitalize the headline", "welcome-title", {"text-transform": "capitalize"}),
        ("coffee", "hide the newsletter", "newsletter", {"display": "none"}),
        ("coffee", "make the picture much wider", "hero-image", {"width": "720px"}),
        ("coffee", "give the Order now button a red border", "hero-button", {"border": "1px solid red"}),
        ("coffee", "make the headline lighter", "hero-title", {"color": "#595959"}),
        (
            "garden",
            "use a monospace font for the care text",
            "care-text",
            {"font-family": "ui-monospace, monospace"},
        ),
        ("gym", "less padding for the prices section", "prices", {"padding": "24px"}),
        ("garden", "reduce the headline", "welcome-title", {"font-size": "29px"}),
        ("gym", "the text in the questions list should be italic", "question-1", {"font-style": "italic"}),
    ],
)
def test_how_things_look_follows_what_is_said(
    page: str, text: str, element: str, style: dict[str, str]
) -> None:
    """C21."""
    chat, reply = told(page, text)
    found = chat.page.get(element).style
    assert {name: found.get(name) for name in style} == style, reply


@pytest.mark.parametrize(
    ("page", "text", "element", "content"),
    [
        ("gym", "change $19 to $21", "basic-price", "$21 a month"),
        (
            "coffee",
            "I don't like the headline, change it to Fresh coffee daily",
            "hero-title",
            "Fresh coffee daily",
        ),
        ("coffee", "rename Order now to Order online", "hero-button", "Order online"),
        ("gym", "replace 'Mill Road' with 'Oak Street'", "end-text", "Iron Oak Gym, 12 Oak Street"),
        ("gym", "replace the headline with 'Oak'", "start-title", "Oak"),
        ("gym", "the prices section should say 'Our prices'", "prices-title", "Our prices"),
    ],
)
def test_words_are_changed_where_they_stand(page: str, text: str, element: str, content: str) -> None:
    chat, reply = told(page, text)
    assert chat.page.get(element).content == content, reply


def test_things_go_up_and_down_by_one_place() -> None:
    chat, _ = told("coffee", "move the about section down")
    assert [one.id for one in chat.page.root.children][2:4] == ["reviews", "about"]
    chat.say("move the about section up")
    assert chat.page == chat.pages[0]
    assert "nothing above" in chat.say("move the header up")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("is there a contact form?", "There is none"),
        ("how many sections are there?", "There are"),
        ("where is the image?", "is in the section"),
        ("which theme is it?", "primary #"),
        ("what is the colour of the footer text?", "foot-text"),
        ("hello", "What shall I change"),
        ("what is the unicorn?", "could not find"),
    ],
)
def test_a_question_is_answered_and_changes_nothing(text: str, words: str) -> None:
    chat, reply = told("garden", text)
    assert words in reply
    assert edits(chat) == []


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("add a unicorn", "do not know how to add"),
        ("turn the button into a link", "where that is to lead"),
        ("make everything look more modern theme", "which theme"),
        ("swap the headline", "which two"),
        ("move the image", "where to move"),
        ("do the same with the footer", "changed nothing just before"),
        ("make it", "did not understand"),
        ("leave the footer alone", "leave that alone"),
        ("make the footer red but don't touch the footer", "left everything alone"),
        ("make the headline #333333", "like that already"),
        ("", "did not understand"),
    ],
)
def test_what_cannot_be_done_is_said_and_nothing_is_changed(text: str, words: str) -> None:
    chat, reply = told("garden", text)
    assert words in reply
    assert chat.page == chat.pages[0]


def test_everything_can_be_undone_at_once() -> None:
    chat, _ = told("garden", "undo everything", "make the headline red", "make it bigger and underline it")
    assert chat.page.root == chat.pages[0].root


def test_what_only_waited_for_a_failed_edit_is_tried_again() -> None:
    chat = PageChat(page_of("garden"), locked=["welcome-title"])
    reply = chat.say("make the welcome section red and underline the footer text")
    assert chat.page.get("foot-text").style["text-decoration"] == "underline"
    assert "locked" in reply


def test_without_tools_the_model_says_so() -> None:
    chat = PageChat(page_of("garden"))
    chat.tools = frozenset()
    assert "may not change anything" in chat.say("make the headline red")
    chat.tools = frozenset({"list_elements"})
    assert chat.say("underline the headline")
    assert chat.page == chat.pages[0]

"""Replies about pages in the language of whoever asks, and what is put on a page in it."""

import re
from string import Formatter

import pytest

from providers.offline.lexicon import SPOKEN
from providers.offline.sentences import sentences
from state.languages import detected
from state.page import walk
from tests.page_chat import PageChat
from tests.page_score import page_of

OTHERS = tuple(one for one in SPOKEN if one != "english")
UNKNOWN = {
    "thai": "ย้ายยูนิคอร์น",
    "indonesian": "hapus unikorn itu, tolong",
    "polish": "usuń proszę jednorożca",
    "spanish": "elimina el unicornio, por favor",
    "portuguese": "remova o unicórnio, por favor",
    "vietnamese": "xóa con kỳ lân đi",
    "czech": "smaž prosím jednorožce",
    "romanian": "șterge unicornul, te rog",
    "chinese": "删除独角兽",
}
FORM = {
    "thai": ("เพิ่มแบบฟอร์มติดต่อ", "ชื่อ"),
    "indonesian": ("tambahkan formulir kontak", "Nama"),
    "polish": ("dodaj formularz kontaktowy", "Imię i nazwisko"),
    "spanish": ("añade un formulario de contacto", "Nombre"),
    "portuguese": ("adicione um formulário de contato", "Nome"),
    "vietnamese": ("thêm biểu mẫu liên hệ", "Họ và tên"),
    "czech": ("přidej kontaktní formulář", "Jméno"),
    "romanian": ("adaugă un formular de contact", "Nume"),
    "chinese": ("添加联系表单", "姓名"),
}


def slots(text: str) -> set[str]:
    return {name for _, name, _, _ in Formatter().parse(text) if name}


@pytest.mark.parametrize("language", OTHERS)
def test_every_language_can_say_everything_with_the_same_words_filled_in(language: str) -> None:
    """X18: only articles, and names of styles that English has as CSS does, are a language's own affair."""
    english, other = sentences("page_builder", "english"), sentences("page_builder", language)
    free = ("new.", "property.")
    assert {key for key in english if not key.startswith(free)} <= set(other)
    assert {key for key in other if not key.startswith(free)} <= set(english)
    assert {f"kind.{key.removeprefix('new.')}" for key in other if key.startswith("new.")} <= set(english)
    wrong = {key for key in english if key in other and slots(english[key]) != slots(other[key])}
    assert wrong == set()


@pytest.mark.parametrize("language", OTHERS)
def test_who_asks_is_answered_in_their_language(language: str) -> None:
    """X18: what could not be done is said in it, too, and what can be said instead."""
    said = sentences("page_builder", language)
    chat = PageChat(page_of("garden"))
    reply = chat.say(UNKNOWN[language])
    assert chat.page == chat.pages[0]
    assert said["end.unchanged"] in reply
    assert said["say.examples"] in reply
    assert not set(re.findall(r"[a-z]+", reply.lower())) & {"the", "could", "nothing"}


@pytest.mark.parametrize("language", OTHERS)
def test_what_is_added_speaks_the_language_of_the_page(language: str) -> None:
    """C22: a form whose words are somebody else's would have to be written again."""
    text, name = FORM[language]
    chat = PageChat(page_of("garden"))
    reply = chat.say(text)
    known = {one.id for one, _ in walk(chat.pages[0].root)}
    new = [one for one, _ in walk(chat.page.root) if one.id not in known]
    assert name in [one.attributes.get("label") for one in new]
    said = sentences("page_builder", language)
    assert said["words.contact"] in reply
    assert said["words.send"] in [one.content for one in new]


def test_a_word_that_is_no_languages_own_is_answered_as_before() -> None:
    chat = PageChat(page_of("garden"))
    chat.say("dodaj formularz kontaktowy")
    assert sentences("page_builder", "polish")["say.examples"] in chat.say("#")


def test_who_writes_in_another_language_is_answered_in_english() -> None:
    text = "Est-ce que vous pouvez changer la couleur de la licorne pour les enfants ?"
    assert detected(text) == "french"
    assert "You can say, for example" in PageChat(page_of("garden")).say(text)


ASKED = {
    "polish": ("cześć!", "co potrafisz?", "co jest na stronie?"),
    "spanish": ("¡hola!", "¿qué puedes hacer?", "¿qué hay en la página?"),
    "portuguese": ("olá!", "o que podes fazer?", "o que há na página?"),
    "czech": ("ahoj!", "co umíš?", "co je na stránce?"),
    "romanian": ("bună ziua!", "ce poți face?", "ce este pe pagină?"),
    "indonesian": ("halo!", "apa yang bisa kamu lakukan?", "apa yang ada di halaman ini?"),
    "vietnamese": ("xin chào!", "bạn có thể làm gì?", "trên trang có gì?"),
    "thai": ("สวัสดีครับ", "ทำอะไรได้บ้าง", "บนหน้าเว็บมีอะไรบ้าง"),
    "chinese": ("你好！", "你能做什么？", "页面上有什么？"),
}


@pytest.mark.parametrize("language", OTHERS)
def test_a_greeting_and_questions_are_answered_in_every_language(language: str) -> None:
    """X18: hello, what can you do, and what is there."""
    said = sentences("page_builder", language)
    chat = PageChat(page_of("garden"))
    replies = [chat.say(text) for text in ASKED[language]]
    wanted = [said["say.hello"], said["say.able"], said["ask.outline"]]
    assert [one for one, reply in zip(wanted, replies, strict=True) if one not in reply] == []
    assert chat.page == chat.pages[0]

"""Small words that look like a wish for something else: nothing is made that nobody asked for (X11)."""

import pytest

from tests.offline_chat import bakery


@pytest.mark.parametrize(
    ("text", "made"),
    [
        ("its fine but the ending is weak", []),
        ("mention that rolls are 20 percent off till friday", ["voices"]),
        ("can you read it to me", []),
        ("put the price first", []),
        ("use an older man for the mechanic", []),
        ("rolls are free on saturdays with a cone", []),
        ("quita los efectos", ["sfx"]),
        ("que la música empiece más tarde", []),
    ],
)
def test_only_what_was_asked_is_made(text, made):
    chat = bakery()
    reply = chat.say(text)
    assert chat.made == made
    assert "copy anyone's voice" not in reply
    assert len(chat.effects) == (0 if made == ["sfx"] else 2)


def test_a_fact_behind_a_colon_is_the_line():
    chat = bakery()
    chat.say("put our address at the end: 12 Mill Road")
    assert chat.texts[-1].endswith("12 Mill Road.")
    assert "at the end" not in chat.texts[-1]


def test_two_steps_back_are_two():
    chat = bakery()
    chat.say("make the music jazz")
    chat.say("add a horn at the end")
    chat.say("go back two steps")
    assert len(chat.effects) == 2
    assert chat.versions["music"][-1] == chat.versions["music"][0]


@pytest.mark.parametrize(
    "text",
    [
        "usuń ostatnie zdanie",
        "elimina la última frase",
        "apaga a última frase",
        "smaž poslední větu",
        "șterge ultima frază",
        "hapus kalimat terakhir",
        "xóa câu cuối cùng",
        "ลบประโยคสุดท้าย",
        "删掉最后一句",
    ],
)
def test_the_last_sentence_goes_and_not_its_track(text):
    chat = bakery()
    chat.say(text)
    assert len(chat.tracks) == 3
    assert chat.texts[-1] == "Call 555-123-4567 or visit juniperbread.com."

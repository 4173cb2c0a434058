"""Thai, Indonesian, Vietnamese and Chinese requests as people type them: done, and nothing else (X11)."""

import pytest
from langchain_core.messages import AIMessage

from tests.offline_chat import Chat, bakery


def ran(*texts: str) -> Chat:
    """A chat in which these were said, one after another."""
    chat = bakery()
    for text in texts:
        chat.say(text)
    return chat


@pytest.mark.parametrize(
    "text",
    [
        "อูคูเลเล่ไม่เอาในเพลง",
        "ukulele jangan dipake di musiknya",
        "bỏ tiếng ukulele trong nhạc đi",
        "音乐里的ukulele去掉",
    ],
)
def test_an_instrument_that_is_named_before_it_is_refused_goes(text):
    chat = ran(text)
    assert chat.made == ["music"]
    assert "soft ukulele" not in chat.music


@pytest.mark.parametrize(
    "text",
    [
        "พูดช้าลงนิดนึง ฟังไม่ทัน",
        "ngomongnya kecepetan, pelanin dikit",
        "đọc nhanh quá, chậm lại chút",
        "doc nhanh qua, cham lai chut",
        "念得太赶了，慢点儿",
    ],
)
def test_speaking_too_fast_is_spoken_slower_word_for_word(text):
    chat = bakery()
    before = chat.texts
    chat.say(text)
    assert chat.made == ["voices"]
    assert chat.texts == before
    assert all(one["speed"] < 1 for one in chat.tracks)


@pytest.mark.parametrize(
    "text",
    [
        "อย่าแตะเพลงนะ แค่อยากให้คนที่ 2 พูดเร็วขึ้น",
        "musik jangan diubah, cuma suara 2 tolong dipercepat",
        "đừng đụng vào nhạc, chỉ cần giọng 2 đọc nhanh hơn",
        "音乐别动，就让2号念快一点",
    ],
)
def test_one_voice_gets_faster_beside_music_that_is_to_stay(text):
    chat = ran(text)
    assert chat.made == ["voices"]
    assert [one["speed"] > 1 for one in chat.tracks] == [False, True, False]


@pytest.mark.parametrize(
    "text",
    [
        "ย้ายเสียงเอฟเฟกต์ตอนต้นไปไว้ตอนท้าย",
        "efek yang di awal pindahin ke belakang ya",
        "cái hiệu ứng đầu tiên chuyển xuống cuối giùm anh",
        "把开头那个音效挪到后面去",
        "move the effect at the start to the end",
    ],
)
def test_an_effect_moves_from_the_place_that_names_it_to_the_other(text):
    chat = ran(text)
    assert chat.made == ["sfx"]
    assert [one["placement"]["type"] for one in chat.effects] == ["end", "afterVoice"]


@pytest.mark.parametrize(
    "text",
    [
        "เอาซาวด์เอฟเฟกต์ออกให้หมดเลยครับ",
        "semua efek suara dihapus aja",
        "xoá hết hiệu ứng âm thanh đi",
        "音效全都不要了",
    ],
)
def test_all_effects_go(text):
    chat = ran(text)
    assert chat.made == ["sfx"]
    assert chat.effects == []


@pytest.mark.parametrize(
    "text",
    [
        "ตอนนี้สปอตยาวกี่วินาทีแล้วคะ",
        "มีเสียงเอฟเฟกต์กี่เสียงอ่ะ",
        "hiện giờ quảng cáo dài mấy giây vậy?",
        "siapa yang menang pertandingan semalam?",
        "tối nay ăn gì ngon ta?",
        "明天上海会下雨吗",
    ],
)
def test_a_question_changes_nothing(text):
    assert ran(text).made == []


@pytest.mark.parametrize("text", ["siapa yang menang pertandingan semalam?", "who won the cup?"])
def test_a_question_about_something_else_is_not_answered_with_the_ad(text):
    assert "\n1. " not in bakery().say(text)


@pytest.mark.parametrize(
    "text",
    [
        "ย้อนกลับอันเมื่อกี้เลย ไม่เอาละ",
        "gajadi, balikin kayak tadi",
        "thôi bỏ, trả lại như lúc nãy",
        "算了，改回刚才那样",
    ],
)
def test_what_was_just_done_is_taken_back_and_nothing_more(text):
    chat = bakery()
    first = chat.music
    chat.say("make the music sadder")
    chat.say(text)
    assert chat.made == ["music"]
    assert chat.music == first


@pytest.mark.parametrize(
    "text",
    [
        "eh ulangi lagi yg barusan dibatalin",
        "à làm lại cái vừa hoàn tác đi",
        "还是恢复刚刚撤掉的那个",
    ],
)
def test_what_was_just_taken_back_is_done_again(text):
    chat = ran("make the music sadder")
    sad = chat.music
    chat.say("undo that")
    chat.say(text)
    assert chat.made == ["music"]
    assert chat.music == sad


@pytest.mark.parametrize(
    "text", ["pengisi suara yg kedua kurang cocok, coba orang lain", "第二个配音听着不太合适 换一个"]
)
def test_another_voice_speaks_for_the_one_that_does_not_suit(text):
    chat = bakery()
    before = chat.cast
    chat.say(text)
    assert chat.made == ["voices"]
    assert [old != new for old, new in zip(before, chat.cast, strict=True)] == [False, True, False]


def test_a_topic_before_the_request_belongs_to_it():
    assert ran("文案再给我出三个版本看看").made == ["voices"] * 3


@pytest.mark.parametrize("text", ["บทยาวไป ช่วยตัดให้สั้นลงหน่อย", "naskahnya kepanjangan, potong dikit"])
def test_a_script_that_is_too_long_gets_shorter(text):
    chat = bakery()
    before = chat.texts
    chat.say(text)
    assert chat.made == ["voices"]
    assert len(" ".join(chat.texts)) < len(" ".join(before))


@pytest.mark.parametrize(
    "text", ["音乐还是用第一版吧", "ขอกลับไปใช้เพลงเวอร์ชั่น 1 ดีกว่า", "thôi quay về nhạc bản 1 đi"]
)
def test_a_version_of_the_music_comes_back_by_its_number(text):
    chat = bakery()
    first = chat.music
    chat.say("make the music sadder")
    chat.say(text)
    assert chat.made == ["music"]
    assert chat.music == first


@pytest.mark.parametrize(
    "text",
    [
        "đặt giùm anh vé máy bay đi Hà Nội",
        "I want a table for two tonight",
        "pesenin gojek ke kantor dong",
    ],
)
def test_what_is_wanted_and_names_no_sound_is_no_effect(text):
    chat = bakery()
    reply = chat.say(text)
    assert chat.made == []
    assert "“" in reply


@pytest.mark.parametrize(
    "text", ["เพลงตอนนี้เป็นแนวไหนอยู่", "现在的音乐是什么风格", "musik yang sekarang kayak apa sih"]
)
def test_a_question_word_in_its_place_asks(text):
    chat = bakery()
    reply = chat.say(text)
    assert chat.made == []
    assert chat.music in reply


def test_the_lively_kind_is_no_variations():
    chat = ran("เพลงมันเนือยไป ขอแบบคึกคักหน่อย")
    assert chat.made == ["music"]
    assert "energetic" in chat.music


@pytest.mark.parametrize(
    "text", ["เปลี่ยนใจแล้ว เอาเพลงอันเดิมกลับมา", "thôi lấy lại nhạc lúc đầu đi", "还是要回原来的音乐吧"]
)
def test_the_music_there_was_is_fetched_back(text):
    chat = bakery()
    first = chat.music
    chat.say("make the music sadder")
    chat.say(text)
    assert chat.made == ["music"]
    assert chat.music == first


@pytest.mark.parametrize("text", ["เสียงเอฟเฟกต์อันแรกเอาออก", "efek pertama dibuang", "第一个音效拿掉吧"])
def test_the_first_effect_goes(text):
    chat = ran(text)
    assert chat.made == ["sfx"]
    assert [one["description"] for one in chat.effects] == ["oven sizzle"]


@pytest.mark.parametrize("text", ["kịch bản cắt bớt cho ngắn lại", "naskahnya tolong dipendekin"])
def test_a_script_cut_down_is_shorter(text):
    chat = bakery()
    before = chat.texts
    chat.say(text)
    assert chat.made == ["voices"]
    assert len(" ".join(chat.texts)) < len(" ".join(before))


def test_a_sewing_machine_is_no_car():
    chat = ran("sisipin suara mesin jahit di awal")
    assert "sewing machine" in [one["description"] for one in chat.effects]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("เพิ่มประโยค ออกรถใหม่วันนี้ รับส่วนลดทันที", "ออกรถใหม่วันนี้ รับส่วนลดทันที"),
        ("เพิ่มประโยค เลือกได้ตามใจ เปลี่ยนได้ทุกวัน", "เลือกได้ตามใจ เปลี่ยนได้ทุกวัน"),
    ],
)
def test_a_sentence_to_be_added_keeps_its_spaces_and_its_verbs(text, words):
    chat = bakery()
    before = chat.texts
    chat.say(text)
    assert words in " ".join(chat.texts)
    assert len(chat.texts) == len(before)


@pytest.mark.parametrize(
    ("idea", "yes"),
    [
        ("ข้อเสนอ: บอกเบอร์โทร เว็บไซต์ หรือที่อยู่ แล้วโฆษณาจะจบด้วยข้อมูลนั้น", "ได้เลย"),
        (
            "One idea: give me a phone number, a website or an address, and I'll end the ad with it.",
            "yes please",
        ),
    ],
)
def test_a_yes_to_an_idea_that_asks_for_something_adds_no_words(idea, yes):
    chat = bakery()
    chat.messages[-1] = AIMessage(idea)
    chat.say(yes)
    assert chat.made == []

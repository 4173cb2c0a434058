"""The core requests in every written language, and replies in the language of the person."""

import re

import pytest

from providers.offline.ad_creation.kinds import WRITTEN
from providers.offline.ad_creation.replies import _sentences, phrase
from providers.offline.ad_creation.speech import language_of
from state.languages import LANGUAGES
from tests.offline_chat import bakery
from tests.test_offline_refinement import gender

# Measuring coverage doubles their time and would find nothing: other tests of the same code are measured.

ASKED = {
    "polish": [
        "Zrób muzykę weselszą",
        "Dodaj dzwonek na końcu",
        "usuń efekt skwierczenia",
        "użyj kobiecego głosu dla głosu 1",
        "zwolnij drugi głos",
        "skróć tekst",
        "cofnij",
        "wspomnij, że parking jest darmowy",
        "zostaw głosy w spokoju, ale przyspiesz muzykę",
    ],
    "spanish": [
        "Haz la música más alegre",
        "Añade una campana al final",
        "quita el efecto de sonido 2",
        "usa una voz de mujer para la voz 1",
        "haz la segunda voz más lenta",
        "acorta el guion",
        "deshaz eso",
        "menciona que el aparcamiento es gratis",
        "no toques las voces, pero acelera la música",
    ],
    "portuguese": [
        "Deixe a música mais alegre",
        "Adicione um sino no final",
        "remova o efeito 2",
        "use uma voz feminina para a voz 1",
        "deixe a segunda voz mais lenta",
        "encurte o roteiro",
        "desfaça isso",
        "mencione que o estacionamento é grátis",
        "não mexa nas vozes, mas acelere a música",
    ],
    "indonesian": [
        "Buat musiknya lebih ceria",
        "Tambahkan suara lonceng di akhir",
        "hapus efek 2",
        "pakai suara perempuan untuk suara 1",
        "perlambat suara kedua",
        "persingkat naskahnya",
        "batalkan",
        "sebutkan bahwa parkir gratis",
        "biarkan suaranya, tapi percepat musiknya",
    ],
    "vietnamese": [
        "Làm nhạc vui hơn",
        "Thêm tiếng chuông ở cuối",
        "xóa hiệu ứng 2",
        "dùng giọng nữ cho giọng 1",
        "làm giọng thứ hai chậm hơn",
        "rút ngắn kịch bản",
        "hoàn tác",
        "nhắc đến chỗ đậu xe miễn phí",
        "giữ nguyên giọng đọc nhưng làm nhạc nhanh hơn",
    ],
    "czech": [
        "Udělej hudbu veselejší",
        "Přidej zvon na konec",
        "odstraň efekt 2",
        "použij ženský hlas pro hlas 1",
        "zpomal druhý hlas",
        "zkrať text",
        "vrať to zpět",
        "zmiň, že parkování je zdarma",
        "hlasy nech být, ale zrychli hudbu",
    ],
    "romanian": [
        "Fă muzica mai veselă",
        "Adaugă un clopot la final",
        "elimină efectul 2",
        "folosește o voce de femeie pentru vocea 1",
        "fă a doua voce mai lentă",
        "scurtează textul",
        "anulează",
        "menționează că parcarea este gratuită",
        "lasă vocile în pace, dar fă muzica mai rapidă",
    ],
    "thai": [
        "ทำให้เพลงร่าเริงขึ้น",
        "เพิ่มเสียงระฆังตอนท้าย",
        "ลบเอฟเฟกต์ที่ 2",
        "เปลี่ยนเสียงที่ 1 เป็นผู้หญิง",
        "ให้เสียงที่สองช้าลง",
        "ย่อสคริปต์",
        "ย้อนกลับ",
        "พูดถึงที่จอดรถฟรี",
        "อย่าเปลี่ยนเสียงพูด แต่เร่งเพลง",
    ],
    "chinese": [
        "让音乐更欢快",
        "在结尾加一个钟声",
        "去掉第二个音效",
        "把第一个声音换成女声",
        "让第二个声音慢一点",
        "缩短文案",
        "撤销",
        "提到免费停车",
        "声音不要动，但是音乐快一点",
    ],
    "german": [
        "Mach die Musik fröhlicher",
        "Füge am Ende eine Glocke hinzu",
        "entferne Effekt 2",
        "nimm eine Frauenstimme für Stimme 1",
        "mach die zweite Stimme langsamer",
        "kürze den Text",
        "mach das rückgängig",
        "erwähne, dass das Parken kostenlos ist",
        "lass die Stimmen, wie sie sind, aber mach die Musik schneller",
    ],
    "french": [
        "Rends la musique plus joyeuse",
        "Ajoute une cloche à la fin",
        "retire l'effet 2",
        "prends une voix de femme pour la voix 1",
        "ralentis la deuxième voix",
        "raccourcis le texte",
        "annule ça",
        "mentionne que le parking est gratuit",
        "ne touche pas aux voix, mais accélère la musique",
    ],
    "english": [
        "Make the music happier",
        "Add a bell at the end",
        "remove effect 2",
        "use a woman's voice for voice 1",
        "slow down the second voice",
        "shorten the script",
        "undo",
        "mention that parking is free",
        "leave the voices alone but make the music faster",
    ],
}


@pytest.mark.parametrize("language", WRITTEN)
def test_nine_core_requests_are_understood(language):
    chat = bakery()
    happier, bell, less, woman, slower, shorter, undo, mention, locked = ASKED[language]
    chat.say(happier)
    assert chat.made == ["music"]
    assert re.search("happ|upbeat|cheer", chat.music)
    chat.say(bell)
    assert chat.effects[-1] == chat.effects[-1] | {"description": "bell", "placement": {"type": "end"}}
    chat.say(less)
    assert [one["description"] for one in chat.effects] == ["shop door bell", "bell"]
    chat.say(woman)
    assert [gender(voice) for voice in chat.cast] == ["female", "female", "male"]
    chat.say(slower)
    assert [track["speed"] < 1 for track in chat.tracks] == [False, True, False]
    texts = chat.texts
    chat.say(shorter)
    assert len("".join(chat.texts)) < len("".join(texts))
    chat.say(undo)
    assert chat.texts == texts
    chat.say(mention)
    assert chat.made == ["voices"]
    assert len("".join(chat.texts)) > len("".join(texts))
    chat.say(locked)
    assert chat.made == ["music"]
    assert "fast" in chat.music


@pytest.mark.parametrize("language", WRITTEN)
def test_the_language_of_a_request_is_told_by_its_words(language):
    told = [language_of(text, language) for text in ASKED[language]]
    assert told == [language] * len(told)


@pytest.mark.parametrize("language", WRITTEN)
def test_the_reply_is_in_the_language_of_the_message(language):
    chat = bakery()
    reply = chat.say(ASKED[language][0])
    frame = phrase("frame.kept", language, {"streams": "@"}).split("@")[0]
    assert frame in reply


@pytest.mark.parametrize("language", WRITTEN)
def test_every_sentence_exists_with_the_same_slots(language):
    slots = re.compile(r"\{[^}]+\}")
    english, own = _sentences("english"), _sentences(language)
    assert own.keys() == english.keys()
    for key, sentence in english.items():
        if not key.startswith(("frame.plan", "cannot.no_stream", "answer.", "done.", "cannot.")):
            assert set(slots.findall(own[key])) == set(slots.findall(sentence)), key
        assert set(slots.findall(own[key])) <= set(slots.findall(sentence)), key


@pytest.mark.parametrize("language", WRITTEN)
@pytest.mark.parametrize(
    ("idea", "stream"),
    [
        ("shorten", "voices"), ("slower", "voices"), ("upbeat", "music"), ("calmer", "music"),
        ("whoosh", "sfx"), ("recast", "voices"), ("variations", "voices"),
    ],
)  # fmt: skip
def test_every_suggestion_can_be_read_as_if_the_person_had_said_it(language, idea, stream):
    """A78."""
    chat = bakery()
    if idea == "calmer":
        chat.versions["music"][-1]["musicPrompt"] = "upbeat pop, energetic"
    chat.say(phrase(f"suggest.{idea}", language, {"track": "2"}))
    assert set(chat.made) == {stream}


@pytest.mark.parametrize("language", WRITTEN)
def test_every_language_that_is_written_is_named_to_who_asks_for_another(language):
    reply = phrase("cannot.no_language", language)
    names = [one.native[0] for one in LANGUAGES if one.name in WRITTEN]
    assert language == "english" or all(name in reply for name in names)
    assert "{" not in reply


def test_words_of_another_language_are_quoted_as_they_are_and_the_reply_says_so():
    chat = bakery()
    reply = chat.say("wspomnij o „darmowa dostawa”")
    assert "darmowa dostawa" in " ".join(chat.texts).lower()
    assert "Nie umiem tłumaczyć" in reply


def test_vietnamese_without_diacritics_is_understood():
    chat = bakery()
    chat.say("them tieng chuong o cuoi")
    assert chat.effects[-1] == chat.effects[-1] | {"description": "bell", "placement": {"type": "end"}}

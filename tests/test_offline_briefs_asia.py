"""Thai, Indonesian, Vietnamese and Chinese briefs as people type them: who it is, what is no copy (X11)."""

import pytest

from providers.offline.ad_creation.brief import parse
from state.languages import detected


@pytest.mark.parametrize(
    ("text", "brand"),
    [
        ("15 detik aja. Nada Riang: sekolah musik untuk anak", "Nada Riang"),
        ("15s thôi. Cánh Diều, học thử miễn phí tháng 6", "Cánh Diều"),
        ("就15秒。小蜗牛钢琴学校七月免费试听", "小蜗牛钢琴学校"),
        ("15 วินาทีนะครับ โปรโมทร้านล้างแอร์ เย็นเจี๊ยบ ล้าง 2 เครื่องลด 10%", "ร้านล้างแอร์"),
        ("ช่วยทำโฆษณาเสียงให้คลินิกสัตว์หมาแมวแฮปปี้ ฉีดวัคซีนครบชุด 890 บาท", "คลินิกสัตว์หมาแมวแฮปปี้"),
        ("cuma 15 detik ya. Salon Ayu, creambath 75rb", "Salon Ayu"),
        ("想给白虎武馆做个广告，少儿武术班每月600元", "白虎武馆"),
        ("老张养蜂场卖自家槐花蜜", "老张养蜂场"),
        ("暖阳养老院招募周末志愿者", "暖阳养老院"),
        ("净净侠 上门洗沙发 每周三立减25%", "净净侠"),
    ],
)
def test_a_name_is_without_what_is_ordered_and_what_the_client_does(text, brand):
    assert parse(text).brand == brand


@pytest.mark.parametrize(
    "text",
    [
        "Klinik Senyum, dokter gigi. Durasi setengah menit",
        "Nha khoa Nụ Cười, lấy cao răng. Dài nửa phút",
        "คลินิกยิ้มสวย ทำฟันทุกวัน ความยาวครึ่งนาที",
        "笑嘻嘻口腔诊所，洗牙。半分钟",
        "Smile Clinic, dentists in Leeds. Half a minute please",
    ],
)
def test_half_a_minute_is_a_length_and_not_to_be_said(text):
    said = parse(text)
    assert not any(
        word in claim.casefold()
        for claim in said.claims
        for word in ("menit", "phút", "นาที", "分钟", "minute")
    )


@pytest.mark.parametrize(
    "text",
    [
        "ร้านล้างแอร์ เย็นเจี๊ยบ กลุ่มลูกค้าคือคนอยู่คอนโด",
        "净净侠，上门洗沙发，面向北京的宝妈",
        "Panti Kasih Senja, suasana hangat",
        "晨跑俱乐部，周日早上五点，气氛轻松",
    ],
)
def test_who_it_is_for_and_its_mood_are_no_copy(text):
    claims = " ".join(parse(text).claims)
    assert "คอนโด" not in claims
    assert "宝妈" not in claims
    assert "气氛" not in claims
    assert "suasana" not in claims.casefold()


@pytest.mark.parametrize(
    ("text", "language"),
    [
        ("tolong bikinin iklan buat bengkel Jaya Motor, ganti oli mulai 45rb", "indonesian"),
        ("Klinik gigi Senyum Ceria. Scaling 199 ribu sampai 31 Agustus", "indonesian"),
        ("Dich vu giat rem tai nha SachTinh cho cac gia dinh, giam 20%", "vietnamese"),
    ],
)
def test_everyday_words_tell_the_language_where_no_letters_do(text, language):
    assert detected(text) == language
    assert parse(text).tongue == language


def test_a_thai_street_keeps_its_number():
    assert parse("ร้านซักอบรีด ฟองฟู อยู่ปากซอยลาดพร้าว 71 ซักผ้านวมผืนละ 120 บาท").contact.place.endswith(" 71")

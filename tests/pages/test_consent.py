"""Consent in a text: a plain yes, a plain no, and everything else."""

import pytest

from callsheet.state.approvals import consent

YES = [
    "yes",
    "YES please, delete it 👍",
    "OK, go ahead.",
    "sure, thanks",
    "d’accord",
    "oui, vas-y",
    "Sí, por favor",
    "si",
    "Ja, mach das",
    "tak, proszę",
    "ano prosím",
    "da, te rog",
    "vâng ạ",
    "đồng ý",
    "ได้ครับ",
    "ใช่ค่ะ",
    "好的",
    "嗯",
]
NO = [
    "no",
    "No, thanks.",
    "Don’t!",
    "nope, keep it",
    "never mind",
    "nein danke",
    "Lieber nicht",
    "non merci",
    "não, obrigado",
    "nu",
    "jangan",
    "ไม่ครับ",
    "ไม่ต้องค่ะ",
    "不",
    "不可以",
    "不行",
]
NEITHER = [
    "please",
    "thanks",
    "yes, but keep the picture",
    "no, make it blue instead",
    "yes no",
    "yesterday",
    "okapi",
    "maybe",
    "no problem with the rest",
    "delete the footer",
    "y si lo haces azul",
    "dance",
    "please do",
    "bórralo",
    "pode apagar, obrigada",
    "mejor no",
    "radši ne",
    "别删，谢谢",
    "không có",
    "ได้ไหม",
    "可以吗",
    "好看一点",
    "不太好",
    "是不是",
    "?",
]


@pytest.mark.parametrize("text", YES)
def test_a_plain_yes_is_consent(text: str) -> None:
    assert consent(text) is True


@pytest.mark.parametrize("text", NO)
def test_a_plain_no_is_a_refusal(text: str) -> None:
    assert consent(text) is False


@pytest.mark.parametrize("text", ["", *NEITHER])
def test_any_other_text_is_neither_consent_nor_refusal(text: str) -> None:
    """In doubt it is a message, not permission to delete."""
    assert consent(text) is None


@pytest.mark.parametrize("text", ["yes " * 5_000 + "x", "ok," * 20_000 + "!x", "好" * 20_000 + "x"])
def test_a_very_long_text_is_read_quickly(text: str) -> None:
    """X10: other requests do not wait for it."""
    assert consent(text) is None

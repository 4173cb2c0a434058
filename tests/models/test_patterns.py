"""Regular expressions read text of users, models, pages and files on the event loop, in linear time (X7)."""

import ast
import asyncio
import importlib
import os
import pkgutil
import re
import signal
import time
from collections.abc import AsyncIterator, Iterator, Mapping
from dataclasses import fields, is_dataclass
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any

import httpx
import pytest

from callsheet.providers.offline.ads.first_draft import BRIEFS, DATA
from callsheet.providers.offline.grammar import MAX_CHARS, Form
from tests.doubles.killing import WarmParent, is_answering
from tests.doubles.waiting import eventually
from tests.lessons.lesson_client import TOOLS, user
from tests.lessons.lesson_material import material as lesson

LAYERS = ("graphs", "nodes", "tools", "state", "providers", "storage", "server")
METHODS = {"search", "match", "fullmatch", "split", "findall", "finditer", "sub"}
LONGEST_CHARS = 20_000
"""Characters of a message or a field of a brief."""
SCREENING_CHARS = 300
GROWTH = 8
"""Fourfold length may take so many times as long; the square of it would take sixteen times."""
NOTICEABLE_S = 0.003
"""Below it, the clock says nothing about growth."""
ATOMS = (
    *("1", "a", "A", "é", "一", " ", "\n", "a\t", ".", ",", "(", "[", "/", "'", '"', "`", "<", "=", "#1 "),
    *(
        "- ",
        "a ",
        "a-",
        "A'",
        "1 ",
        "1.",
        "1,",
        "a@",
        "http://a",
        "ab,",
        "and ",
        "the ",
        "all ",
        "no thanks ",
    ),
)
TAILS = ("", "x!")


def product_modules() -> Iterator[ModuleType]:
    for layer in LAYERS:
        package = importlib.import_module(f"callsheet.{layer}")
        for each in pkgutil.walk_packages(package.__path__, f"callsheet.{layer}."):
            yield importlib.import_module(each.name)


def patterns_in(value: Any) -> Iterator[re.Pattern[Any]]:
    """The patterns in a value of a module."""
    if isinstance(value, re.Pattern):
        yield value
    elif isinstance(value, Form):
        yield value.regex
    elif isinstance(value, Mapping):
        yield from patterns_in(list(value.values()))
    elif isinstance(value, (list, tuple)):
        for each in value:
            yield from patterns_in(each)
    elif isinstance(value, FunctionType):
        yield from patterns_in([cell.cell_contents for cell in value.__closure__ or ()])
    elif is_dataclass(value) and not isinstance(value, type):
        yield from patterns_in([getattr(value, each.name, None) for each in fields(value)])


def patterns_in_source(module: ModuleType) -> Iterator[re.Pattern[Any]]:
    """The patterns that a module writes where it uses them."""
    for node in ast.walk(ast.parse(Path(str(module.__file__)).read_text(encoding="utf-8"))):
        match node:
            case ast.Call(
                func=ast.Attribute(value=ast.Name(id="re"), attr=method), args=[ast.Constant(value=text), *_]
            ) if method in METHODS:
                yield re.compile(text)


def all_patterns() -> dict[re.Pattern[Any], str]:
    """Every pattern of the packages, and the first module that has it."""
    words = [text for text in DATA.values() if isinstance(text, str)]
    module_by_pattern = dict.fromkeys((re.compile(text, re.IGNORECASE) for text in words), "offline.ads.data")
    for module in product_modules():
        module_patterns = [each for value in [*vars(module).values()] for each in patterns_in(value)]
        for each in (*module_patterns, *patterns_in_source(module)):
            module_by_pattern.setdefault(each, module.__name__)
    return module_by_pattern


def atoms(pattern: re.Pattern[Any]) -> list[str]:
    """Repeated beginnings: usual ones, and the pattern's own first and last words and signs."""
    source = pattern.pattern if isinstance(pattern.pattern, str) else pattern.pattern.decode("latin-1")
    source = re.sub(r"\\[a-zA-Z]|[()\[\]?*+|^$]", " ", source)
    own = list(dict.fromkeys(re.findall(r"[^\W\d_]{2,}|[^\w\s\\]", source)))
    chosen = [*own[:6], *own[-3:]]
    return list(dict.fromkeys([*ATOMS, *chosen, *(f"{word} " for word in chosen[:4])]))


def beginnings(pattern: re.Pattern[Any]) -> list[str]:
    """Texts before a repeated beginning: nothing, and the pattern's own words and signs."""
    source = pattern.pattern if isinstance(pattern.pattern, str) else pattern.pattern.decode("latin-1")
    own = re.findall(r"[^\0]+", re.sub(r"\\[a-zA-Z]|\[[^\]]*\]|[()?*+|^$\\{}:<>=!]", "\0", source))
    return list(dict.fromkeys(["", *own[:4], *(f"{word}\n" for word in own[:1])]))


def cost_s(pattern: re.Pattern[Any], form: tuple[str, str, str], size: int, tries: int = 1) -> float:
    """Processor time to search a text of about `size` characters, and to match all of it; the best try."""
    begin, atom, tail = form
    text: Any = begin + (atom * (size // len(atom) + 1))[:size] + tail
    if isinstance(pattern.pattern, bytes):
        text = text.encode()
    spent = []
    for _ in range(tries):
        began = time.process_time()
        for _ in pattern.finditer(text):
            pass
        pattern.fullmatch(text)
        spent.append(time.process_time() - began)
    return min(spent)


def growth_of(pattern: re.Pattern[Any], longest: int) -> tuple[tuple[str, str, str], float] | None:
    """A form of text for which the time grows faster than the text, and how fast; None if there is none."""
    candidates = [
        (begin, atom, tail) for begin in beginnings(pattern) for atom in atoms(pattern) for tail in TAILS
    ]
    slowest = sorted(candidates, key=lambda each: -cost_s(pattern, each, SCREENING_CHARS))
    for form in slowest[:2]:
        for size in (SCREENING_CHARS, longest // 4):
            short_s, long_s = (cost_s(pattern, form, each, 3) for each in (size, 4 * size))
            if long_s > NOTICEABLE_S and long_s > GROWTH * short_s:
                return form, round(long_s / short_s, 1)
    return None


@pytest.mark.timeout(180)
@pytest.mark.slow
def test_the_time_of_a_pattern_grows_no_faster_than_its_text() -> None:
    """Text of users, models, pages and files. Most forms of the offline model read `MAX_CHARS` at most."""
    by_pattern = all_patterns()
    forms = {each.regex for module in product_modules() for each in forms_in([*vars(module).values()])}
    forms -= {each.regex for each in BRIEFS}
    assert len(by_pattern) > 100, "the patterns are found"
    assert forms
    slow = []
    for pattern, module in by_pattern.items():
        if growth := growth_of(pattern, MAX_CHARS if pattern in forms else LONGEST_CHARS):
            slow.append((module, pattern.pattern[:80], *growth))
    assert not slow, "make it linear: bounded or possessive repetition, or a lookbehind before the first one"


def forms_in(value: Any) -> Iterator[Form]:
    """The forms of requests in a value of a module."""
    if isinstance(value, Form):
        yield value
    elif isinstance(value, (list, tuple)):
        for each in value:
            yield from forms_in(each)


HOSTILE: dict[str, tuple[str, dict[str, Any]]] = {
    "a brief with a number of 19,880 digits": (
        "/api/ai/generate",
        {"adId": "digits", "brief": f"20 seconds {'1' * 19_880}x"},
    ),
    "a lesson of 19,900 digits": (TOOLS, {"messages": user("1" * 19_900), "provider": "offline"}),
    "a page chat with 19,890 blanks": (
        "/api/pages/blanks/chat",
        {"message": f"change{' ' * 19_890}x", "provider": "offline"},
    ),
    "a choice of a thousand numbers": (TOOLS, {"messages": user("1," * 990 + "x"), "provider": "offline"}),
}


@pytest.fixture
async def http(warm_parent: WarmParent, valkey_url: str) -> AsyncIterator[httpx.AsyncClient]:
    """A server in a process of its own."""
    pid, url = warm_parent.start(valkey_url, 10.0)
    async with httpx.AsyncClient(base_url=url, timeout=20) as client:
        try:
            await eventually(
                lambda: asyncio.to_thread(is_answering, url), "the server answers", patience_s=30
            )
            yield client
        finally:
            os.kill(pid, signal.SIGKILL)


async def longest_ok_s(http: httpx.AsyncClient, until: "asyncio.Task[Any]") -> float:
    """The longest time that `/ok` took until a task ended."""
    longest_s = 0.0
    while not until.done():
        began = time.monotonic()
        assert (await http.get("/ok")).status_code == 200
        longest_s = max(longest_s, time.monotonic() - began)
        await asyncio.sleep(0.02)
    return longest_s


@pytest.mark.slow
async def test_a_hostile_request_does_not_delay_other_requests(http: httpx.AsyncClient) -> None:
    material = {"messages": user(lesson("photosynthesis").text), "provider": "offline"}
    session = (await http.post(TOOLS, json=material)).headers["X-Session-Id"]
    for name, (path, body) in HOSTILE.items():
        headers = {"X-Session-Id": session} if "choice" in name else {}
        request = asyncio.create_task(http.post(path, json=body, headers=headers))
        assert await longest_ok_s(http, request) < 5, name
        assert request.result().status_code < 500, (name, request.result().text[:500])

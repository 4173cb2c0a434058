"""What a tool must be, and how tools are listed and found."""

import importlib
import sys

import pytest
from pydantic import BaseModel

from callsheet.state.errors import Broken, Invalid
from callsheet.tools import REGISTRY
from callsheet.tools.policy import ALL_TOOLS, ToolOptions, ToolPolicy, parse_policy
from callsheet.tools.registry import Tool, definition, definitions, index, tool


class Args(BaseModel):
    adId: str = "kopi"  # noqa: N815 -- the wire's spelling


async def look(args, call):
    """Look at it."""
    return {}


def reckon(args, scope):
    """Reckon with it."""
    return {}


def made(run=look, schema=Args, **more):
    return tool(schema=schema, display="Probing", **more)(run)


def named(name):
    return Tool(name, "Look at it.", Args, look, "Probing")


def test_a_tool_has_its_functions_name_and_docstring_and_harmless_defaults():
    """C1."""
    item = made()
    assert (item.name, item.description, item.effect) == ("look", "Look at it.", "read")
    assert (item.is_destructive, item.idempotent, item.is_pure_lookup, item.permissions) == (
        False,
        False,
        True,
        frozenset(),
    )


def test_two_tools_of_one_name_are_refused():
    """C4."""
    registry = index(probes=[made()])
    with pytest.raises(Broken, match="two tools are named 'look'"):
        registry.add(made(), "probes")
    with pytest.raises(Broken, match="two tools are named 'look'"):
        index(probes=[made()], more=[made()])


def test_a_domain_is_imported_when_it_is_asked_for_and_no_other(tmp_path, monkeypatch):
    """C5: and a module that fails to import is tried again, with nothing of it there meanwhile."""
    source = "from tests.guard.test_registry import named\nTOOLS = [named({name!r})]\n"
    for name in ("lazy_one", "lazy_two"):
        (tmp_path / f"{name}.py").write_text(source.format(name=name))
        monkeypatch.delitem(sys.modules, name, raising=False)
    monkeypatch.syspath_prepend(tmp_path)
    registry = index(one=["lazy_one", named("look")], two=["lazy_two"], three=["lazy_three"])
    assert list(registry.of("one")) == ["look", "lazy_one"]
    assert "lazy_one" in sys.modules
    assert "lazy_two" not in sys.modules
    for _ in range(2):
        with pytest.raises(ModuleNotFoundError, match="lazy_three"):
            registry.get("look")
    (tmp_path / "lazy_three.py").write_text(source.format(name="look"))
    importlib.invalidate_caches()
    with pytest.raises(Broken, match="two tools are named 'look'"):
        len(registry)
    monkeypatch.delitem(sys.modules, "lazy_three")
    (tmp_path / "lazy_three.py").write_text(source.format(name="lazy_three") + "# another size\n")
    assert sorted(registry) == ["lazy_one", "lazy_three", "lazy_two", "look"]
    assert registry.domain("lazy_two") == "two"


async def _nameless(args, call):
    return {}


async def _wordy(args, call):
    return {}


_wordy.__doc__ = "word " * 300


@pytest.mark.parametrize(
    ("run", "more", "rule"),
    [
        (_nameless, {}, "docstring"),
        (_wordy, {}, "1024"),
        (look, {"schema": dict}, "input schema"),
        (look, {"subject": "pageId"}, "no argument 'pageId'"),
        (look, {"writes": ("page",), "outside": True}, "one effect"),
        (look, {"writes": ("page",), "options": ToolOptions(cache_s=5)}, "cache_s"),
        (look, {"reads": ("page",), "options": ToolOptions(cache_s=5)}, "cache_s"),
        (look, {"outside": True, "options": ToolOptions(cache_s=5)}, "cache_s"),
        (look, {"isolated": True}, "event loop"),
        (reckon, {"writes": ("page",)}, "not a coroutine"),
    ],
)
def test_a_bad_definition_is_refused_with_the_rule_it_breaks(run, more, rule):
    """C4, C-R5."""
    with pytest.raises(Broken, match=rule):
        made(run, **more)


@pytest.mark.parametrize("name", ["", "two words", "a" * 65, "1st", "naïve"])
def test_a_name_that_vendors_refuse_is_refused(name):
    """C4, X12."""
    with pytest.raises(Broken, match="must have a name"):
        index(probes=[named(name)])


def test_a_tool_added_to_a_running_registry_is_there_for_whoever_allows_its_domain():
    """C3, C4: without a restart, and for nobody else."""
    registry = index(ad=[named("one")], page=[named("two")])
    pages, both = registry.of("page"), registry.of("ad", "page")
    registry.add(named("three"), "page")
    assert list(pages) == ["two", "three"]
    assert list(both) == ["one", "two", "three"]
    assert (len(pages), len(both), len(registry)) == (2, 3, 3)
    assert "one" not in pages
    assert pages.get("one") is None
    assert [one["function"]["name"] for one in definitions(pages)] == ["two", "three"]


def test_a_definition_is_made_once_it_is_asked_for_and_then_kept():
    """C5."""
    item = made()
    assert definition(item) is definition(item)


def test_what_is_said_of_a_tool_goes_before_what_is_said_of_all():
    """C-R4: thirty seconds, ten or six hundred calls a minute, five failures, three tries, 300 s of cache."""
    plain = ToolPolicy().effective("look", ToolOptions(), calls=600)
    assert (plain.timeout_s, plain.calls, plain.window_s) == (30, 600, 60)
    assert (plain.failures, plain.rest_s, plain.tries, plain.backoff_s) == (5, 30, 3, 0.5)
    assert (plain.cache_s, plain.cpu_s) == (300, 30)
    asked = parse_policy(
        {"look": {"timeout_s": 5}, ALL_TOOLS: {"timeout_s": 7, "tries": 1, "cache_s": 0}}, {}
    )
    assert asked.effective("look", ToolOptions(timeout_s=6, tries=2), calls=10).timeout_s == 5
    assert asked.effective("other", ToolOptions(timeout_s=6, tries=2), calls=10).timeout_s == 6
    assert asked.effective("other", ToolOptions(), calls=10).timeout_s == 7
    assert asked.effective("other", ToolOptions(tries=2), calls=10).tries == 2
    assert asked.effective("other", ToolOptions(), calls=10).cache_s == 0
    assert asked.effective("other", ToolOptions(), calls=10).calls == 10


@pytest.mark.parametrize(
    ("written", "told"),
    [
        ({"look": {"timeout_s": 0}}, "'timeout_s' of 'look' is 0"),
        ({"look": {"patience": 3}}, "'patience' of 'look'"),
        ({"look": 5}, "the terms of 'look' are 5"),
    ],
)
def test_an_operators_mistake_is_named(written, told):
    with pytest.raises(Invalid, match=told):
        parse_policy(written, {})


def test_the_five_tools_are_described_as_models_expect_them():
    """A1, A2, A3, A4, A5, A6, A13, A15, A16, A19, A21, A-R2."""
    described = {name: definition(one)["function"] for name, one in REGISTRY.of("ad").items()}
    assert list(described) == [
        "search_voices",
        "create_voice_draft",
        "create_music_draft",
        "create_sfx_draft",
        "get_current_state",
    ]
    required = {name: one["parameters"]["required"] for name, one in described.items()}
    assert required == {
        "search_voices": ["language"],
        "create_voice_draft": ["tracks"],
        "create_music_draft": ["prompt"],
        "create_sfx_draft": ["prompts"],
        "get_current_state": [],
    }
    search = described["search_voices"]["parameters"]["properties"]
    assert list(search) == ["language", "gender", "accent", "style", "count"]
    assert search["gender"]["enum"] == ["male", "female"]
    music = described["create_music_draft"]["parameters"]["properties"]
    assert music["provider"]["enum"] == ["loudly", "mubert"]
    track = described["create_voice_draft"]["parameters"]["properties"]["tracks"]["items"]
    assert track["required"] == ["voiceId", "text"]
    assert set(track["properties"]) == {"voiceId", "text", "playAfter", "overlap", "speed"}
    effect = described["create_sfx_draft"]["parameters"]["properties"]["prompts"]["items"]
    assert effect["required"] == ["description"]
    assert effect["properties"]["placement"]["required"] == ["type"]
    assert "Use this instead of asking the user" in described["search_voices"]["description"]
    assert "$ref" not in str(described)
    assert "anyOf" not in str(described)

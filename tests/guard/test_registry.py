"""Definitions of tools: their rules, the registry that lists them, their options."""

import importlib
import sys

import pytest
from pydantic import BaseModel

from callsheet.state.errors import Broken, Invalid
from callsheet.tools import REGISTRY
from callsheet.tools.policy import ALL_TOOLS, ToolOptions, ToolPolicy, parse_policy
from callsheet.tools.registry import Tool, definition, definitions, index, tool


class LookArgs(BaseModel):
    adId: str = "kopi"  # noqa: N815 -- the wire's spelling


async def look(args, call):
    """Look at it."""
    return {}


def reckon(args, scope):
    """Add to it."""
    return {}


def define_tool(run=look, schema=LookArgs, **more):
    return tool(schema=schema, display="Probing", **more)(run)


def tool_named(name):
    return Tool(name, "Look at it.", LookArgs, look, "Probing")


def test_a_tool_has_the_name_and_docstring_of_its_function_and_harmless_defaults():
    """C1."""
    item = define_tool()
    assert (item.name, item.description, item.effect) == ("look", "Look at it.", "read")
    assert (item.is_destructive, item.idempotent, item.is_pure_lookup, item.permissions) == (
        False,
        False,
        True,
        frozenset(),
    )


def test_two_tools_with_the_same_name_are_refused():
    """C4."""
    registry = index(probes=[define_tool()])
    with pytest.raises(Broken, match="two tools are named 'look'"):
        registry.add(define_tool(), "probes")
    with pytest.raises(Broken, match="two tools are named 'look'"):
        index(probes=[define_tool()], more=[define_tool()])


def test_only_the_modules_of_a_requested_domain_are_imported(tmp_path, monkeypatch):
    """C5: a module that failed is imported again at the next look-up, and adds no tool before."""
    source = "from tests.guard.test_registry import tool_named\nTOOLS = [tool_named({name!r})]\n"
    for name in ("lazy_one", "lazy_two"):
        (tmp_path / f"{name}.py").write_text(source.format(name=name))
        monkeypatch.delitem(sys.modules, name, raising=False)
    monkeypatch.syspath_prepend(tmp_path)
    registry = index(one=["lazy_one", tool_named("look")], two=["lazy_two"], three=["lazy_three"])
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
        (look, {"live": True, "options": ToolOptions(cache_s=5)}, "cache_s"),
        (look, {"isolated": True}, "event loop"),
        (reckon, {"writes": ("page",)}, "not a coroutine"),
    ],
)
def test_a_bad_definition_is_refused_with_the_rule_it_breaks(run, more, rule):
    """C4, C-R5."""
    with pytest.raises(Broken, match=rule):
        define_tool(run, **more)


@pytest.mark.parametrize("name", ["", "two words", "a" * 65, "1st", "naïve"])
def test_a_name_that_vendors_refuse_is_refused(name):
    """C4, X12."""
    with pytest.raises(Broken, match="must have a name"):
        index(probes=[tool_named(name)])


def test_a_tool_added_at_run_time_is_in_every_view_of_its_domain():
    """C3, C4: without a restart, and in no other view."""
    registry = index(ad=[tool_named("one")], page=[tool_named("two")])
    pages, both = registry.of("page"), registry.of("ad", "page")
    registry.add(tool_named("three"), "page")
    assert list(pages) == ["two", "three"]
    assert list(both) == ["one", "two", "three"]
    assert (len(pages), len(both), len(registry)) == (2, 3, 3)
    assert "one" not in pages
    assert pages.get("one") is None
    assert [one["function"]["name"] for one in definitions(pages)] == ["two", "three"]


def test_a_definition_is_built_once_and_kept():
    """C5."""
    item = define_tool()
    assert definition(item) is definition(item)


def test_options_for_one_tool_override_options_for_all_tools():
    """C-R4: thirty seconds, ten or six hundred calls a minute, five failures, three tries, 300 s of cache."""
    defaults = ToolPolicy().effective("look", ToolOptions(), calls=600)
    assert (defaults.timeout_s, defaults.calls, defaults.window_s) == (30, 600, 60)
    assert (defaults.failures, defaults.rest_s, defaults.tries, defaults.backoff_s) == (5, 30, 3, 0.5)
    assert (defaults.cache_s, defaults.cpu_s) == (300, 30)
    policy = parse_policy(
        {"look": {"timeout_s": 5}, ALL_TOOLS: {"timeout_s": 7, "tries": 1, "cache_s": 0}}, {}
    )
    assert policy.effective("look", ToolOptions(timeout_s=6, tries=2), calls=10).timeout_s == 5
    assert policy.effective("other", ToolOptions(timeout_s=6, tries=2), calls=10).timeout_s == 6
    assert policy.effective("other", ToolOptions(), calls=10).timeout_s == 7
    assert policy.effective("other", ToolOptions(tries=2), calls=10).tries == 2
    assert policy.effective("other", ToolOptions(), calls=10).cache_s == 0
    assert policy.effective("other", ToolOptions(), calls=10).calls == 10


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"look": {"timeout_s": 0}}, "'timeout_s' of 'look' is 0"),
        ({"look": {"patience": 3}}, "'patience' of 'look'"),
        ({"look": 5}, "the terms of 'look' are 5"),
    ],
)
def test_an_invalid_policy_is_refused_by_its_field(options, message):
    with pytest.raises(Invalid, match=message):
        parse_policy(options, {})


def test_the_ad_tools_have_the_definitions_that_models_expect():
    """A1, A2, A3, A4, A5, A6, A13, A15, A16, A19, A21, A-R2."""
    functions = {name: definition(one)["function"] for name, one in REGISTRY.of("ad").items()}
    assert list(functions) == [
        "search_voices",
        "create_voice_draft",
        "create_music_draft",
        "create_sfx_draft",
        "get_current_state",
        "undo_change",
    ]
    required = {name: one["parameters"]["required"] for name, one in functions.items()}
    assert required == {
        "search_voices": ["language"],
        "create_voice_draft": ["tracks"],
        "create_music_draft": ["prompt"],
        "create_sfx_draft": ["prompts"],
        "get_current_state": [],
        "undo_change": [],
    }
    search = functions["search_voices"]["parameters"]["properties"]
    assert list(search) == ["language", "gender", "accent", "style", "count"]
    assert search["gender"]["enum"] == ["male", "female"]
    music = functions["create_music_draft"]["parameters"]["properties"]
    assert music["provider"]["enum"] == ["loudly", "mubert"]
    track = functions["create_voice_draft"]["parameters"]["properties"]["tracks"]["items"]
    assert track["required"] == ["voiceId", "text"]
    assert set(track["properties"]) == {"voiceId", "text", "playAfter", "overlap", "speed"}
    effect = functions["create_sfx_draft"]["parameters"]["properties"]["prompts"]["items"]
    assert effect["required"] == ["description"]
    assert effect["properties"]["placement"]["required"] == ["type"]
    assert "Use this instead of asking the user" in functions["search_voices"]["description"]
    assert "$ref" not in str(functions)
    assert "anyOf" not in str(functions)

from collections.abc import Collection

import pytest
from langchain_core.language_models import BaseChatModel

from callsheet.providers import OFFLINE, PROVIDERS, load, with_key
from callsheet.providers.routing import BY_LANGUAGE, Route, RoutingRequest, route
from callsheet.state.errors import Invalid

ALL_PROVIDERS = frozenset({"openai", "qwen", "kimi", OFFLINE})
ONLY_OFFLINE = frozenset({OFFLINE})
QWEN_LANGUAGES = ("thai", "indonesian", "vietnamese", "spanish", "portuguese", "polish", "czech", "romanian")


def provider_of(request: RoutingRequest, available: Collection[str] = ALL_PROVIDERS) -> str:
    return route(request, available).provider


@pytest.mark.parametrize(
    "language", [*QWEN_LANGUAGES, "Thai", "POLISH", "th", "pt-BR", "Español", "ไทย", "Tiếng Việt"]
)
def test_languages_of_qwen_are_routed_to_qwen(language):
    """A47, A-R1, A12."""
    assert provider_of(RoutingRequest(language=language)) == "qwen"


@pytest.mark.parametrize("language", ["chinese", "Mandarin", "cantonese", "zh", "zh-HK", "中文", "粤语"])
def test_chinese_under_any_name_is_routed_to_kimi(language):
    """A47, A-R1."""
    assert provider_of(RoutingRequest(language=language)) == "kimi"


@pytest.mark.parametrize("language", ["english", "german", "japanese", "klingon", ""])
def test_other_languages_are_routed_to_openai(language):
    """A-R1: the default of two of the three texts."""
    assert provider_of(RoutingRequest(language=language)) == "openai"


@pytest.mark.parametrize("provider", ["openai", "qwen", "kimi", "offline", "QWEN", " Kimi "])
def test_a_named_provider_overrides_language_and_budget(provider):
    """A-R1: an explicit provider wins."""
    request = RoutingRequest(language="thai", provider=provider, budget="premium")
    assert provider_of(request) == provider.strip().lower()


@pytest.mark.parametrize("extra", [{"budget": "premium"}, {"complexity": "complex"}])
def test_the_language_overrides_premium_and_complex(extra):
    """A-R1: the order of the third text."""
    assert provider_of(RoutingRequest(language="thai", **extra)) == "qwen"
    assert provider_of(RoutingRequest(language="chinese", **extra)) == "kimi"


@pytest.mark.parametrize(
    "extra",
    [
        {"budget": "premium"},
        {"budget": "PREMIUM"},
        {"complexity": "complex"},
        {"complexity": " Complex "},
        {"budget": "low", "complexity": "complex"},
        {"budget": "premium", "complexity": "simple"},
    ],
)
def test_premium_or_complex_work_is_routed_to_openai(extra):
    """A-R1."""
    assert provider_of(RoutingRequest(language="english", **extra)) == "openai"


@pytest.mark.parametrize("extra", [{"budget": "low"}, {"complexity": "simple"}, {"budget": "cost-effective"}])
def test_low_budget_or_simple_work_is_routed_to_qwen(extra):
    """A-R1."""
    assert provider_of(RoutingRequest(language="english", **extra)) == "qwen"
    assert provider_of(RoutingRequest(language="english")) == "openai"


@pytest.mark.parametrize(
    ("named", "available", "expected"),
    [
        ("qwen", {"openai", "kimi"}, "openai"),
        ("qwen", {"kimi"}, "kimi"),
        ("kimi", {"qwen", "kimi"}, "kimi"),
        ("kimi", {"qwen"}, "qwen"),
        ("openai", {"qwen", "kimi"}, "qwen"),
        ("openai", set(), "offline"),
        ("kimi", set(), "offline"),
    ],
)
def test_the_next_provider_with_a_key_replaces_one_without(named, available, expected):
    """A-R1: in the order OpenAI, Qwen, Kimi, else offline; also for a provider the caller named."""
    assert provider_of(RoutingRequest(provider=named), {*available, OFFLINE}) == expected


def test_the_reason_for_a_replacement_names_the_missing_key():
    assert route(RoutingRequest(language="thai"), {"openai", OFFLINE}).reason == (
        "thai is written by Qwen, but Qwen is not available (it needs DASHSCOPE_API_KEY), so OpenAI answers"
    )


@pytest.mark.parametrize(
    ("named", "available", "reason"),
    [
        (
            "openai",
            {OFFLINE},
            "OpenAI is not available (it needs OPENAI_API_KEY), so the offline model answers",
        ),
        (
            "kimi/kimi-k2.6",
            {OFFLINE},
            "Kimi is not available (it needs MOONSHOT_API_KEY), so the offline model",
        ),
        ("qwen", {"kimi", OFFLINE}, "Qwen is not available (it needs DASHSCOPE_API_KEY), so Kimi answers"),
    ],
)
def test_the_reason_for_replacing_a_named_provider_says_that_the_caller_named_it(named, available, reason):
    """A-R1: a named provider without a key is replaced, and the reason says so."""
    answer = route(RoutingRequest(provider=named), available)
    assert answer.reason.startswith("the caller asked for ")
    assert reason in answer.reason


def test_without_any_key_the_offline_model_answers_and_the_reason_names_a_variable():
    """X11, A-R1."""
    answer = route(RoutingRequest(language="english"), ONLY_OFFLINE)
    assert answer.provider == "offline"
    assert answer.reason == "no key is set (such as OPENAI_API_KEY), so the offline model answers"


def test_a_failed_provider_is_replaced_and_its_error_is_in_the_reason():
    answer = route(
        RoutingRequest(language="thai"), {"qwen", "kimi", OFFLINE}, failed={"qwen": "Qwen failed (500)"}
    )
    assert answer == Route("kimi", "thai is written by Qwen, but Qwen failed (500), so Kimi answers")


def test_the_preferred_vendor_is_used_when_all_have_failed():
    failed = {"openai": "OpenAI failed (500)", "qwen": "Qwen failed (500)"}
    assert route(RoutingRequest(), {"openai", "qwen", OFFLINE}, failed=failed).provider == "openai"
    assert (
        route(RoutingRequest(language="chinese"), {"openai", "qwen", OFFLINE}, failed=failed).provider
        == "openai"
    )


def test_a_failed_provider_is_still_used_when_the_caller_names_it():
    request = RoutingRequest(provider="qwen/qwen-plus")
    answer = route(request, {"qwen", "kimi", OFFLINE}, failed={"qwen": "Qwen failed (500)"})
    assert answer.spec == "qwen/qwen-plus"


def test_every_rule_has_its_own_reason():
    """A-R1: always return the provider and the reason."""
    rules = [
        RoutingRequest(),
        RoutingRequest(language="thai"),
        RoutingRequest(language="chinese"),
        RoutingRequest(provider="kimi"),
        RoutingRequest(provider="offline"),
        RoutingRequest(budget="premium"),
        RoutingRequest(complexity="complex"),
        RoutingRequest(budget="low"),
    ]
    assert len({route(rule, ALL_PROVIDERS).reason for rule in rules}) == len(rules)


def test_an_unknown_provider_is_refused_with_a_list_of_known_ones():
    with pytest.raises(Invalid) as refused:
        route(RoutingRequest(provider="gemini"), ALL_PROVIDERS)
    assert "'gemini'" in refused.value.message
    assert all(name in refused.value.remedy for name in PROVIDERS)


def test_a_named_model_is_kept_unless_its_provider_is_replaced():
    request = RoutingRequest(provider="OpenAI/gpt-6.1-terra")
    assert route(request, ALL_PROVIDERS).spec == "openai/gpt-6.1-terra"
    assert route(request, {"qwen", OFFLINE}).spec == "qwen"
    assert Route("openai", "because").spec == "openai"


def test_a_provider_is_available_when_its_key_is_set_and_offline_always():
    assert with_key({}) == {"offline"}
    assert with_key({"OPENAI_API_KEY": "  "}) == {"offline"}
    assert with_key({"OPENAI_API_KEY": "sk-x", "MOONSHOT_API_KEY": "sk-x"}) == {"offline", "openai", "kimi"}


def test_the_language_rules_name_providers_of_the_table():
    assert set(BY_LANGUAGE.values()) <= set(PROVIDERS)


@pytest.mark.parametrize("spec", ["gemini", "", "gemini/pro", "open ai"])
def test_loading_an_unknown_provider_is_refused_with_a_list_of_known_ones(spec):
    with pytest.raises(Invalid, match="no provider") as refused:
        load(spec, environ={})
    assert "openai" in refused.value.remedy
    assert "offline" in refused.value.remedy


def test_the_offline_model_loads_without_any_key():
    """X11."""
    model = load("offline", environ={})
    assert isinstance(model, BaseChatModel)
    assert type(model).__name__ == "OfflineModel"


def test_the_offline_provider_has_one_model():
    with pytest.raises(Invalid, match="has no model 'large'"):
        load("offline/large", environ={})

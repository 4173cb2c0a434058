"""The server's settings: environment, `.env`, defaults, and the errors for wrong values."""

import os
import re
import shlex
from pathlib import Path

import pytest

from callsheet.providers import load
from callsheet.providers.vendor_settings import VendorSettings
from callsheet.server.settings.settings import Settings, read_settings, unknown_variables, variable_name
from callsheet.server.settings.sources import HIDDEN, read_configuration
from callsheet.server.settings.variables import keep_loopback_from_proxies, normalise_variables
from callsheet.state.errors import Invalid
from tests.doubles.chat_double import ChatDouble, Say

ROOT = Path(__file__).parents[2]
_VARIABLE = re.compile(
    r"\b((?:CALLSHEET|AZURE|GOOGLE|OPENAI|SPEECH|DASHSCOPE|MOONSHOT|COMPATIBLE(?!_VERSION)|OLLAMA|REDIS|XDG|OTEL)_[A-Z][A-Z_]*[A-Z])\b"
)
_OF_EACH_VENDOR = {"API_KEY", "BASE_URL", "MODEL"}
"""Settings listed for each vendor; the others are listed for OpenAI only, and are the same for all."""


@pytest.fixture(autouse=True)
def no_settings(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No setting in the environment, no `.env` in the working directory."""
    for name in Settings.model_fields:
        monkeypatch.delenv(variable_name(name), raising=False)
    monkeypatch.chdir(tmp_path)


def test_the_server_listens_on_loopback_port_2024_by_default() -> None:
    settings = read_settings()
    assert (settings.host, settings.port, settings.lease_s) == ("127.0.0.1", 2024, 10.0)
    assert settings.redis_url is None
    assert settings.data_dir is None


def test_an_argument_beats_the_environment_and_the_environment_beats_the_file(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / ".env").write_text("CALLSHEET_PORT=3001\nCALLSHEET_LEASE_S=3\nCALLSHEET_HOST=localhost\n")
    monkeypatch.setenv("CALLSHEET_PORT", "3002")
    monkeypatch.setenv("CALLSHEET_LEASE_S", "4")
    # Let monkeypatch restore the variable that read_settings() sets.
    monkeypatch.setenv("CALLSHEET_HOST", "127.0.0.1")
    monkeypatch.delenv("CALLSHEET_HOST")
    settings = read_settings(port=3003, lease_s=None)
    assert (settings.port, settings.lease_s, settings.host) == (3003, 4.0, "localhost")


def test_vendor_keys_in_the_file_are_put_into_the_environment(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    import os

    monkeypatch.setenv("OPENAI_API_KEY", "")
    monkeypatch.delenv("OPENAI_API_KEY")
    (tmp_path / ".env").write_text("OPENAI_API_KEY=sk-from-file\n")
    read_settings()
    assert os.environ["OPENAI_API_KEY"] == "sk-from-file"


def test_lists_are_separated_by_commas(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CALLSHEET_ALLOW_ORIGINS", "https://a.example, https://b.example:8443,")
    monkeypatch.setenv("CALLSHEET_ALLOW_HOSTS", "a.internal")
    monkeypatch.setenv("CALLSHEET_FETCH_HOSTS", "data.example, figures.example")
    settings = read_settings()
    assert settings.fetch_hosts == ("data.example", "figures.example")
    assert settings.allow_origins == ("https://a.example", "https://b.example:8443")
    assert settings.allow_hosts == ("a.internal",)


def test_an_empty_variable_counts_as_not_set(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CALLSHEET_PORT", "")
    monkeypatch.setenv("REDIS_URL", "")
    assert (read_settings().port, read_settings().redis_url) == (2024, None)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("CALLSHEET_PORT", "http"),
        ("CALLSHEET_PORT", "70000"),
        ("CALLSHEET_LEASE_S", "0"),
        ("CALLSHEET_LEASE_S", "16"),
        ("CALLSHEET_MAX_BODY_BYTES", "-1"),
        ("CALLSHEET_LOG_LEVEL", "loud"),
        ("CALLSHEET_TOOLS", "[]"),
        ("CALLSHEET_KEPT_VERSIONS", "many"),
        ("CALLSHEET_KEPT_VERSIONS", "-1"),
        ("CALLSHEET_KEPT_VERSIONS", '{"ana": true}'),
    ],
)
def test_an_invalid_value_is_refused_by_the_name_of_its_variable(
    monkeypatch: pytest.MonkeyPatch, name: str, value: str
) -> None:
    monkeypatch.setenv(name, value)
    with pytest.raises(Invalid) as caught:
        read_settings()
    assert caught.value.message.startswith(f"{name} is {value!r}: ")
    assert name in caught.value.remedy


@pytest.mark.parametrize(
    ("name", "value", "rule"),
    [
        (
            "CALLSHEET_ALLOW_ORIGINS",
            "studio.example",
            "a scheme, name and port, such as https://studio.example",
        ),
        ("CALLSHEET_ALLOW_ORIGINS", "https://studio.example/page", "a scheme, name and port"),
        ("CALLSHEET_ALLOW_HOSTS", "http://callsheet.internal", "a name, with or without port"),
        ("CALLSHEET_ALLOW_HOSTS", "one.internal two.internal", "a name, with or without port"),
        ("CALLSHEET_FETCH_HOSTS", "https://data.example", "a name alone, such as data.example"),
        ("CALLSHEET_FETCH_HOSTS", "*.data.example", "a name alone, such as data.example"),
    ],
)
def test_a_list_entry_that_could_never_match_is_refused(
    monkeypatch: pytest.MonkeyPatch, name: str, value: str, rule: str
) -> None:
    monkeypatch.setenv(name, f"localhost://ok, {value}" if "ORIGINS" in name else f"ok.example, {value}")
    with pytest.raises(Invalid, match=re.escape(f"{value!r} is not {rule}")) as caught:
        read_settings()
    assert "Value error" not in caught.value.message
    assert name in caught.value.remedy


def test_settings_are_frozen_and_their_repr_hides_the_password() -> None:
    settings = Settings(redis_url="redis://:secret@localhost")
    with pytest.raises(ValueError, match="frozen"):
        settings.port = 1  # type: ignore[misc]  # the point of the test
    assert "secret" not in repr(settings)


def test_env_example_lists_exactly_the_variables_that_are_read() -> None:
    text = (ROOT / ".env.example").read_text()
    documented = {
        line.lstrip("#").split("=")[0] for line in text.splitlines() if re.match(r"#?[A-Z_]+=", line)
    }
    read_by_settings = {variable_name(name) for name in Settings.model_fields}
    assert read_by_settings <= documented
    assert documented == read_by_settings | _variables_in_code()


def test_an_unknown_variable_is_reported_with_the_most_similar_setting() -> None:
    settings = {name: "x" for name in _variables_in_code() if name.startswith("CALLSHEET_")}
    others = {"REDIS_UR": "x", "PATH": "x", "CALLSHEET_Port": "1", "CALLSHEET_SERVICE_HOST": "10.0.0.1"}
    others |= {"CALLSHEET_REDIS_PORT_6379_TCP": "x", "CALLSHEET_REDIS_SERVICE_PORT": "x"}
    assert unknown_variables(settings | others) == []
    assert unknown_variables({"CALLSHEET_PROT": "3000", "CALLSHEET_Q": ""}) == [
        "CALLSHEET_PROT is no setting and is ignored; is it CALLSHEET_PORT?",
        "CALLSHEET_Q is no setting and is ignored",
    ]
    vendors = {"OPENAI_TIMEOUTS": "5", "OPENAI_ORG_ID": "x", "OPENAI_LOG": "x", "OPENAI_API_KEY": "x"}
    assert unknown_variables(vendors) == [
        "OPENAI_TIMEOUTS is no setting and is ignored; is it OPENAI_TIMEOUT_S?"
    ]


def test_env_example_shows_the_defaults() -> None:
    text = (ROOT / ".env.example").read_text()
    documented = dict(
        line.lstrip("#").split("=", 1) for line in text.splitlines() if re.match(r"#?[A-Z_]+=", line)
    )
    for name, field in Settings.model_fields.items():
        default = field.default
        expected = (
            "" if default in (None, ()) else f"{default:g}" if isinstance(default, float) else str(default)
        )
        assert documented[variable_name(name)] == expected, name
    assert shlex.split(text, comments=True) == []


def _variables_in_code() -> set[str]:
    """Return every variable that a module names, and those of each vendor by its prefix."""
    names: set[str] = set()
    for folder in ("graphs", "nodes", "tools", "state", "server", "providers", "storage"):
        for path in (ROOT / folder).rglob("*.py"):
            text = path.read_text()
            names |= set(_VARIABLE.findall(text))
            for prefix in re.findall(r'prefix: ClassVar\[str\] = "([A-Z]+)"', text):
                parts = {field.upper() for field in VendorSettings.model_fields}
                names |= {f"{prefix}_{part}" for part in (parts if prefix == "OPENAI" else _OF_EACH_VENDOR)}
    return names


def test_secrets_are_read_from_files(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    file = tmp_path / "secret"
    file.write_text("redis://:hidden@redis.example:6379/0\n")
    monkeypatch.setenv("REDIS_URL_FILE", str(file))
    monkeypatch.setenv("OPENAI_API_KEY_FILE", str(file))
    for name in ("REDIS_URL", "OPENAI_API_KEY"):
        monkeypatch.setenv(name, "")
    for _ in range(2):
        assert read_settings().redis_url == "redis://:hidden@redis.example:6379/0"
    assert os.environ["OPENAI_API_KEY"] == "redis://:hidden@redis.example:6379/0"
    names = ("REDIS_URL_FILE", "OPENAI_API_KEY_FILE", "CALLSHEET_JWT_SECRET_FILE")
    assert unknown_variables(dict.fromkeys(names, "x")) == []


@pytest.mark.parametrize(
    ("content", "also_set", "rule"),
    [(None, "", "cannot be read"), ("  \n", "", "is empty"), ("one", "other", "are both set")],
)
def test_a_file_of_a_secret_that_is_no_use_is_refused(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, content: str | None, also_set: str, rule: str
) -> None:
    file = tmp_path / "secret"
    if content is not None:
        file.write_text(content)
    monkeypatch.setenv("CALLSHEET_JWT_SECRET_FILE", str(file))
    monkeypatch.setenv("CALLSHEET_JWT_SECRET", also_set)
    with pytest.raises(Invalid, match=rule) as caught:
        read_settings()
    assert "CALLSHEET_JWT_SECRET" in caught.value.message
    assert "other" not in caught.value.message


@pytest.mark.parametrize(
    ("name", "value", "field", "expected"),
    [
        ("CALLSHEET_LOG_LEVEL", " Debug ", "log_level", "debug"),
        ("CALLSHEET_LOG_FORMAT", "JSON", "log_format", "json"),
        ("CALLSHEET_AUTH", " Keys , JWT ", "auth", ("keys", "jwt")),
        ("CALLSHEET_HOST", " 127.0.0.2 ", "host", "127.0.0.2"),
        ("CALLSHEET_CARRY_RUNS", " FALSE ", "carry_runs", False),
        ("callsheet_port", "3000", "port", 3000),
        ("redis_url", " redis://127.0.0.1:1 ", "redis_url", "redis://127.0.0.1:1"),
        ("CALLSHEET_DATA_DIR", "~/data", "data_dir", Path.home() / "data"),
        ("CALLSHEET_CONFIG", "~/langgraph.json", "config", Path.home() / "langgraph.json"),
    ],
)
def test_case_and_spaces_of_names_and_words_do_not_count_and_a_tilde_is_the_home_folder(
    monkeypatch: pytest.MonkeyPatch, name: str, value: str, field: str, expected: object
) -> None:
    # Let monkeypatch restore the variable in capitals.
    monkeypatch.setenv(name.upper(), "x")
    monkeypatch.delenv(name.upper())
    monkeypatch.setenv(name, value)
    assert getattr(read_settings(), field) == expected


def test_a_variable_of_a_vendor_may_be_in_small_letters_and_one_in_capitals_wins() -> None:
    environ = {"openai_api_key": " sk-small ", "OPENAI_MODEL": "a", "openai_model": "b", "Path": " x "}
    normalise_variables(environ)
    assert (environ["OPENAI_API_KEY"], environ["OPENAI_MODEL"]) == ("sk-small", "a")
    assert environ["Path"] == " x "


def test_a_path_of_an_unknown_user_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CALLSHEET_DATA_DIR", "~nobody-of-this-name/data")
    with pytest.raises(Invalid, match=r"CALLSHEET_DATA_DIR is .* names a user who is unknown"):
        read_settings()


def test_env_example_begins_with_the_twenty_settings_that_matter_most() -> None:
    _, first, *_ = (ROOT / ".env.example").read_text().split("\n\n")
    names = [line.lstrip("#").split("=")[0] for line in first.splitlines() if re.match(r"#?[A-Z_]+=", line)]
    assert len(names) == 20
    assert {"REDIS_URL", "CALLSHEET_AUTH", "OPENAI_API_KEY", "CALLSHEET_BUDGETS"} <= {*names}


def test_the_configuration_shows_values_and_sources_and_hides_secrets(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / ".env").write_text(
        "CALLSHEET_PORT=3001\nCALLSHEET_JWT_SECRET=0123456789abcdef0123456789abcdef\n"
    )
    (tmp_path / "redis").write_text("redis://:hunter22@redis.example:6379/0")
    for name in ("CALLSHEET_PORT", "CALLSHEET_JWT_SECRET", "REDIS_URL"):
        # Let monkeypatch restore the variables that read_settings() sets.
        monkeypatch.setenv(name, "")
        monkeypatch.delenv(name)
    monkeypatch.setenv("REDIS_URL_FILE", str(tmp_path / "redis"))
    monkeypatch.setenv("CALLSHEET_LEASE_S", "4")
    monkeypatch.setenv("OPENAI_API_KEY", "sk-hunter22")
    monkeypatch.setenv("OPENAI_TIMEOUT_S", "30")
    monkeypatch.setenv("OPENAI_TIMEOUTS", "30")
    monkeypatch.setenv("CALLSHEET_PROT", "3000")
    shown = read_configuration(os.environ)
    lines = {line.name: (line.value, line.source) for line in shown.settings}
    assert lines["CALLSHEET_PORT"] == ("3001", ".env")
    assert lines["CALLSHEET_LEASE_S"] == ("4", "environment")
    assert lines["CALLSHEET_HOST"] == ("127.0.0.1", "default")
    assert lines["REDIS_URL"] == ("redis://***@redis.example:6379/0", str(tmp_path / "redis"))
    assert lines["CALLSHEET_JWT_SECRET"] == (HIDDEN, ".env")
    assert lines["OPENAI_API_KEY"] == (HIDDEN, "environment")
    assert lines["OPENAI_TIMEOUT_S"] == ("30", "environment")
    assert "hunter22" not in str(shown)
    assert {sentence.split()[0] for sentence in shown.unknown} == {"CALLSHEET_PROT", "OPENAI_TIMEOUTS"}
    assert {variable_name(field) for field in Settings.model_fields} <= {*lines}


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        ("OTEL_EXPORTER_OTLP_HEADERS", "authorization=Basic hunter22", HIDDEN),
        ("OTEL_EXPORTER_OTLP_TRACES_HEADERS", "x-team=hunter22", HIDDEN),
        (
            "CALLSHEET_CAMPAIGNS_URL",
            "postgresql://db.example/c?sslmode=require&password=hunter22#x",
            f"postgresql://db.example/c?sslmode=require&password={HIDDEN}#x",
        ),
        (
            "OPENAI_BASE_URL",
            "https://m.example/v1?Api-Key=hunter22",
            f"https://m.example/v1?Api-Key={HIDDEN}",
        ),
        ("OPENAI_BASE_URL", "https://me:hunter22/x@m.example/v1", "https://***@m.example/v1"),
        ("AZURE_SPEECH_REGION", "westeurope", "westeurope"),
        ("GOOGLE_TTS_URL", "https://speech.example", "https://speech.example"),
        ("AZURE_SPEECH_KEY", "hunter22", HIDDEN),
    ],
)
def test_the_configuration_has_every_variable_that_is_read_and_hides_secrets_in_headers_and_urls(
    monkeypatch: pytest.MonkeyPatch, name: str, value: str, expected: str
) -> None:
    monkeypatch.setenv(name, value)
    [line] = [one for one in read_configuration(os.environ).settings if one.name == name]
    assert (line.value, line.source) == (expected, "environment")


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"HTTP_PROXY": "http://p:1"}, "localhost,127.0.0.1,::1"),
        (
            {"all_proxy": "http://p:1", "NO_PROXY": "a.example, localhost"},
            "a.example,localhost,127.0.0.1,::1",
        ),
        ({"HTTPS_PROXY": "http://p:1", "no_proxy": "*"}, "*"),
        ({"HTTPS_PROXY": "", "OTHER": "x"}, None),
    ],
)
def test_a_proxy_is_not_used_for_what_listens_on_this_machine(
    given: dict[str, str], expected: str | None
) -> None:
    environ = dict(given)
    for _ in range(2):
        keep_loopback_from_proxies(environ)
        assert environ.get("NO_PROXY") == expected
        assert environ.get("no_proxy") == expected


async def test_a_model_on_this_machine_answers_although_the_proxy_fails(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name in ("HTTP_PROXY", "http_proxy", "NO_PROXY", "no_proxy"):
        # Let monkeypatch restore them.
        monkeypatch.setenv(name, "")
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:1")
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")
    with ChatDouble(Say("Hello.")) as model:
        for name, value in model.environ.items():
            monkeypatch.setenv(name, value)
        read_settings()
        assert (await load("openai").ainvoke("Hello")).text == "Hello."


def test_a_socks_proxy_is_named_with_a_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-x")
    monkeypatch.setenv("ALL_PROXY", "socks5://127.0.0.1:1")
    with pytest.raises(Invalid, match="proxy of this machine") as raised:
        load("openai/gpt-proxied")
    assert "HTTPS_PROXY" in raised.value.remedy

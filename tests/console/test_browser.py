"""Every view of the page in a browser: nothing is loaded from elsewhere, and everybody can use it."""

from typing import Any

import pytest

from tests.console.browser import VIEWS, visit_all

# The packages may have to be installed first.
pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]
WINDOWS = [f"{name}{colours}" for name in VIEWS for colours in ("", " dark")]


@pytest.fixture(scope="module")
def reports(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    return visit_all(tmp_path_factory.mktemp("browser") / "js")


@pytest.mark.parametrize("window", [*WINDOWS, "sign in"])
def test_a_view_keeps_to_the_policy_and_loads_nothing_from_elsewhere(
    reports: dict[str, Any], window: str
) -> None:
    report = reports[window]
    assert (report["violations"], report["errors"], report["foreign"]) == ([], [], [])


@pytest.mark.parametrize("window", [*WINDOWS, "sign in"])
def test_axe_finds_nothing_serious(reports: dict[str, Any], window: str) -> None:
    assert reports[window]["faults"] == []


@pytest.mark.parametrize("window", WINDOWS)
def test_a_view_fits_into_its_window(reports: dict[str, Any], window: str) -> None:
    assert not reports[window]["overflows"]
    assert "Callsheet" in reports[window]["title"]


def test_the_first_view_shows_the_question_that_waits(reports: dict[str, Any]) -> None:
    assert "wait for your approval" in reports["home"]["text"].replace("waits", "wait")


def test_signing_in_leaves_a_cookie_that_no_script_reads(reports: dict[str, Any]) -> None:
    report = reports["sign in"]
    [cookie] = report["cookies"]
    assert (cookie["name"], cookie["httpOnly"], cookie["sameSite"]) == ("callsheet_session", True, "Strict")
    assert report["readable"] == ""
    assert (report["signedOut"], report["after"]) == (204, 401)

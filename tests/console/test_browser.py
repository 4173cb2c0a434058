"""The page in a browser: journeys, every view with axe and by keyboard, hostile texts, and limits of time."""

from typing import Any

import pytest

from tests.console import browser

# The packages may have to be installed first.
pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    tests: dict[str, Any] = browser.run_browser_tests(tmp_path_factory.mktemp("browser"))["tests"]
    return tests


@pytest.mark.parametrize("name", browser.test_names())
def test_in_the_browser(report: dict[str, Any], name: str) -> None:
    assert not report[name]["error"], report[name]["error"]

"""A headless Chromium for tests: it opens a file and keeps what went wrong."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import pytest

NAMES = ("chromium", "chromium-browser", "google-chrome")
EMPTY = "about:blank"
QUIET = ["--no-sandbox", "--disable-gpu", "--disable-background-networking"]


@dataclass
class Visit:
    """An open page, with the messages, errors and requests it has caused so far."""

    page: Any
    messages: list[str] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)
    requests: list[str] = field(default_factory=list)


@pytest.fixture(scope="session")
def browser(request: pytest.FixtureRequest) -> Any:
    """Debian's Chromium, or playwright's own; the test is skipped where there is neither."""
    return _launched(request.config)


@cache  # the modules that import the fixture have one each
def _launched(config: pytest.Config) -> Any:
    api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    playwright = api.sync_playwright().start()
    config.add_cleanup(playwright.stop)
    found = [path for path in map(shutil.which, NAMES) if path]
    executable = (found or [playwright.chromium.executable_path])[0]
    if not Path(executable).is_file():
        pytest.skip("no chromium found; `apt-get install chromium` brings one")
    browser = playwright.chromium.launch(executable_path=executable, args=QUIET)
    config.add_cleanup(browser.close)
    return browser.new_context()


@contextmanager
def visit(
    browser: Any, path: Path, width: int = 1280, height: int = 900, scheme: str = "light", query: str = ""
) -> Iterator[Visit]:
    """Open the file `path`; requests other than for the file itself and `data:` are listed, and no script may ask.

    Tabs are used again, as a new one takes longer than most pages.
    """
    page = next((tab for tab in browser.pages if tab.url == EMPTY), None) or browser.new_page()
    page.bring_to_front()  # a tab behind another draws a frame a second, and a click waits for two
    page.set_viewport_size({"width": width, "height": height})
    page.emulate_media(color_scheme=scheme, reduced_motion="reduce")  # no smooth scrolling
    seen, asked, own = Visit(page), list[str](), (path.resolve().as_uri(), "data:")

    def refuse(dialog: Any) -> None:
        asked.append(dialog.message)
        dialog.dismiss()

    heard = {
        "console": lambda message: seen.messages.append(message.text),
        "pageerror": lambda error: seen.errors.append(str(error)),
        "request": lambda request: seen.requests.append(request.url),
        "dialog": refuse,
    }
    for event, listener in heard.items():
        page.on(event, listener)
    page.goto(own[0] + query)
    seen.requests[:] = [url for url in seen.requests if not url.startswith(own)]
    try:
        yield seen
        assert not asked, "a script ran"
    finally:
        for event, listener in heard.items():
            page.remove_listener(event, listener)
        page.goto(EMPTY)

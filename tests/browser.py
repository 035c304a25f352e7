"""A headless Chromium for tests: it opens a file and keeps what went wrong."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

NAMES = ("chromium", "chromium-browser", "google-chrome")
QUIET = ["--no-sandbox", "--disable-gpu", "--disable-background-networking"]


@dataclass
class Visit:
    """An open page, with the messages, errors and requests it has caused so far."""

    page: Any
    messages: list[str] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)
    requests: list[str] = field(default_factory=list)


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """Debian's Chromium, or playwright's own; the test is skipped where there is neither."""
    api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    with api.sync_playwright() as playwright:
        found = [path for path in map(shutil.which, NAMES) if path]
        executable = (found or [playwright.chromium.executable_path])[0]
        if not Path(executable).is_file():
            pytest.skip("no chromium found; `apt-get install chromium` brings one")
        browser = playwright.chromium.launch(executable_path=executable, args=QUIET)
        yield browser
        browser.close()


@contextmanager
def visit(browser: Any, path: Path, width: int = 1280, height: int = 900, scheme: str = "light") -> Iterator[Visit]:
    """Open the file `path`; requests other than for the file itself and `data:` are listed."""
    context = browser.new_context(viewport={"width": width, "height": height}, color_scheme=scheme)
    seen = Visit(context.new_page())
    seen.page.on("console", lambda message: seen.messages.append(message.text))
    seen.page.on("pageerror", lambda error: seen.errors.append(str(error)))
    seen.page.on("request", lambda request: seen.requests.append(request.url))
    seen.page.goto(path.resolve().as_uri())
    own = (path.resolve().as_uri(), "data:")
    seen.requests[:] = [url for url in seen.requests if not url.startswith(own)]
    try:
        yield seen
    finally:
        context.close()

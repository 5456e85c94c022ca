"""Compare the CPU time of a landing page with that of a bare Flask template.

Run: ``python -m benchmarks.landing_page`` (in the folder of the package). There are two bare
pages: the template of the landing page with ready-made values, and the same text in a template
without any logic, in which each word is a variable.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path
from time import process_time
from typing import Any
from unittest.mock import patch

from flask import Flask, render_template
from jinja2 import DictLoader
from support.archives import archive_of, close, import_records, make_app
from support.page_sites import SECOND, add_counts, records

ROUNDS, CALLS = 30, 20


def measure(work: Callable[[], object]) -> float:
    """Return the CPU time of one call in milliseconds: the minimum of many rounds."""
    best = float("inf")
    for _ in range(ROUNDS):
        start = process_time()
        for _ in range(CALLS):
            work()
        best = min(best, (process_time() - start) / CALLS * 1000)
    return best


def main() -> None:
    """Print both times and their ratio."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        app = make_app(f"sqlite:///{folder / 'ibi.sqlite'}", folder)
        archive_of(app).init()
        import_records(archive_of(app), records(folder))
        add_counts(app)
        given: list[tuple[Any, Any]] = []
        app.add_url_rule("/bare", "bare", lambda: render_template(*given[0][0], **given[0][1]))
        client, path = app.test_client(), f"/col/{SECOND}/"
        with patch(
            "flask_ibi_archive.server.pages.responses.render_template",
            side_effect=lambda *names, **values: given.append((names, values)) or "",
        ):
            client.get(path)
        html = client.get(path).text
        bare = Flask("bare")
        # every word of the page is a variable, as in a template
        words = html.split(" ")
        template = "{% for word in words %}{{ word | safe }} {% endfor %}"
        bare.jinja_loader = DictLoader({"page.html": template})
        bare.add_url_rule("/", "page", lambda: render_template("page.html", words=words))
        other = bare.test_client()
        landing = measure(lambda: client.get(path))
        for name, plain in (
            ("the template with ready-made values", measure(lambda: client.get("/bare"))),
            ("a template without logic", measure(lambda: other.get("/"))),
        ):
            print(f"landing page {landing:.2f} ms, {name} {plain:.2f} ms: {landing / plain:.1f}")
        close(app)


if __name__ == "__main__":
    main()

"""An Archive returns the answers of [R] Examples 4.2, 7.2, 7.3, 7.8 to 7.12, 8.1 and 8.2."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from flask import Flask
from support.archives import archive_of, import_file
from support.vectors import FOLDER
from support.web import without_key

FOLDERS = sorted((FOLDER / "archive").iterdir())


@pytest.mark.rule(
    "R4-10",
    "R4-15",
    "R72-04",
    "R72-14",
    "R72-22",
    "R72-23",
    "R72-24",
    "R72-30",
    "R72-31",
    "R72-33",
    "R8-01",
    "R8-02",
)
@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)
def test_the_answer_is_equal_to_the_example(new_app: Callable[..., Flask], folder: Path) -> None:
    case = json.loads((folder / "case.json").read_text())
    app = new_app(**case["config"])
    archive_of(app).init()
    import_file(archive_of(app), folder / "items.jsonl")
    for request in case["requests"]:
        url = f"/{case['config']['IBI_ARCHIVE_SERVICE_IBI']}?{request['query']}"
        answer = app.test_client().get(url)
        assert answer.status_code == 200, url
        assert answer.headers["Content-Type"] == "text/plain"
        assert answer.headers["Cache-Control"] == "no-store"
        expected = (folder / request["answer"]).read_bytes()
        assert without_key(answer.data) == without_key(expected), url

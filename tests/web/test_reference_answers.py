"""[R] Examples 4.2, 7.2, 7.3, 7.8 to 7.12, 8.1 and 8.2: the same bytes from a real database."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from flask import Flask
from support.archives import archive_of, import_file
from support.vectors import FOLDER

CASES = [
    pytest.param(folder, number, request, id=f"{folder.name}-{number + 1}")
    for folder in sorted((FOLDER / "archive").iterdir())
    for number, request in enumerate(json.loads((folder / "case.json").read_text())["requests"])
]


def without_key(answer: bytes) -> bytes:
    """Return an answer with its URL key, which is another one each time, left out."""
    return re.sub(rb"urlkey [0-9]{10,}-[0-9]{10,}", b"urlkey", answer)


@pytest.mark.parametrize(("folder", "number", "request_"), CASES)
def test_the_answer_is_that_of_the_document(
    new_app: Callable[..., Flask], folder: Path, number: int, request_: dict[str, Any]
) -> None:
    config = json.loads((folder / "case.json").read_text())["config"]
    app = new_app(**config)
    archive_of(app).init()
    import_file(archive_of(app), folder / "items.jsonl")
    answer = app.test_client().get(f"/{config['IBI_ARCHIVE_SERVICE_IBI']}?{request_['query']}")
    assert answer.status_code == 200
    assert answer.headers["Content-Type"] == "text/plain"
    assert answer.headers["Cache-Control"] == "no-store"
    assert without_key(answer.data) == without_key((folder / request_["answer"]).read_bytes())

"""The access policy of a host decides who may read pages and files, not what resolvers are told."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from flask import Flask, Request, redirect
from support.archives import archive_of, close, import_records, make_app
from support.web import (
    CLOSED,
    CLOSED_METADATA,
    CONTENTS,
    HIDDEN,
    INSIDE,
    OUTSIDE,
    REPORT,
    UNLISTED,
    WITH_CLOSED_METADATA,
    ask,
    ask_urls,
    rep,
    shelf,
    source,
)
from werkzeug.exceptions import HTTPException
from werkzeug.wrappers import Response

from flask_ibi_archive import FileRecord, IBIArchive, ItemView
from flask_ibi_archive.errors import NotReady

EMBARGOED = rep(50)
FILE = "doc/report.pdf"
#: An open item, and items with a network, a hidden description, and an embargo.
ITEMS = (REPORT, CLOSED, HIDDEN, EMBARGOED)

Build = Callable[..., Flask]


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, Path]:
    """The URL of a database with the shelf and an item under embargo, and its folder."""
    folder = tmp_path_factory.mktemp("policy")
    uri = f"sqlite:///{folder / 'ibi.sqlite'}"
    app = make_app(uri, folder)
    archive_of(app).init()
    files = [{"path": "report.pdf", "source": source(folder / "sources", "report.pdf")}]
    closed = {"rep": EMBARGOED, "embargo": "9999-12-31", "files": files}
    import_records(archive_of(app), [*shelf(folder / "sources"), closed])
    close(app)
    return uri, folder


@pytest.fixture
def build(place: tuple[str, Path]) -> Iterator[Build]:
    """A function that creates an app whose policy always returns or raises the same."""
    made: list[Flask] = []

    def make(answer: Any = None, policy: Any = None, **config: Any) -> Flask:
        ibi = IBIArchive()
        made.append(make_app(*place, ibi, **{"TESTING": False, **config}))

        def fixed(item: ItemView, file: FileRecord | None, request: Request) -> Any:
            if isinstance(answer, Exception):
                raise answer
            return answer

        ibi.access_policy(policy or fixed)
        return made[-1]

    yield make
    for app in made:
        close(app)


def statuses(app: Flask, ibi: str, remote: str = OUTSIDE) -> list[int]:
    """Return the statuses of landing page, file, list of files, and statistics."""
    return [
        ask(app, f"/col/{ibi}/{rest}", remote=remote).status
        for rest in ("", FILE, "files", "statistics")
    ]


# --- what the policy decides


def test_true_opens_every_item_to_every_user(build: Build) -> None:
    app = build(True)
    for ibi in ITEMS:
        assert statuses(app, ibi) == [200, 200, 200, 200]
        assert ask(app, f"/col/{ibi}/{FILE}", remote=None).body == CONTENTS["report.pdf"]
        for rest in ("", "files"):
            assert f"/col/{ibi}/{FILE}" in ask(app, f"/col/{ibi}/{rest}", remote=OUTSIDE).text
    assert ask(app, f"/col/{REPORT}/doc/missing.pdf").status == 404
    for ibi in (CLOSED_METADATA, WITH_CLOSED_METADATA):
        assert ask(app, f"/col/{ibi}/metadata", remote=OUTSIDE).status == 302


def test_false_closes_every_item_to_every_user(build: Build) -> None:
    app = build(False)
    for ibi in ITEMS:
        is_hidden = ibi == HIDDEN
        expected = [403 if is_hidden else 200, 403, 403, 403 if is_hidden else 200]
        assert statuses(app, ibi, INSIDE) == expected
        for rest in ("", FILE, "files", "doc/missing.pdf"):
            text = ask(app, f"/col/{ibi}/{rest}", remote=INSIDE).text
            assert "You do not have permission" in text
            # the links to other languages, before <main>, repeat the requested path
            assert "report.pdf" not in text.partition("<main")[2]
    assert ask(app, f"/col/{HIDDEN}/metadata", remote=INSIDE).status == 403
    assert ask(app, f"/col/{REPORT}/metadata", remote=INSIDE).status == 200
    for ibi in (CLOSED_METADATA, WITH_CLOSED_METADATA):
        assert ask(app, f"/col/{ibi}/metadata", remote=INSIDE).status == 403


@pytest.mark.parametrize("is_raised", [True, False])
def test_a_response_of_the_policy_replaces_the_page_with_status_403(
    build: Build, is_raised: bool
) -> None:
    response = redirect("https://login.example/?next=x")
    app = build(Refusal(response) if is_raised else response)
    for ibi in ITEMS:
        found = 302 if ibi == HIDDEN else 200
        assert statuses(app, ibi, INSIDE) == [found, 302, 302, found]
        assert "report.pdf" not in ask(app, f"/col/{ibi}/", remote=INSIDE).text
    answer = ask(app, f"/col/{REPORT}/{FILE}")
    assert answer.headers["Location"] == "https://login.example/?next=x"


class Refusal(HTTPException):
    """An exception with a response, such as those of flask.abort(response)."""

    def __init__(self, response: Response) -> None:
        super().__init__(response=response)


def test_the_policy_decides_for_each_file(build: Build) -> None:
    def policy(item: ItemView, file: FileRecord | None, request: Request) -> bool:
        return file is None or file.path.endswith(".csv")

    app = build(policy=policy)
    assert [ask(app, f"/col/{REPORT}/doc/{name}").status for name in
            ("table.csv", "report.pdf", "missing.csv")] == [200, 403, 404]  # fmt: skip
    for rest in ("", "files"):
        text = ask(app, f"/col/{REPORT}/{rest}").text
        assert "table.csv" in text
        assert "report.pdf" not in text
        assert "permission" not in text
    # the list of these files is not public, and the target file is closed
    text = ask(app, f"/col/{UNLISTED}/").text
    assert "new.txt" not in text
    assert "old.txt" not in text


# --- errors


@pytest.mark.parametrize(
    "error", [RuntimeError("secret"), KeyError("x"), NotReady("away", "secret")]
)
def test_an_exception_in_the_policy_never_opens_a_file(build: Build, error: Exception) -> None:
    app = build(error)
    for ibi in ITEMS:
        for rest in (FILE, "files", ""):
            answer = ask(app, f"/col/{ibi}/{rest}", remote=INSIDE)
            assert answer.status == (503 if isinstance(error, NotReady) else 500)
            assert b"%PDF" not in answer.body
            assert "secret" not in answer.text


# --- what the policy does not decide


def test_the_url_list_and_persistent_urls_do_not_ask_the_policy(build: Build) -> None:
    app = build(AssertionError("the policy was asked"), TESTING=True)
    assert ask_urls(app, REPORT, user=OUTSIDE)["contenttype"] == ("Data",)
    assert ask_urls(app, CLOSED, user=OUTSIDE)["contenttype"] == ("Metadata",)
    assert "url" not in ask_urls(app, EMBARGOED, "GetMetadata", user=INSIDE)
    answer = ask(app, f"/{REPORT}", remote=INSIDE)
    assert answer.status == 302
    assert answer.headers["Location"].endswith(f"/col/{REPORT}/{FILE}")

"""The decision who may read: the policy of the host, or networks and embargo; its headers."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import date
from pathlib import Path
from typing import Any

import pytest
from flask import Flask, Request, redirect, request
from msgspec.structs import replace
from support.archives import close, make_app
from support.cases import for_each
from support.web import INSIDE, OUTSIDE, REPORT
from werkzeug.exceptions import Unauthorized

from flask_ibi_archive import FileRecord, IBIArchive, ItemView
from flask_ibi_archive.archive.items.access import (
    AccessDecision,
    check_access,
    select_readable_files,
)
from flask_ibi_archive.core.records.record import AccessRule, Record

FILES = (FileRecord("a.pdf"), FileRecord("b.csv"), FileRecord("c.txt"))
RULE = AccessRule(("150.163.0.0/16",))
LOGIN, ABORTED = redirect("/login"), Unauthorized()


def view(**fields: Any) -> ItemView:
    return ItemView(Record(rep=REPORT, files=FILES, **fields), False, date(2027, 2, 28))


@contextmanager
def asking(folder: Path, policy: Any, remote: str | None = OUTSIDE) -> Iterator[Flask]:
    """Answer a request of a user to an app with a policy; its database is not read."""
    ibi = IBIArchive()
    app = make_app(f"sqlite:///{folder / 'none.sqlite'}", folder, ibi)
    if policy is not None:
        ibi.access_policy(policy)
    with app.test_request_context(environ_overrides={"REMOTE_ADDR": remote}):
        yield app
    close(app)


@for_each(
    ("rule", "answer", "decision"),
    [
        (None, None, AccessDecision(True)),
        (RULE, None, AccessDecision(False)),
        (None, True, AccessDecision(True, by_policy=True)),
        (RULE, True, AccessDecision(True, by_policy=True)),
        (None, False, AccessDecision(False, by_policy=True)),
        (RULE, False, AccessDecision(False, by_policy=True)),
        (None, LOGIN, AccessDecision(False, by_policy=True, refusal=LOGIN)),
        (None, ABORTED, AccessDecision(False, by_policy=True, refusal=ABORTED)),
    ],
)
def test_a_decision_names_who_decided_and_the_refusal(
    tmp_path: Path, rule: AccessRule | None, answer: Any, decision: AccessDecision
) -> None:
    def raising(item: ItemView, file: FileRecord | None, request: Request) -> bool:
        raise ABORTED

    item = view(access=rule)
    for policy in [lambda *_: answer, *([raising] if answer is ABORTED else [])]:
        with asking(tmp_path, policy):
            assert check_access(item) == decision
    if answer is None:
        with asking(tmp_path, None):
            assert check_access(item) == decision
        for policy in (None, lambda *_: None):
            with asking(tmp_path, policy, INSIDE):
                assert check_access(item) == AccessDecision(True)


@for_each("answer", [1, 0, "", "yes", [], ("no", 403)])
def test_an_answer_of_a_wrong_type_is_an_error_that_names_it(tmp_path: Path, answer: Any) -> None:
    with asking(tmp_path, lambda *_: answer), pytest.raises(TypeError) as error:
        check_access(view())
    assert str(error.value) == (
        f"the access policy returned {answer!r}; it must return True, False, None or a response"
    )


def test_the_policy_gets_the_item_the_file_and_the_request(tmp_path: Path) -> None:
    item, given = view(), []

    def policy(*arguments: Any) -> bool:
        given.append(arguments)
        return True

    with asking(tmp_path, policy):
        for file in (None, FILES[1]):
            check_access(item, file)
            assert given.pop() == (item, file, request)


@for_each(
    ("policy", "caching", "vary"),
    [
        (None, None, set()),
        (lambda *_: None, "private, no-cache", {"Cookie"}),
        (lambda *_: True, "private, no-store", {"Cookie"}),
        (lambda *_: False, "private, no-store", {"Cookie"}),
        (lambda *_: LOGIN, "private, no-store", {"Cookie"}),
    ],
)
def test_only_an_answer_that_depends_on_a_policy_varies_by_cookie(
    tmp_path: Path, policy: Any, caching: str | None, vary: set[str]
) -> None:
    with asking(tmp_path, policy) as app:
        check_access(view())
        answer = app.process_response(app.response_class())
        assert (answer.headers.get("Cache-Control"), set(answer.vary)) == (caching, vary)


@for_each(
    ("before", "after"),
    [
        ("public, max-age=60", "private, no-cache"),
        # a stricter rule of the page or of the host remains
        ("private, no-store", "private, no-store"),
        ("no-store", "no-store"),
    ],
)
def test_a_policy_without_an_answer_allows_no_more_caching_than_before(
    tmp_path: Path, before: str, after: str
) -> None:
    with asking(tmp_path, lambda *_: None) as app:
        check_access(view())
        answer = app.process_response(app.response_class(headers={"Cache-Control": before}))
        assert answer.headers["Cache-Control"] == after


@for_each(
    ("fields", "readable", "files", "target"),
    [
        ({}, "abc", "abc", None),
        ({}, "bc", "bc", None),
        ({}, "", "", None),
        ({"target_file": "b.csv"}, "abc", "abc", "b.csv"),
        ({"target_file": "b.csv"}, "ac", "ac", None),
        # without a public list, only the target file is shown
        ({"list_files": False}, "abc", "a", None),
        ({"list_files": False}, "bc", "", None),
        ({"list_files": False, "target_file": "b.csv"}, "abc", "b", "b.csv"),
        ({"list_files": False, "target_file": "b.csv"}, "ac", "", None),
    ],
)
def test_a_page_shows_the_files_that_its_user_may_read(
    tmp_path: Path, fields: dict[str, Any], readable: str, files: str, target: str | None
) -> None:
    item = view(**fields)
    with asking(tmp_path, lambda given, file, request: given is item and file.path[0] in readable):
        found = select_readable_files(item)
    assert "".join(file.path[0] for file in found.record.files) == files
    assert found.record.target_file == target
    assert replace(found, record=item.record) == item
    assert replace(found.record, files=FILES, target_file=item.record.target_file) == item.record

"""The decision who may read: the policy of the host, or networks and embargo; its headers."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import date
from pathlib import Path
from typing import Any

import pytest
from flask import Flask, Request, redirect
from support.archives import close, make_app
from support.web import INSIDE, OUTSIDE, REPORT
from werkzeug.exceptions import Unauthorized

from flask_ibi_archive import FileRecord, IBIArchive, ItemView
from flask_ibi_archive.archive.items.access import (
    AccessDecision,
    check_access,
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


@pytest.mark.parametrize(
    ("rule", "answer", "decision"),
    [
        (RULE, None, AccessDecision(False)),
        (RULE, True, AccessDecision(True, by_policy=True)),
        (None, False, AccessDecision(False, by_policy=True)),
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


@pytest.mark.parametrize("answer", [1, 0, "", "yes", ("no", 403)])
def test_an_answer_of_a_wrong_type_is_an_error_that_names_it(tmp_path: Path, answer: Any) -> None:
    with asking(tmp_path, lambda *_: answer), pytest.raises(TypeError) as error:
        check_access(view())
    assert str(error.value) == (
        f"the access policy returned {answer!r}; it must return True, False, None or a response"
    )


@pytest.mark.parametrize(
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

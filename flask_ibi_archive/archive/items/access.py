"""Decides whether the user of a request may read the files of an item.

The access policy of the host decides first. If there is no policy, or if the policy leaves the
decision open, the networks of the access rule and the embargo of the item decide.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from logging import Logger, getLogger
from typing import TypeAlias

from flask import Request, Response, after_this_request, current_app, request
from msgspec.structs import replace
from sqlalchemy.exc import OperationalError
from werkzeug.exceptions import HTTPException
from werkzeug.wrappers import Response as AnyResponse

from flask_ibi_archive.core.records.record import FileRecord, ItemView
from flask_ibi_archive.errors import IBIError, NotReady
from flask_ibi_archive.server.config import EXTENSION
from flask_ibi_archive.server.web.requests import user_address

#: The function of the host that decides who may read; see :meth:`IBIArchive.access_policy`.
AccessPolicy: TypeAlias = (
    "Callable[[ItemView, FileRecord | None, Request], bool | AnyResponse | None]"
)
log: Logger = getLogger("flask_ibi_archive.host")


class HostFunctionFailed(IBIError):
    """Raised if a function of the host fails for an item, or returns a wrong value."""


@dataclass(frozen=True, slots=True)
class AccessDecision:
    """The decision whether the user may read a file, or the files of an item.

    :param is_allowed: True if the user may read.
    :param by_policy: True if the policy of the host has decided.
    :param refusal: the response with which the policy refuses, or the exception that the policy has
        raised. None: the page of the Archive is shown.
    """

    is_allowed: bool
    by_policy: bool = False
    refusal: AnyResponse | HTTPException | None = None


def find_policy() -> AccessPolicy | None:
    """Return the access policy of the host; None if the host has none."""
    policy: AccessPolicy | None = current_app.extensions[EXTENSION].functions.access_policy
    return policy


def check_access(item: ItemView, file: FileRecord | None = None) -> AccessDecision:
    """Decide whether the user of the request may read a file of an item.

    If the policy raises another exception than HTTPException, this function raises it too.
    Therefore an error in the policy never opens a file.

    :param file: the file; None for the files as a whole, for example for their list.
    :raises TypeError: if the policy returns a value of a wrong type.
    """
    policy = find_policy()
    answer: bool | AnyResponse | HTTPException | None = None
    if policy is not None:
        # an error of the policy is not for shared caches, either
        after_this_request(partial(_forbid_sharing, directive="no-cache"))
        try:
            answer = policy(item, file, request)
        except HTTPException as refusal:
            answer = refusal
    if answer is None:
        return AccessDecision(item.allows(user_address()))
    # only this user of the host gets the response
    after_this_request(partial(_forbid_sharing, directive="no-store"))
    if isinstance(answer, bool):
        return AccessDecision(answer, by_policy=True)
    if isinstance(answer, AnyResponse | HTTPException):
        return AccessDecision(False, by_policy=True, refusal=answer)
    raise TypeError(
        f"the access policy returned {answer!r}; it must return True, False, None or a response"
    )


def find_refusal(item: ItemView) -> AccessDecision | None:
    """Return the refusal if the user of the request must not see the description of an item.

    :returns: None if the user may see the description.
    """
    if not item.is_hidden:
        return None
    access = check_access(item)
    return None if access.is_allowed else access


def select_readable_files(item: ItemView) -> ItemView:
    """Return a copy of an item without the files that the user of the request may not read.

    If the list of files is not public, the copy has no other file than the target file.
    """
    record = item.record
    files = tuple(
        file
        for file in record.files
        if (record.list_files or file.path == record.target_path)
        and check_access(item, file).is_allowed
    )
    target = record.target_file if record.target_file in [file.path for file in files] else None
    return replace(item, record=replace(record, files=files, target_file=target))


def _forbid_sharing(response: Response, directive: str) -> Response:
    """Set the headers of a response that other users of the host must not get from a cache.

    :param directive: what the cache of the user may do: ``no-cache`` or ``no-store``.
    """
    response.vary.add("Cookie")
    if "no-store" not in response.headers.get("Cache-Control", ""):
        response.headers["Cache-Control"] = f"private, {directive}"
    return response


def cannot_write(ibi: str, format: str) -> HostFunctionFailed:
    """Return the error for an item whose metadata can't be written in a format."""
    return HostFunctionFailed(
        f"the metadata of the item {ibi} can't be written in the format {format}"
    )


@contextmanager
def logging_failure(failure: HostFunctionFailed) -> Iterator[None]:
    """Replace and log an exception of the ``with`` block, which calls a function of the host.

    :param failure: the exception to raise instead. Its message says what can't be done, and names
        the item.
    :raises HostFunctionFailed: the failure, if the block raises an exception.
    :raises NotReady, OperationalError: if a database is not available. This is not a failure of the
        function: the same request succeeds later.
    """
    try:
        yield
    except (NotReady, OperationalError):
        raise
    except Exception as error:  # the function may raise anything
        log.exception("%s", failure)
        raise failure from error

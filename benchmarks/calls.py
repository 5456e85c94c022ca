"""Count the functions of this package that an operation calls, and the modules they are in.

Only the thread of the operation is counted. Comprehensions and lambdas are no functions here, so
that the figures do not depend on the version of Python, and hardly on the computer.
"""

from __future__ import annotations

import itertools
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import FrameType

import flask_ibi_archive

from . import ours, resolutions
from .worker import Work, get

PACKAGE = f"{Path(flask_ibi_archive.__file__).parent}/"


def count_calls(operation: Callable[[], object]) -> str:
    """Return the numbers of calls and of modules of the third of three operations."""
    operation()
    operation()
    files = []

    def note(frame: FrameType, event: str, argument: object) -> None:
        code = frame.f_code
        is_named = not code.co_name.startswith("<")
        if event == "call" and is_named and code.co_filename.startswith(PACKAGE):
            files.append(code.co_filename)

    sys.setprofile(note)
    try:
        operation()
    finally:
        sys.setprofile(None)
    return f"{len(files)} / {len(set(files))}"


def counted(operation: Callable[[], object]) -> Work:
    """Return the work that counts the calls of an operation."""
    return lambda _: partial(count_calls, operation)


def url_request(uri: str, folder: str) -> Work:
    """Prepare a urlRequest about an item."""
    app = ours.create_library(uri, folder)
    query = f"{ours.URL_REQUEST}{ours.rep_of(ours.MEASURED)}"
    return counted(partial(get, app.wsgi_app, f"/{ours.SERVICE}", query))


def deposit(uri: str, folder: str) -> Work:
    """Prepare deposits with one file."""
    _, archive = ours.create_archive(uri, folder)
    path = Path(folder, "report.pdf")
    path.write_bytes(b"%PDF-1.4")
    return counted(lambda: archive.deposit(**ours.DEPOSIT, files=[path]))


def edit(uri: str, folder: str) -> Work:
    """Prepare edits of a title."""
    _, archive = ours.create_archive(uri, folder)
    item = archive.deposit(**ours.DEPOSIT)
    numbers = itertools.count()
    return counted(lambda: archive.edit(item.ibi, title=f"Annual report {next(numbers)}"))


def resolution(uri: str, folder: str) -> Work:
    """Prepare resolutions that ask one Archive."""
    app = resolutions.create_resolver(uri, folder, 1)
    items = resolutions.name_items(1)
    return counted(lambda: resolutions.resolve(app, next(items)))

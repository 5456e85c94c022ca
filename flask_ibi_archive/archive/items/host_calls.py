"""Calls functions of the host for one item, whose failure must not concern other items."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from logging import getLogger

from sqlalchemy.exc import OperationalError

from flask_ibi_archive.errors import HostFunctionFailed, NotReady

log = getLogger("flask_ibi_archive.host")


@contextmanager
def logging_failure(failure: HostFunctionFailed) -> Iterator[None]:
    """Log any exception of the block, which calls a function of the host for an item.

    :param failure: what can't be done. It names the item.
    :raises HostFunctionFailed: the failure, if the block raises an exception.
    :raises NotReady, OperationalError: if a database is not available, which is not a failure of
        the function.
    """
    try:
        yield
    except (NotReady, OperationalError):  # the same request succeeds later
        raise
    except Exception as error:  # the function may raise anything
        log.exception("%s", failure)
        raise failure from error

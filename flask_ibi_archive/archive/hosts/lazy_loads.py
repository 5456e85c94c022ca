"""Finds relationships that the method ``ibi_record()`` of a host loads with many statements."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from sqlalchemy import event
from sqlalchemy.orm import ORMExecuteState, Session

#: A relationship is reported when this number of statements has loaded it.
MANY = 100


@contextmanager
def reporting_lazy_loads(session: Session, report: Callable[[str], None]) -> Iterator[None]:
    """Report each relationship that is loaded lazily for many rows during the ``with`` block.

    :param report: called once for each such relationship, with the advice.
    """
    counts: Counter[str] = Counter()

    def count(execution: ORMExecuteState) -> None:
        path = execution.loader_strategy_path
        if execution.lazy_loaded_from is None or path is None:
            return
        counts[name := str(path[-1])] += 1
        if counts[name] == MANY:
            report(
                f"ibi_record() loads {name} with a statement for each row, which is slow for many "
                "rows; add lazy='selectin' to this relationship, or use columns instead"
            )

    event.listen(session, "do_orm_execute", count)
    try:
        yield
    finally:
        event.remove(session, "do_orm_execute", count)

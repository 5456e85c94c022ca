"""Whom a resolver asks: the Archives that are included, and where an IBI was last found."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, and_, bindparam, select

from flask_ibi_archive.resolver.tables import Hint, RegisteredArchive


@dataclass(frozen=True, slots=True)
class IncludedArchive:
    """An Archive that is asked: its number here, the IBI of its service, and its address."""

    id: int
    service_ibi: str
    address: str


_ARCHIVES = (
    select(
        RegisteredArchive.id,
        RegisteredArchive.service_ibi,
        RegisteredArchive.address,
        Hint.archive_id,
    )
    .outerjoin(Hint, and_(Hint.archive_id == RegisteredArchive.id, Hint.ibi == bindparam("ibi")))
    .where(RegisteredArchive.included_at.is_not(None))
    .order_by(RegisteredArchive.id)
)


def read_directory(
    connection: Connection, ibi: str | None
) -> tuple[list[IncludedArchive], int | None]:
    """Return the Archives that are included, confirmed or not, and the one where an IBI was last
    found.

    :param ibi: in canonical case; None: no hint is wanted.
    :returns: the Archives by their numbers, and the number of the one hinted at, which is among
        them; None where there is none.
    Source: [R] 6.2.
    """
    archives, hinted = [], None
    rows: Iterable[Any] = connection.execute(_ARCHIVES, {"ibi": ibi}).all()
    for archive_id, service_ibi, address, hint in rows:
        archives.append(IncludedArchive(archive_id, service_ibi, address))
        if hint is not None:
            hinted = archive_id
    return archives, hinted

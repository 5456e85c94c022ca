"""Runs statements with libpq, the C library of PostgreSQL that psycopg uses.

A cursor of psycopg takes three times as long in this process. This module is only imported if
psycopg is installed.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from psycopg import Connection, DataError, RawCursor
from psycopg.errors import InvalidSqlStatementName, error_from_result
from psycopg.generators import execute
from psycopg.pq import ExecStatus, TransactionStatus
from psycopg.pq.abc import PGresult
from sqlalchemy import PoolProxiedConnection

#: The key of the names of prepared statements in the ``info`` of a connection.
PREPARED = "ibi_prepared"


def read_column(
    pooled: PoolProxiedConnection, query: bytes, values: Sequence[int | str]
) -> list[str]:
    """Run a statement and return the first column of its rows.

    In a transaction, a cursor of psycopg runs the statement, because a missing prepared statement
    would end the transaction.

    :param query: a statement with the placeholders ``$1``, ``$2`` and so on.
    :param values: the values of the placeholders.
    :raises psycopg.Error: if the server refuses the statement or does not answer.
    """
    connection: Any = pooled.driver_connection
    if connection.pgconn.transaction_status != TransactionStatus.IDLE:
        return [row[0] for row in RawCursor(connection).execute(query, values)]
    texts = [str(value).encode() for value in values]
    if any(b"\0" in one for one in texts):  # libpq would ignore what follows
        raise DataError("a text of PostgreSQL cannot contain NUL")
    try:
        result = _run(pooled, query, texts)
    except InvalidSqlStatementName:
        # when a transaction ends, psycopg may delete all prepared statements of the connection
        del pooled.info[PREPARED]
        result = _run(pooled, query, texts)
    return [result.get_value(row, 0).decode() for row in range(result.ntuples)]  # type: ignore[union-attr]


def _run(pooled: PoolProxiedConnection, query: bytes, values: Sequence[bytes]) -> PGresult:
    """Run a statement. The server prepares it at the first run on each connection.

    Through a pooler nothing is prepared, because the next statement may run in another session.
    """
    connection: Any = pooled.driver_connection
    if connection.prepare_threshold is None:
        connection.pgconn.send_query_params(query, values)
        return _wait(connection, ExecStatus.TUPLES_OK)
    names: dict[bytes, bytes] = pooled.info.setdefault(PREPARED, {})
    name = names.get(query)
    if name is None:
        name = b"ibi_%d" % len(names)
        connection.pgconn.send_prepare(name, query)
        _wait(connection, ExecStatus.COMMAND_OK)
        names[query] = name
    connection.pgconn.send_query_prepared(name, values)
    return _wait(connection, ExecStatus.TUPLES_OK)


def _wait(connection: Connection[Any], expected: ExecStatus) -> PGresult:
    """Wait for the result of a statement that was sent, at most until the deadline."""
    result: PGresult = connection.wait(execute(connection.pgconn))[0]
    if result.status != expected:
        raise error_from_result(result)
    return result

"""The file next to an SQLite database with the last date that was issued in a host's transaction.

If the host rolls back its transaction, the last date in the table ``ibi_prefix`` is lost
(:mod:`.prefixes`).
"""

from __future__ import annotations

import stat
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

from sqlalchemy import Connection

from flask_ibi_archive.archive.items.file_io import new_file
from flask_ibi_archive.core.identifiers import format_decimal, parse_decimal
from flask_ibi_archive.errors import MintingError, StorageError

#: The name of this file is the name of the database file and this suffix.
SUFFIX = "-ibi-last-date"


@dataclass(frozen=True, slots=True)
class LastDateFile:
    """The file with the last date that was issued in a transaction of the host.

    Callers must hold the write lock of the database.

    :param path: the path of this file.
    :param database: the path of the SQLite database.
    """

    path: Path
    database: Path

    @classmethod
    def of(cls, connection: Connection) -> LastDateFile | None:
        """Return the file for a database; None if the database is not an SQLite file."""
        if connection.dialect.name != "sqlite":
            return None
        if cls not in connection.info:  # the info of a connection lives as long as the connection
            # SQLite resolves symbolic links in the name. So every process uses the same file.
            listed = connection.exec_driver_sql("PRAGMA database_list").all()
            name = next(file for _, schema, file in listed if schema == "main")
            connection.info[cls] = cls(Path(f"{name}{SUFFIX}"), Path(name)) if name else None
        file: LastDateFile | None = connection.info[cls]
        return file

    def read(self) -> Fraction | None:
        """Return the date in the file in POSIX seconds; None if the file does not exist.

        :raises MintingError: if the file cannot be read.
        """
        try:
            with open(self.path, "rb") as file:  # noqa: PTH123 - once per identifier
                return parse_decimal(file.read().decode("ascii"))
        except FileNotFoundError:
            return None
        except (OSError, ValueError) as error:
            raise MintingError(
                f"the last date issued cannot be read from {self.path}: {error}; restore the file; "
                "if the clock was never set back, you can remove the file instead"
            ) from error

    def write(self, date: Fraction) -> None:
        """Store a date in the file. The file is on the disk when the method returns.

        :raises MintingError: if the file cannot be written.
        """
        try:
            mode = stat.S_IMODE(self.database.stat().st_mode)
            with new_file(self.path, mode) as file:
                file.write(format_decimal(date).encode("ascii"))
        except (OSError, StorageError) as error:
            raise MintingError(f"no identifier can be issued: {error}") from error

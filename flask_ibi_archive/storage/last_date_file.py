"""A file next to an SQLite database with the last date issued within a host's transaction.

SQLite has one writer at a time: while a host's transaction is open, nothing else can be committed
to the database, and a rollback removes what the transaction stored. The file remains.
"""

from __future__ import annotations

import stat
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

from sqlalchemy import text

from flask_ibi_archive.errors import MintingError, StorageError
from flask_ibi_archive.identifiers import format_decimal, parse_decimal
from flask_ibi_archive.storage.database import Database
from flask_ibi_archive.storage.engines import in_memory
from flask_ibi_archive.storage.file_io import new_file

#: Is appended to the name of the database's file.
SUFFIX = "-ibi-last-date"


@dataclass(frozen=True, slots=True)
class LastDateFile:
    """The file; whoever uses it holds the write lock of the database.

    :param path: the file; :param database: that of the database.
    """

    path: Path
    database: Path

    @classmethod
    def of(cls, database: Database) -> LastDateFile | None:
        """Return the file of a database, None if it is none of SQLite's or is in memory.

        :raises NotReady: if the database does not respond.
        """
        url = database.engine.url
        if url.get_backend_name() != "sqlite" or in_memory(url):
            return None
        # SQLite's own name of the file has no symbolic links: every process uses the same one
        name = database.read(
            lambda connection: connection.scalar(
                text("SELECT file FROM pragma_database_list WHERE name = 'main'")
            )
        )
        return cls(Path(f"{name}{SUFFIX}"), Path(str(name)))

    def read(self) -> Fraction | None:
        """Return the date in POSIX seconds, None if there is no file.

        :raises MintingError: if it cannot be read.
        """
        try:
            with open(self.path, "rb") as file:  # noqa: PTH123 - once per identifier
                return parse_decimal(file.read().decode("ascii"))
        except FileNotFoundError:
            return None
        except (OSError, ValueError) as error:
            raise MintingError(
                f"the last date issued cannot be read from {self.path}: {error}; restore the file, or "
                "remove it if the clock was never set back"
            ) from error

    def write(self, date: Fraction) -> None:
        """Store a date; it is on the disk when this returns.

        :raises MintingError: if it cannot be written.
        """
        try:
            mode = stat.S_IMODE(self.database.stat().st_mode)
            with new_file(self.path, mode) as file:
                file.write(format_decimal(date).encode("ascii"))
        except (OSError, StorageError) as error:
            raise MintingError(f"no identifier can be issued: {error}") from error

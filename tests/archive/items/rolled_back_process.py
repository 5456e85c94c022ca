"""A host that deposits items and often rolls back, while its clock is set back repeatedly.

The process reports each identifier as soon as it is issued, even if the transaction is rolled back
later. It works in rounds::

    python rolled_back_process.py URI FOLDER
"""

from __future__ import annotations

import random
import sys
from fractions import Fraction

from flask import Flask
from sqlalchemy import create_engine, text
from sqlalchemy.orm import scoped_session, sessionmaker

from flask_ibi_archive import IBIArchive, ItemRecord
from flask_ibi_archive.archive.archive import Archive
from flask_ibi_archive.errors import NotReady

#: The time to which clocks are set: the same in every process, a multiple of every granularity.
MOMENT = Fraction(1_790_000_040)
OFFSETS = [0, 0, 0, Fraction(1, 10**6), Fraction(1, 1000), Fraction(1, 2), -1, -60]


class Clock:
    """A clock that is set to one of a few times; waiting advances the clock."""

    def __init__(self) -> None:
        self.now = MOMENT

    def __call__(self) -> Fraction:
        return self.now

    def set(self) -> None:
        """Set the clock to one of a few times."""
        self.now = MOMENT + random.choice(OFFSETS)

    def wait(self, seconds: float) -> None:
        """Move the clock instead of waiting."""
        self.now += Fraction(seconds)


def make_host(uri: str, folder: str, clock: Clock) -> tuple[Archive, scoped_session]:  # type: ignore[type-arg]
    """Return the Archive of a host and the host's session."""
    timeout = {"connect_args": {"timeout": 60}} if uri.startswith("sqlite") else {}
    session = scoped_session(sessionmaker(create_engine(uri, **timeout)))
    app = Flask("host", instance_path=folder)
    app.config.update(
        SECRET_KEY="a secret for tests",
        IBI_FILES_FOLDER=f"{folder}/files",
        IBI_ARCHIVE_ADDRESS="mtc-m16c.sid.inpe.br",
        IBI_ARCHIVE_SERVICE_IBI="sid.inpe.br/mtc-m18@80/2008/03.17.15.17",
        IBI_ARCHIVE_IP="150.163.34.243",
        IBI_GRANULARITY="0.000001",
    )
    IBIArchive(app, session=session)
    archive: Archive = app.extensions["ibi_archive"].archive
    archive.init()
    archive.minter.clock = clock
    archive.minter.wait = clock.wait
    archive.minter.max_wait = 10**6
    return archive, session


def main(uri: str, folder: str) -> None:
    """Deposit some items in each round."""
    clock = Clock()
    archive, session = make_host(uri, folder, clock)
    for _ in sys.stdin:
        clock.set()
        try:
            if random.random() < 0.9:  # on SQLite this excludes every other writer
                session.execute(text("INSERT INTO host_report (name) VALUES ('annual')"))
            for _ in range(random.randint(1, 3)):
                savepoint = session.begin_nested() if random.random() < 0.3 else None
                minted = archive.deposit(ItemRecord())
                print(minted.rep, minted.ibip, flush=True)
                if savepoint is not None:
                    savepoint.rollback()
                    clock.set()
            if random.random() < 0.1:
                session.commit()
        except NotReady:  # another process was writing
            pass
        session.rollback()
        print(".", flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])

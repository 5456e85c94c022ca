"""A process that stores and counts accesses: ``python counting_process.py URI FOLDER SEED``."""

from __future__ import annotations

import random
import sys
from pathlib import Path

from sqlalchemy import select
from support.accesses import PERSISTENT
from support.archives import archive_of, make_app

from flask_ibi_archive.archive.accesses.daily_counts import AccessCounter
from flask_ibi_archive.storage.accesses import INSERTING, insert_access
from flask_ibi_archive.storage.models import Item

COUNT = 40
#: Just before midnight.
BEGIN = 1_772_409_540


def main(uri: str, folder: str, seed: str) -> None:
    """Store accesses that are double clicks of those that other processes store."""
    archive = archive_of(make_app(uri, Path(folder)))
    served = archive.served().id
    counter = AccessCounter(archive.database, step=4)
    chance = random.Random(int(seed))
    with archive.database.reading() as connection:
        [first, second] = connection.scalars(
            select(Item.id).where(Item.archive_id == served, ~Item.is_service)
        )
    print("ready", flush=True)
    sys.stdin.readline()
    for number in range(COUNT):
        values = {
            "archive_id": served,
            "url_key": f"{seed}-{number}",
            "item_id": first,
            "delivered_item_id": chance.choice([None, second]),
            "second": BEGIN + chance.randrange(120),
            "visitor": chance.choice("abc"),
            "address": "192.0.2.0",
            "robot": chance.random() < 0.1,
            "content_type": "Data",
            "persistent_url": PERSISTENT,
            "url": "",
        }
        with archive.database.writing(60, INSERTING) as connection:
            access = insert_access(connection, values)
        assert access is not None
        counter.note(access)
    archive.database.close()


if __name__ == "__main__":
    main(*sys.argv[1:])

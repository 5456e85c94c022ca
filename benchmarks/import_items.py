"""Measure the speed and the memory of an import of many items.

Run it with::

    python -m benchmarks.import_items COUNT FOLDER [--postgresql URL]

The benchmark creates COUNT items (editions, translations and metadata that refer to each other in
any order, Dublin Core, files; one item in a thousand also has a file to copy), imports them in a
separate process, and prints items per second and the maximum memory of that process.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import random
import resource
import subprocess
import sys
import time
import uuid
from dataclasses import replace
from pathlib import Path
from typing import Any

from sqlalchemy import create_engine, make_url, text
from support.archives import archive_of, import_file, make_app
from support.stores import ibip_of, moment_of, rep_of

from flask_ibi_archive.archive.items.exporting import export_records
from flask_ibi_archive.core.records.fields import format_line

LANGUAGES = ("en", "pt", "es")


def make_item(number: int, count: int, dice: random.Random) -> dict[str, Any]:
    """Return a record; the items form groups of six that refer to each other."""
    place = number % 6
    item: dict[str, Any] = {"rep": rep_of(number), "timestamp": moment_of(number)}
    if place != 5:
        item["ibip"] = ibip_of(number)
    following = number + 1 if number + 1 < count else 0
    if place in (0, 1):
        item["next_edition"] = rep_of(following)
    if place == 2:
        item["language"] = LANGUAGES[0]
        item["translations"] = {LANGUAGES[1]: rep_of(following)}
    if place == 4:
        item["metadata"] = {"ibi": rep_of(following)}
        if dice.random() < 0.1:
            item["next_edition"] = rep_of(number, "elsewhere.org/there")
    elif place == 5:
        item["content_type"] = "Metadata"
    else:
        words = [f"word{dice.randrange(10**6)}" for _ in range(30)]
        item["metadata"] = {
            "dc": {
                "title": [f"Title {number}"],
                "creator": ["Author, A.", "Author, B."],
                "description": [" ".join(words)],
            }
        }
    item["files"] = [{"path": f"report {number}.pdf"}, {"path": "data/table.csv"}]
    if number % 1000 == 0:
        item["files"].append({"path": "stored.txt", "source": f"stored{number % 7}.txt"})
    return item


def make_file(folder: Path, count: int) -> Path:
    """Write the records to a file, in random order."""
    for number in range(7):
        (folder / f"stored{number}.txt").write_text(f"content {number}")
    dice = random.Random(3)
    numbers = list(range(count))
    dice.shuffle(numbers)
    path = folder / f"items{count}.jsonl"
    with path.open("w", encoding="utf-8") as file:
        for number in numbers:
            file.write(json.dumps(make_item(number, count, dice)) + "\n")
    return path


def work(uri: str, folder: Path, path: Path) -> None:
    """Import in this process and print the maximum memory."""
    archive = archive_of(make_app(uri, folder))
    archive.init()
    import_file(archive, path)
    print(peak_memory())


class Bench:
    """An import of a file into its own database."""

    def __init__(self, folder: Path, count: int, postgresql: str | None) -> None:
        self.folder = folder
        self.count = count
        self.postgresql = postgresql
        folder.mkdir(parents=True, exist_ok=True)
        self.path = make_file(folder, count)

    def run(self) -> None:
        """Import, and print the figures."""
        name = f"ibi_bench_{uuid.uuid4().hex}"
        place = self.folder / name
        uri = f"sqlite:///{place / 'ibi.sqlite'}"
        place.mkdir()
        if self.postgresql:
            statement(self.postgresql, f"CREATE DATABASE {name}")
            uri = make_url(self.postgresql).set(database=name).render_as_string(False)
        try:
            start = time.monotonic()
            importing = [sys.executable, __file__, "--work", uri, str(place), str(self.path)]
            peak = int(subprocess.run(importing, check=True, capture_output=True).stdout)
            seconds = time.monotonic() - start
            exporting = [sys.executable, __file__, "--export", uri, str(place)]
            start = time.monotonic()
            digest, export_peak = subprocess.run(
                exporting, check=True, capture_output=True, text=True
            ).stdout.split()
            print(
                f"{self.count} items: {seconds:.0f} s, "
                f"{self.count / seconds:.0f} items/s, peak {peak} MB; "
                f"export: {time.monotonic() - start:.0f} s, peak {export_peak} MB, "
                f"{digest[:12]}",
                flush=True,
            )
        finally:
            if self.postgresql:
                statement(self.postgresql, f"DROP DATABASE {name} WITH (FORCE)")
            for file in place.glob("ibi.sqlite*"):
                file.unlink()


def statement(uri: str, words: str) -> None:
    """Run a statement on a server."""
    engine = create_engine(uri, isolation_level="AUTOCOMMIT")
    with engine.connect() as connection:
        connection.execute(text(words))
    engine.dispose()


def export(uri: str, folder: Path) -> None:
    """Print the digest of an export without the paths of contents, and the peak memory."""
    archive = archive_of(make_app(uri, folder))
    digest = hashlib.sha256()
    for record in export_records(archive.database, archive.served().id, archive.files_folder):
        files = tuple(replace(file, source=None) for file in record.files)
        digest.update(format_line(replace(record, files=files)).encode() + b"\n")
    print(digest.hexdigest(), peak_memory())


def peak_memory() -> int:
    """Return the maximum memory of this process in megabytes."""
    return round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)


def main() -> None:
    """Measure."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("count", type=int)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--postgresql", metavar="URL", help="a server to create databases on")
    given = parser.parse_args()
    Bench(given.folder.absolute(), given.count, given.postgresql).run()


if __name__ == "__main__":
    if sys.argv[1:2] == ["--work"]:
        uri_, folder_, path_ = sys.argv[2:]
        work(uri_, Path(folder_), Path(path_))
    elif sys.argv[1:2] == ["--export"]:
        export(sys.argv[2], Path(sys.argv[3]))
    else:
        main()

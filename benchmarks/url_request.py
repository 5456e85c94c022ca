"""Measure the CPU time of a urlRequest as a multiple of that of a bare Flask view.

Run it with ``python -m benchmarks.url_request [--postgresql URL]``. Rounds of both are
interleaved, and the medians of their ratios are printed, because the load of a machine changes
times more than ratios.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from flask import Flask
from sqlalchemy import Engine, bindparam, column, select, table
from support.archives import SERVICE, archive_of, close, import_file, import_records, make_app
from support.vectors import FOLDER

from benchmarks import worker
from benchmarks.worker import requests_to

LIMIT = 3.5
ROUNDS = 15
CALLS = 300
URL_REQUEST = (
    "servicesubject=urlRequest&clientinformation.ipaddress=150.163.2.175&parsedibiurl.ibi="
)

QUERIES = {
    "an item": f"{URL_REQUEST}8JMKD3MGP8W/35MME4E",
    "by repository name": f"{URL_REQUEST}sid.inpe.br/mtc-m18@80/2009/07.21.13.23",
    "unknown": f"{URL_REQUEST}8JMKD3MGP8W/35MME4F",
    "a file": f"{URL_REQUEST}8JMKD3MGP8W/35MME4E&parsedibiurl.filepath=CCSDS%20643.0-B-1.pdf",
    "metadata": f"{URL_REQUEST}8JMKD3MGP8W/35MME4E&parsedibiurl.verblist=GetMetadata",
    "translations": f"{URL_REQUEST}8JMKD3MGP8W/35MME4E&parsedibiurl.verblist=GetTranslation",
    "last edition": f"{URL_REQUEST}8JMKD3MGP8W/35MMLL8&parsedibiurl.verblist=GetLastEdition",
    "!:(oai_dc)": f"{URL_REQUEST}8JMKD3MGP8W/35MMLL8"
    "&parsedibiurl.verblist=GetLastEdition%20GetMetadata(oai_dc)",
    "last of 300 editions": f"{URL_REQUEST}a.br/x/2001/01.01.00.00"
    "&parsedibiurl.verblist=GetLastEdition",
}


def cost(app: Flask, path: str, query: str = "") -> float:
    """Return the CPU seconds of several calls."""
    return worker.measure(requests_to(app.wsgi_app, path, query), CALLS)["cpu"]


def measure(uri: str, folder: Path) -> bool:
    """Print the ratios and return whether all are within the limit."""
    app = make_app(uri, folder)
    archive = archive_of(app)
    archive.init()
    for example in ("example_7_2", "example_8_1"):
        import_file(archive, FOLDER / "archive" / example / "items.jsonl", on_conflict="skip")
    editions = [f"a.br/x/{2001 + number}/01.01.00.00" for number in range(300)]
    import_records(
        archive,
        [
            {"rep": rep, **({"next_edition": editions[number + 1]} if number < 299 else {})}
            for number, rep in enumerate(editions)
        ],
    )
    bare = Flask("bare")
    bare.add_url_rule("/constant", view_func=lambda: "constant")
    bare.add_url_rule("/select", view_func=create_select_view(archive.database.engine))
    right = True
    for name, query in {"(one Core SELECT)": None, **QUERIES}.items():
        ratios = []
        for _ in range(ROUNDS):
            base = cost(bare, "/constant")
            if query is None:
                ratios.append(cost(bare, "/select") / base)
            else:
                ratios.append(cost(app, f"/{SERVICE}", query) / base)
        ratio = statistics.median(ratios)
        within = query is None or ratio <= LIMIT
        right = right and within
        print(f"{ratio:6.2f}  {name}{'' if within else f'  over {LIMIT}'}", flush=True)
    close(app)
    return right


def create_select_view(engine: Engine) -> Callable[[], str]:
    """Return a view with one SELECT of SQLAlchemy Core, and a constant body."""
    identifiers = table("ibi_identifier", column("text"), column("item_id"), column("archive_id"))
    statement = select(identifiers).where(identifiers.c.text == bindparam("ibi"))

    def one_select() -> str:
        with engine.connect() as connection:
            connection.execute(statement, {"ibi": "8JMKD3MGP8W/35MME4E"}).all()
        return "constant"

    return one_select


def main() -> None:
    """Measure on SQLite, or on the database of ``--postgresql``."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--postgresql", metavar="URL", help="an empty database to measure on")
    given = parser.parse_args().postgresql
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        right = measure(given or f"sqlite:///{folder / 'ibi.sqlite'}", folder)
    sys.exit(0 if right or given else 1)


if __name__ == "__main__":
    main()

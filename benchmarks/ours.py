"""The work of this package that is measured."""

from __future__ import annotations

import itertools
import json
import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from flask import Flask
from sqlalchemy import select
from support.archives import SERVICE, archive_of, import_file, import_records, make_app
from support.stores import ibip_of, rep_of

from flask_ibi_archive.archive.items.same_as import add_same_as
from flask_ibi_archive.archive.items.tables import Item

from .growing_archive import add_aliases, add_items
from .import_items import make_item
from .worker import Work, repeated, requests_to

#: Items in the database from which is read.
ITEMS = 1000
#: The items of a group: two translations with their metadata, and a previous edition.
GROUP = 5
#: A group that is measured.
MEASURED = 100
URL_REQUEST = (
    "servicesubject=urlRequest&clientinformation.ipaddress=150.163.2.175&parsedibiurl.ibi="
)
LAST_METADATA = "&parsedibiurl.verblist=GetLastEdition%20GetMetadata(oai_dc)"
FORMER_HOST = "old.example.org"
HANDLE, ADDRESS = "hdl:20.500.12345/", f"http://{FORMER_HOST}/handle/1/"
#: So fine that no request waits for its date.
GRANULARITY = "0.000001"


def group_of(first: int) -> list[dict[str, Any]]:
    """Return the records of an item with a translation, metadata and a previous edition."""
    item, translation, metadata, more_metadata, previous = (
        rep_of(number) for number in range(first, first + GROUP)
    )
    formats = {"oai_dc": "http://archive.example.org/oai_dc"}
    describing = {"content_type": "Metadata", "formats": formats}
    records: list[dict[str, Any]] = [
        {
            "rep": item,
            "ibip": ibip_of(first),
            "language": "en",
            "translations": {"pt": translation},
            "metadata": {"ibi": metadata},
        },
        {"rep": translation, "language": "pt", "metadata": {"ibi": more_metadata}},
        {"rep": metadata, **describing},
        {"rep": more_metadata, **describing},
        {"rep": previous, "next_edition": item},
    ]
    return [{**record, "files": [{"path": "report.pdf"}]} for record in records]


def prepare(uri: str, folder: str) -> None:
    """Create an Archive with the items from which is read."""
    archive = archive_of(make_app(uri, Path(folder)))
    archive.init()
    groups = (group_of(first) for first in range(0, ITEMS, GROUP))
    import_records(archive, list(itertools.chain.from_iterable(groups)))
    archive.database.close()


def url_list_of(app: Flask, ibi: str, rest: str = "") -> Work:
    """Return the work that consists of urlRequests about an item that exists."""
    path, query = f"/{SERVICE}", f"{URL_REQUEST}{ibi}{rest}"
    answer = app.test_client().get(path, query_string=query).text
    assert "state" in answer, answer
    return requests_to(app.wsgi_app, path, query)


def url_request(uri: str, folder: str) -> Work:
    """Prepare urlRequests about one item."""
    return url_list_of(make_app(uri, Path(folder)), rep_of(GROUP * MEASURED))


def name_items(uri: str, folder: str) -> None:
    """Give each item of :func:`prepare` an alias: a Handle or a former address."""
    archive = archive_of(make_app(uri, Path(folder)))
    served = archive.served().id
    with archive.database.writing() as connection:
        ids = {rep: key for key, rep in connection.execute(select(Item.id, Item.rep))}
        texts = (HANDLE, ADDRESS)
        aliases = [(ids[rep_of(n)], 0, f"{texts[n % 2]}{n}") for n in range(ITEMS)]
        add_same_as(connection, served, aliases)
    archive.database.close()


def former_link(uri: str, folder: str) -> Work:
    """Prepare redirects of a Handle. They are not counted, so that nothing is written."""
    app = make_app(uri, Path(folder))
    return requests_to(app.wsgi_app, f"/{HANDLE}500", status="302", REQUEST_METHOD="HEAD")


def former_address(uri: str, folder: str) -> Work:
    """Prepare redirects of a former address with a modifier."""
    app = make_app(uri, Path(folder), IBI_FORMER_HOSTS=FORMER_HOST)
    path = f"{ADDRESS.partition(FORMER_HOST)[2]}501:"
    options = {"REQUEST_METHOD": "HEAD", "HTTP_HOST": FORMER_HOST}
    return requests_to(app.wsgi_app, path, status="302", **options)


def metadata_request(uri: str, folder: str) -> Work:
    """Prepare urlRequests about the metadata of the last edition of an item."""
    previous = rep_of(GROUP * MEASURED + GROUP - 1)
    return url_list_of(make_app(uri, Path(folder)), previous, LAST_METADATA)


def unfiltered_list(uri: str, folder: str) -> Work:
    """Prepare urlRequests that are answered with all 204 pairs."""
    app = make_app(uri, Path(folder), IBI_FILTER_URL_LIST=False)
    return url_list_of(app, rep_of(GROUP * MEASURED))


def minting(uri: str, folder: str) -> Work:
    """Prepare to mint single identifiers."""
    archive = archive_of(make_app(uri, Path(folder), IBI_GRANULARITY=GRANULARITY))
    return repeated(archive.mint)


def deposits(uri: str, folder: str) -> Work:
    """Prepare deposits without files."""
    archive = archive_of(make_app(uri, Path(folder), IBI_GRANULARITY=GRANULARITY))
    return repeated(lambda: archive.deposit(title="Annual report", creators=["Silva, Ana"]))


def imports(uri: str, folder: str) -> Work:
    """Prepare to import the files of :func:`write_imports`, one each time."""
    archive = archive_of(make_app(uri, Path(folder)))
    files = itertools.count()

    def work(count: int) -> None:
        result = import_file(archive, import_path(Path(folder), next(files)))
        assert result.added == count, result

    return work


def import_path(folder: Path, number: int) -> Path:
    """Return the path of a file of records."""
    return folder / f"items{number}.jsonl"


def write_imports(folder: Path, sizes: Sequence[int]) -> None:
    """Write files of records to import, each in random order.

    :param sizes: the number of items in each file: a multiple of six, because six form a group.
    """
    dice = random.Random(3)
    for number in range(7):
        (folder / f"stored{number}.txt").write_text(f"content {number}")
    begin = 0
    for file, size in enumerate(sizes):
        numbers = list(range(begin, begin + size))
        begin += size
        dice.shuffle(numbers)
        with import_path(folder, file).open("w", encoding="utf-8") as lines:
            for number in numbers:
                lines.write(json.dumps(make_item(number, sum(sizes), dice)) + "\n")


def initialise(uri: str, folder: str) -> None:
    """Create an Archive without items."""
    archive = archive_of(make_app(uri, Path(folder)))
    archive.init()
    archive.database.close()


def add_more_aliases(uri: str, folder: str) -> None:
    """Add an alias to each item that :func:`grow` added."""
    archive = archive_of(make_app(uri, Path(folder)))
    add_aliases(archive)
    archive.database.close()


def grow(uri: str, folder: str, size: int) -> None:
    """Add items until the Archive of :func:`prepare` has a number of items."""
    archive = archive_of(make_app(uri, Path(folder)))
    add_items(archive, size - ITEMS)
    archive.database.close()


def edition_of(length: int, number: int) -> str:
    """Return the repository name of an edition."""
    return rep_of(number, f"sid.inpe.br/editions{length}")


def import_editions(uri: str, folder: str, length: int) -> None:
    """Import a number of editions of one item."""
    names = [edition_of(length, number) for number in range(length)]
    records = [
        {"rep": name, "files": [{"path": "report.pdf"}], "next_edition": following}
        for name, following in itertools.pairwise(names)
    ]
    archive = archive_of(make_app(uri, Path(folder)))
    import_records(archive, [*records, {"rep": names[-1], "files": [{"path": "report.pdf"}]}])
    archive.database.close()


def last_edition(uri: str, folder: str, length: str) -> Work:
    """Prepare urlRequests about the last edition of the first one."""
    first = edition_of(int(length), 0)
    app = make_app(uri, Path(folder))
    return url_list_of(app, first, "&parsedibiurl.verblist=GetLastEdition")

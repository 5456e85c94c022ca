"""The work of this package that is measured, with its public names alone."""

from __future__ import annotations

import json
import random
from array import array
from functools import partial
from pathlib import Path
from typing import Any

from flask import Flask

from flask_ibi_archive import Archive, IBIArchive

from .worker import Job, Work, get, repeated

SERVICE = "sid.inpe.br/mtc-m18@80/2008/03.17.15.17"
#: The items of a small Archive.
ITEMS = 1000
#: The items of a group, see :func:`record_of`, and the first one of the group that is measured.
GROUP = 6
MEASURED = 100 * GROUP
URL_REQUEST = (
    "servicesubject=urlRequest&clientinformation.ipaddress=150.163.2.175&parsedibiurl.ibi="
)
TWO_VERBS = "&parsedibiurl.verblist=GetLastEdition%20GetMetadata(oai_dc)"
#: So fine that no request waits for its date.
GRANULARITY = "0.000001"
GRAPHEMES = str.maketrans("0123456789abcdef", "23456789ABCDEFGH")
DEPOSIT = {"title": "Annual report", "creators": ["Silva, Ana"]}


# --- an Archive with items ------------------------------------------------------------------------


def create_archive(uri: str, folder: str, **config: Any) -> tuple[Flask, Archive]:
    """Return an app with an Archive without items, and the Archive."""
    app = Flask("benchmark", instance_path=folder)
    app.config.from_mapping(
        SECRET_KEY="a secret for benchmarks",
        IBI_DATABASE_URI=uri,
        IBI_ARCHIVE_ADDRESS="mtc-m16c.sid.inpe.br",
        IBI_ARCHIVE_SERVICE_IBI=SERVICE,
        IBI_ARCHIVE_IP="150.163.34.243",
        IBI_GRANULARITY=GRANULARITY,
        **config,
    )
    ibi = IBIArchive(app)
    run(app, "ibi", "init")
    with app.app_context():
        return app, ibi.archive


def create_library(uri: str, folder: str, items: int = ITEMS, **config: Any) -> Flask:
    """Return an app with an Archive that has so many items."""
    app, _ = create_archive(uri, folder, **config)
    run(app, "ibi", "import", write_records(Path(folder), 0, items))
    return app


def run(app: Flask, *words: str, text: str = "") -> None:
    """Run a command of ``flask`` with a text as its standard input."""
    result = app.test_cli_runner().invoke(args=words, input=text)
    if result.exit_code:
        raise SystemExit(f"flask {' '.join(words)}: {result.output}")


def rep_of(number: int) -> str:
    """Return the repository name of an item."""
    day, second = divmod(number, 86400)
    time = f"{second // 3600:02}.{second // 60 % 60:02}.{second % 60:02}"
    return f"sid.inpe.br/mtc-m18@80/2009/07.{day + 1:02}.{time}"


def ibip_of(number: int) -> str:
    """Return the IBIp of an item."""
    return "8JMKD3MGP8W/3" + f"{number:06x}".translate(GRAPHEMES)


def record_of(number: int) -> dict[str, Any]:
    """Return the record of an item; six form a group that refer to each other.

    They are an item with a translation and with metadata that are an item of their own, two former
    editions of it, and an item without relations.
    """
    place = number % GROUP
    item, translation, metadata, former = (rep_of(number - place + other) for other in range(4))
    record: dict[str, Any] = {
        "rep": rep_of(number),
        "ibip": ibip_of(number),
        "files": [{"path": f"report {number}.pdf"}, {"path": "data/table.csv"}],
        "metadata": {"dc": dublin_core(number)},
    }
    if place == 0:
        record |= {"language": "en", "translations": {"pt": translation}}
        record["metadata"] = {"ibi": metadata}
    elif place == 1:
        record["language"] = "pt"
    elif place == 2:
        del record["metadata"]
        formats = {"oai_dc": "http://archive.example.org/oai_dc"}
        record |= {"content_type": "Metadata", "formats": formats}
    elif place in (3, 4):
        record["next_edition"] = item if place == 3 else former
    return record


def dublin_core(number: int) -> dict[str, list[str]]:
    """Return a description."""
    chance = random.Random(number)
    words = [f"word{chance.randrange(10**6)}" for _ in range(30)]
    return {
        "title": [f"Title {number}"],
        "creator": ["Author, A.", "Author, B."],
        "description": [" ".join(words)],
    }


def write_records(folder: Path, begin: int, end: int) -> str:
    """Write the records of some items to a file in random order, and return its path."""
    # no list of numbers, because the memory of this process is measured
    numbers = array("L", range(begin, end))
    random.Random(3).shuffle(numbers)
    path = folder / f"items{begin}.jsonl"
    with path.open("w", encoding="utf-8") as file:
        file.writelines(json.dumps(record_of(number)) + "\n" for number in numbers)
    return str(path)


# --- reading --------------------------------------------------------------------------------------


def ask(app: Flask, ibi: str, rest: str = "") -> Work:
    """Return the work that consists of urlRequests about an item that exists."""
    request = partial(get, app.wsgi_app, f"/{SERVICE}", f"{URL_REQUEST}{ibi}{rest}")
    answer = request()
    assert "state" in answer, answer
    return repeated(request)


def url_request(uri: str, folder: str, items: str) -> Work:
    """Prepare urlRequests about one of so many items."""
    return ask(create_library(uri, folder, int(items)), rep_of(MEASURED))


def two_verbs(uri: str, folder: str) -> Work:
    """Prepare urlRequests about the metadata of the last of three editions."""
    return ask(create_library(uri, folder), rep_of(MEASURED + 4), TWO_VERBS)


def unfiltered_list(uri: str, folder: str) -> Work:
    """Prepare urlRequests that are answered with all pairs."""
    app = create_library(uri, folder, IBI_FILTER_URL_LIST=False)
    return ask(app, rep_of(MEASURED))


def landing_page(uri: str, folder: str) -> Work:
    """Prepare requests for the landing page of an item."""
    return repeated(request_of_page(uri, folder))


def request_of_page(uri: str, folder: str) -> partial[str]:
    """Return a function that returns the HTML of a landing page."""
    app = create_library(uri, folder)
    return partial(get, app.wsgi_app, f"/col/{rep_of(MEASURED + 3)}/")


def harvest(uri: str, folder: str, items: str) -> Work:
    """Prepare to read the list of all items by OAI-PMH, a part at a time."""
    app = create_library(uri, folder, int(items))
    first = query = "verb=ListRecords&metadataPrefix=oai_dc"

    def read_part() -> None:
        nonlocal query
        answer = get(app.wsgi_app, "/ibi/oai", query)
        assert "<record>" in answer, answer
        token = answer.partition("<resumptionToken")[2].partition(">")[2].partition("<")[0]
        query = f"verb=ListRecords&resumptionToken={token}" if token else first

    # once through, because the first requests number all changes
    read_part()
    while query != first:
        read_part()
    return repeated(read_part)


# --- writing --------------------------------------------------------------------------------------


def minting(uri: str, folder: str) -> Work:
    """Prepare to mint single identifiers."""
    return repeated(create_archive(uri, folder)[1].mint)


def deposits(uri: str, folder: str) -> Work:
    """Prepare deposits without files."""
    _, archive = create_archive(uri, folder)
    return repeated(lambda: archive.deposit(**DEPOSIT))


def imports(uri: str, folder: str) -> Work:
    """Prepare to import new items, with the command."""
    app, _ = create_archive(uri, folder)
    end = 0

    def work(count: int) -> Job:
        nonlocal end
        begin, end = end, end + count
        path = write_records(Path(folder), begin, end)
        return lambda: run(app, "ibi", "import", path)

    return work

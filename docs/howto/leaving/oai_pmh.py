"""Convert what any system offers by OAI-PMH (oai_dc) to the import format.

    python3 oai_pmh.py http://old.example.org/oai/request \\
        'hdl:{}' 'http://old.example.org/handle/{}'

The texts after the address are the names and addresses of an item; {} is the end of its OAI
identifier. With --deleted before the address, only withdrawn items are converted.
"""

import re
import sys
from pathlib import Path
from urllib.error import HTTPError
from urllib.parse import unquote, urlencode
from urllib.request import urlopen
from xml.etree import ElementTree

from leaving import DOI, language, text, write

OAI = "{http://www.openarchives.org/OAI/2.0/}"
DC = "{http://purl.org/dc/elements/1.1/}"
LANG = "{http://www.w3.org/XML/1998/namespace}lang"
#: Addresses of files: those that end like a file name, and galleys of OJS.
FILE = re.compile(r"https?://\S+/([^/]+)/([^/]+\.(?:pdf|zip|csv|docx|xlsx|pptx|txt))")
GALLEY = re.compile(r"(https?://\S+/article)/view/\d+/(\d+)")


def main(*arguments):
    """Convert all items, or the withdrawn ones."""
    only_deleted = arguments[0] == "--deleted"
    address, *templates = arguments[only_deleted:]
    records = (convert(record, templates, only_deleted) for record in harvest(address))
    write(filter(None, records), "deleted" if only_deleted else "harvested")


def harvest(address):
    """Yield all records, page by page."""
    arguments = {"verb": "ListRecords", "metadataPrefix": "oai_dc"}
    while arguments:
        with urlopen(f"{address}?{urlencode(arguments)}") as answer:
            root = ElementTree.parse(answer).getroot()
        yield from root.iter(f"{OAI}record")
        token = root.findtext(f".//{OAI}resumptionToken")
        arguments = {"verb": "ListRecords", "resumptionToken": token} if token else {}


def convert(record, templates, only_deleted):
    """Return the record of an item, and store its files in the folder files."""
    header = record.find(f"{OAI}header")
    number = header.findtext(f"{OAI}identifier").split(":", 2)[2].removeprefix("article/")
    same_as = [template.format(number) for template in templates]
    if header.get("status") == "deleted":
        day, _, time = header.findtext(f"{OAI}datestamp").partition("T")
        tombstone = {"reason": "The item was withdrawn in the former repository."}
        deleted = {"state": "Deleted", "timestamp": f"{day}T{time or '00:00:00Z'}"}
        return {"same_as": same_as, "tombstone": tombstone} | deleted, {}
    if only_deleted:
        return None
    dc, paths, folder = {}, {}, Path("files", "harvested", number)
    for element in record.find(f"{OAI}metadata")[0]:
        name, value = element.tag.removeprefix(DC), (element.text or "").strip()
        if name in ("identifier", "relation") and (doi := DOI.fullmatch(value)):
            same_as.append(f"doi:{doi[1]}")
        elif name in ("identifier", "relation") and (FILE.fullmatch(value) or GALLEY.match(value)):
            same_as.append(value)
            if path := fetch(value, folder):
                paths[value] = path
        elif value and value not in same_as and not value.endswith(f"/{number}"):
            dc.setdefault(name, []).append(text(value, element.get(LANG)))
    files = [{"path": path, "source": (folder / path).as_posix()} for path in paths.values()]
    converted = {"same_as": same_as, "metadata": {"dc": dc}, "files": files}
    spoken = [one for one in dc.get("language", []) if isinstance(one, str) and language(one)]
    return converted | ({"language": language(spoken[0])} if spoken else {}), paths


def fetch(address, folder):
    """Store the file at an address, and return its path; None if it is not public."""
    galley = GALLEY.match(address)
    try:
        with urlopen(address.replace("/article/view/", "/article/download/")) as answer:
            path = (
                f"{galley[2]}/{answer.headers.get_filename() or 'file'}"
                if galley
                else unquote("/".join(FILE.fullmatch(address).groups()))
            )
            content = answer.read()
    except HTTPError as error:
        print(f"{address}: {error}", file=sys.stderr)
        return None
    (folder / path).parent.mkdir(parents=True, exist_ok=True)
    (folder / path).write_bytes(content)
    return path


if __name__ == "__main__":
    main(*sys.argv[1:])

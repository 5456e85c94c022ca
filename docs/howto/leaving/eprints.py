"""Convert an EPrints export (EP3 XML) to the import format.

python3 eprints.py archive.xml deletion.xml
"""

import re
import sys
from base64 import b64decode
from pathlib import Path
from urllib.parse import quote
from urllib.request import urlopen
from xml.etree import ElementTree

from leaving import DOI, access, language, text, write

#: Elements of Dublin Core, and the paths of their values in an eprint.
FIELDS = {
    "title": ["title"],
    "creator": ["creators/item", "corp_creators/item"],
    "contributor": ["contributors/item", "editors/item"],
    "description": ["abstract"],
    "publisher": ["publisher", "institution"],
    "date": ["date"],
    "type": ["thesis_type", "type"],
    "identifier": ["isbn", "issn"],
    "source": ["publication"],
    "relation": ["official_url"],
}


def main(*exports):
    """Convert the eprints of several files."""
    write((convert(eprint) for path in exports for eprint in read(path)), "eprints")


def read(path):
    """Yield each eprint of a file; only one of them is in memory."""
    for _, element in ElementTree.iterparse(path):
        element.tag = element.tag.rpartition("}")[2]
        if element.tag == "eprint":
            yield element
            element.clear()


def words(element):
    """Return "Family, Given" for a person, and the text of another element."""
    parts = [element.findtext(f"name/{part}") for part in ("family", "given")]
    return ", ".join(filter(None, parts)) or element.text or ""


def convert(eprint):
    """Return the record of an eprint, and store its files in the folder files."""
    number, old = eprint.findtext("eprintid"), eprint.get("id").partition("/id/eprint/")[0]
    places = [f"{old}/{number}", f"{old}/id/eprint/{number}"]
    same_as = [place + end for place in places for end in ("/", "")]
    if doi := DOI.fullmatch(eprint.findtext("id_number", "")):
        same_as.append(f"doi:{doi[1]}")
    dc = {}
    for element, paths in FIELDS.items():
        found = [text(words(one)) for path in paths for one in eprint.iterfind(path)]
        dc |= {element: list(filter(None, found))} if any(found) else {}
    if keywords := eprint.findtext("keywords"):
        dc["subject"] = [text(word) for word in re.split("[,;]", keywords) if word.strip()]
    record = {"same_as": same_as, "metadata": {"dc": dc}}
    if eprint.findtext("eprint_status") == "deletion":
        removed = eprint.findtext("status_changed").replace(" ", "T") + "Z"
        tombstone = {"reason": "The item was withdrawn in EPrints."}
        return record | {"state": "Deleted", "timestamp": removed, "tombstone": tombstone}, {}
    files, rules, paths = [], [], {}
    for document in eprint.iterfind("documents/document"):
        is_public = document.findtext("security") == "public"
        rules.append("" if is_public else document.findtext("date_embargo"))
        if spoken := language(document.findtext("language")):
            record.setdefault("language", spoken)
        for file in document.iterfind("files/file"):
            path = f"{document.findtext('pos')}/{file.findtext('filename')}"
            source = Path("files", "eprints", number, path)
            source.parent.mkdir(parents=True, exist_ok=True)
            data = file.findtext("data")
            source.write_bytes(b64decode(data) if data else urlopen(file.findtext("url")).read())
            files.append({"path": path, "source": source.as_posix()})
            paths |= {f"{place}/{quote(path)}": path for place in places}
    return record | {"same_as": [*same_as, *paths], "files": files} | access(rules), paths


if __name__ == "__main__":
    main(*sys.argv[1:])

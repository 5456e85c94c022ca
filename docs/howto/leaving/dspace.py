"""Convert a DSpace export in Simple Archive Format to the import format.

python3 dspace.py http://old.example.org saf items.csv
"""

import csv
import sys
from collections import defaultdict
from pathlib import Path
from urllib.parse import quote
from xml.etree import ElementTree

from leaving import DOI, access, language, text, write

ELEMENTS = {
    *("contributor", "coverage", "creator", "date", "description", "format", "identifier"),
    *("language", "publisher", "relation", "rights", "source", "subject", "title", "type"),
}
#: Where fields belong in Dublin Core; None leaves a field out. Other fields of the schema dc keep
#: their element, and those of other schemas are left out. Provenance names people of the staff.
FIELDS = {
    "dc.contributor.author": "creator",
    "dc.date.accessioned": None,
    "dc.date.available": None,
    "dc.description.provenance": None,
    "dc.format.extent": None,
    "dc.format.mimetype": None,
    "thesis.degree.grantor": "contributor",
}


def main(old, folder, table):
    """Convert the items in a folder.

    :param old: the address of DSpace.
    :param table: the result of items.sql.
    """
    rows = defaultdict(list)
    with Path(table).open(encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file):
            rows[row["handle"]].append(row)
    # an item that belongs to several collections is exported with each of them
    items = {path.read_text().strip(): path.parent for path in sorted(Path(folder).rglob("handle"))}
    write((convert(old, *item, rows[item[0]]) for item in items.items()), "dspace")


def convert(old, handle, folder, rows):
    """Return the record of an item in a folder, with its rows in the table."""
    if not rows:
        raise SystemExit(f"the table has no row for the Handle {handle}")
    same_as = [f"hdl:{handle}", f"{old}/handle/{handle}", f"{old}/items/{rows[0]['item']}"]
    dc = defaultdict(list)
    for path in [folder / "dublin_core.xml", *sorted(folder.glob("metadata_*.xml"))]:
        root = ElementTree.parse(path).getroot()
        for field in root:
            name = f"{root.get('schema')}.{field.get('element')}.{field.get('qualifier')}"
            name, value = name.removesuffix(".none"), field.text or ""
            is_identifier = name.startswith("dc.identifier")
            if is_identifier and (doi := DOI.fullmatch(value)):
                same_as.append(f"doi:{doi[1]}")
                continue
            if is_identifier and value.endswith(f"/{handle}"):
                continue
            element = FIELDS.get(name, name.split(".")[1] if name.startswith("dc.") else None)
            if element in ELEMENTS:
                code = None if element == "language" else field.get("language")
                dc[element].append(text(value, code))
    files, rules, paths = [], [], {}
    for line in (folder / "contents").read_text(encoding="utf-8").splitlines():
        name, *facts = line.split("\t")
        if "bundle:ORIGINAL" in [fact.strip() for fact in facts]:
            files.append({"path": name, "source": (folder / name).as_posix()})
            # a second file with the same name is exported with a number before it
            named = [row for row in rows if row["name"] in (name, name.partition("_")[2])]
            if not named:
                raise SystemExit(f"{folder / name}: the table has no row for this file")
            rows.remove(row := named[0])
            rules.append(row["start_date"] if row["public"] == "t" else None)
            address, number = f"{old}/bitstream/handle/{handle}/{quote(name)}", row["sequence"]
            for end in ("", f"?sequence={number}", f"?sequence={number}&isAllowed=y"):
                paths.setdefault(address + end, name)
            paths[f"{old}/bitstream/{handle}/{number}/{quote(name)}"] = name
            paths[f"{old}/bitstreams/{row['bitstream']}/download"] = name
    record = {"same_as": [*same_as, *paths], "metadata": {"dc": dc}, "files": files}
    spoken = [language(code) for code in dc.get("language", []) if language(code)]
    return record | access(rules) | ({"language": spoken[0]} if spoken else {}), paths


if __name__ == "__main__":
    main(*sys.argv[1:])

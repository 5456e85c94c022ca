"""What the conversions have in common: languages, access, and the identifiers of the items."""

import csv
import json
import re
import subprocess
from itertools import islice
from pathlib import Path
from urllib.parse import quote

#: Who may read files that the old system did not show to everyone: networks of your institution.
NETWORKS = ["192.0.2.0/24"]
#: Which item has which identifier. A repeated conversion reads and extends this file: keep it.
IDENTIFIERS = Path("identifiers.csv")
#: A DOI in the usual spellings.
DOI = re.compile(r"(?:https?://(?:dx\.)?doi\.org/|doi: ?)?(10\.\d{4,}/\S+)", re.IGNORECASE)
#: Codes of three letters that old systems use for languages. Add yours.
LANGUAGES = {"eng": "en", "fra": "fr", "deu": "de", "ita": "it", "por": "pt", "spa": "es"}


def language(code):
    """Return a language such as pt or pt-BR for a code of an old system, or None."""
    code = LANGUAGES.get(code, code or "").replace("_", "-")
    return code if re.fullmatch("[a-z]{2}(-[A-Z]{2})?", code) else None


def text(value, code=None):
    """Return a value of Dublin Core, with its language if that is known."""
    value, code = " ".join(value.split()), language(code)
    return {"value": value, "lang": code} if code else value


def access(rules):
    """Return the fields that say who may read the files of an item.

    :param rules: for each file the first day on which everyone may read it, "" if everyone may
        now, and None if only the institution may.
    """
    if None in rules:
        return {"access": {"networks": NETWORKS}}
    return {"embargo": max(rules)} if any(rules) else {}


def write(records, name):
    """Write NAME.jsonl for ``flask ibi import``, and NAME.csv with the old and new addresses.

    :param records: pairs: a record without identifiers, and the old addresses of its files with
        their paths. The first text in ``same_as`` names the item in the file of identifiers.
    """
    IDENTIFIERS.touch()
    with IDENTIFIERS.open(encoding="utf-8", newline="") as table:
        known = {old: ibi for old, *ibi in csv.reader(table)}
    records = iter(records)
    with (
        Path(f"{name}.jsonl").open("w", encoding="utf-8") as items,
        Path(f"{name}.csv").open("w", encoding="utf-8", newline="") as table,
    ):
        addresses = csv.writer(table, lineterminator="\n")
        while batch := list(islice(records, 5000)):
            mint(known, [one["same_as"][0] for one, _ in batch if one["same_as"][0] not in known])
            for record, paths in batch:
                old, same_as = record["same_as"][0], list(dict.fromkeys(record["same_as"]))
                rep, ibip = known[old]
                line = {"rep": rep, "ibip": ibip, "key": old, **record, "same_as": same_as}
                items.write(json.dumps(line, ensure_ascii=False) + "\n")
                addresses.writerows([one, place(ibip, paths.get(one))] for one in same_as)


def place(ibip, path):
    """Return the end of a persistent URL, that of an item or of one of its files."""
    return f"{ibip}/{quote(path)}" if path else ibip


def mint(known, names):
    """Give each name an identifier, and store all of them before they are used."""
    if names:
        command = ["flask", "ibi", "mint", "-n", str(len(names))]
        done = subprocess.run(command, check=False, stdout=subprocess.PIPE, text=True)
        if done.returncode:
            raise SystemExit("no identifiers were minted: run this in the folder of your app")
        minted = zip(names, done.stdout.splitlines(), strict=True)
        rows = [[old, *line.split("\t")] for old, line in minted]
        with IDENTIFIERS.open("a", encoding="utf-8", newline="") as table:
            csv.writer(table, lineterminator="\n").writerows(rows)
        known.update((old, ibi) for old, *ibi in rows)

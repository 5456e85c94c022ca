"""The database accepts the same identifiers as ``parse_identifier``, in canonical case."""

from __future__ import annotations

import random
from collections.abc import Iterator
from itertools import product
from pathlib import Path

import pytest
from sqlalchemy import inspect, text
from support.databases import new_database
from support.vectors import load

from flask_ibi_archive.core.identifiers.grammar import Form, match_identifier
from flask_ibi_archive.server.database.database import Database

VECTORS = load("identifiers.json")
#: Letters that lower(), upper(), isdigit() or a collation might treat like ASCII letters.
FOREIGN = "ıİſK٠０é\n\r\t ª²\x7f"
ALPHABET = "abzABZIOVWX0123589-./@_~:%" + FOREIGN


def known_texts() -> Iterator[str]:
    """Yield the identifiers and the invalid texts in the test vectors."""
    for pair in VECTORS["same_item"]:
        yield from pair
    for case in VECTORS["generated"]:
        yield from (case["rep"], case["ibip"])
    for kind in ("valid_rep", "valid_ibip", "legacy", "invalid"):
        yield from VECTORS[kind]


def unusual_texts() -> Iterator[str]:
    """Yield valid and invalid dates, lengths around the limit of 255, hosts and ports."""
    years = ["0000", "1900", "2000", "2023"]
    for year, month, day in product(years, range(14), range(33)):
        yield f"br/inpe/{year}/{month:02}.{day:02}.00.00"
    seconds = ("", ".00", ".59", ".60")
    for hour, minute, second in product((0, 9, 19, 23, 24, 30), (0, 59, 60), seconds):
        yield f"br/inpe/2024/02.29.{hour:02}.{minute:02}{second}"
    long = ["br/inpe/2009/02.16.17.46.00.", ""], ["8JMKD3MGP8W/", ""], ["Z/", ""]
    for length in (253, 254, 255, 256, 257, 400):
        for start, end in (*long, ["", ".br/a/2009/02.16.17.46"]):
            yield start + "2" * (length - len(start) - len(end)) + end
    words = ("a", "9", "a9", "9a", "-", "a-", "-a", "a--b", "", ".", "a.b", "a@b", "9.", "a_b")
    for first, second, third in product(words, repeat=3):
        yield f"{first}.{second}/{third}/2009/02.16.17.46"
    for port in ".", "@", ".8", "@8", ".8080", "@a", ".8.8", "@8@8", "@8.8", ".-8", "-8", "@８":
        yield f"sid.inpe.br/mtc-m18{port}/2009/02.16.17.46"


def mutate(texts: list[str], count: int) -> Iterator[str]:
    """Yield random texts that differ from known texts in one to three places."""
    dice = random.Random(20090216)
    for _ in range(count):
        letters = list(dice.choice(texts))
        for _ in range(dice.choice((1, 1, 1, 2, 3))):
            place = dice.randrange(len(letters) + 1)
            # an insertion, a replacement or a deletion
            letters[place : place + dice.randrange(2)] = dice.choices(ALPHABET, k=dice.randrange(2))
        yield "".join(letters)


def list_candidates() -> list[str]:
    """Return valid and invalid texts."""
    known = list(dict.fromkeys(known_texts()))
    cases = [change(text) for text in known for change in (str.lower, str.upper)]
    return list(dict.fromkeys([*known, *unusual_texts(), *mutate(known, 3000), *cases]))


@pytest.mark.postgresql
def test_the_database_accepts_exactly_the_canonical_identifiers(
    backend: str, tmp_path: Path
) -> None:
    candidates, forms = list_candidates(), [form.value for form in Form]
    rows = [{"text": candidate, "form": form} for candidate in candidates for form in forms]
    found = ((candidate, match_identifier(candidate)) for candidate in candidates)
    expected = {
        (identifier.text, identifier.form.value)
        for candidate, identifier in found
        if identifier is not None and identifier.text == candidate
    }
    assert {form for _, form in expected} == set(forms)
    with new_database(backend, tmp_path, ready=True) as uri:
        database = Database(uri)
        with database.writing() as connection:
            [condition] = [
                check["sqltext"]
                for check in inspect(connection).get_check_constraints("ibi_identifier")
                if check["name"] == "ck_ibi_identifier_grammar"
            ]
            connection.execute(text("CREATE TEMPORARY TABLE candidate (text TEXT, form TEXT)"))
            connection.execute(text("INSERT INTO candidate VALUES (:text, :form)"), rows)
            if backend == "postgresql":
                condition = condition.replace("%", "%%")
            found_rows = connection.exec_driver_sql(f"SELECT * FROM candidate WHERE {condition}")
            accepted = {(row.text, row.form) for row in found_rows}
        database.close()
    assert sorted(accepted - expected) == []
    assert sorted(expected - accepted) == []

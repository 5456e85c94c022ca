"""The readers of works: what a row or an entry becomes in the JSON of a record."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flask_ibi_archive.core.records.csl_reader import read_csl_json
from flask_ibi_archive.core.records.readers import (
    FIELDS,
    find_column,
    read_csv,
    read_json_lines,
)
from flask_ibi_archive.core.records.values import FieldError


def test_each_name_of_a_column_belongs_to_one_field() -> None:
    for name, field in FIELDS.items():
        assert {find_column(word) for word in field.words} == {(name, None)}


@pytest.mark.parametrize("unit", [" ", "[pt] ", "[pt-a", "\u0301\u0327"])
def test_the_time_of_a_long_name_of_a_column_grows_linearly(unit: str) -> None:
    def measure(length: int) -> float:
        begun = time.process_time()
        assert find_column(f"título{unit * (length // len(unit))}x") is None
        return time.process_time() - begun

    # quadratic time would be 256 times as long
    assert measure(64_000) < 100 * max(measure(4_000), 0.0001)


def test_columns_are_named_and_left_out_by_options() -> None:
    lines = ["Obra;Quem;Cota\n", "T;Silva, Ana | Lima, B.;12\n"]
    columns = {"Obra": "title[pt]", "Quem": "creators"}
    [entry] = read_csv(lines, columns, separator="|", ignored=["Cota"]).entries
    assert entry.data["metadata"]["work"] == {
        "titles": [{"value": "T", "lang": "pt"}],
        "creators": ["Silva, Ana", "Lima, B."],
    }


# --- CSL-JSON and JSON Lines ---------------------------------------------------------------------


def test_csl_json_is_a_list_or_one_item() -> None:
    item = {"id": "a", "type": "book", "title": "T"}
    work = {"metadata": {"work": {"type": "book", "titles": ["T"]}}}
    for text in (json.dumps(item), json.dumps([item]), f" [\n{json.dumps(item)} ]\n"):
        assert [(one.key, one.data) for one in read_csl_json(text).entries] == [("a", work)]
    assert [*read_csl_json("[]").entries] == []
    assert len([*read_csl_json(json.dumps([item] * 3)).entries]) == 3


def test_half_a_surrogate_in_csl_is_named() -> None:
    text = r'[{"author": [{"family": "\ud800"}]}, {"id": "\udc00"}, {"a\ud800": 1}, {"id": "k"}]'
    entries = [*read_csl_json(text).entries]
    errors = [error for entry in entries for error in entry.errors]
    assert [error.field for error in errors] == ["author[0].family", "id", r"a\ud800"]
    assert {error.reason for error in errors} == {
        "the text contains half of a surrogate pair, which is not a character"
    }
    assert len(entries) == 4
    deep = f'[{{"id": "k", "note": {"[" * 101}{"]" * 101}}}]'
    [entry] = read_csl_json(deep).entries
    assert "nested too deeply" in entry.errors[0].reason


def test_json_lines_without_identifiers() -> None:
    lines = [b'\xef\xbb\xbf{"language": "pt"}\n', b"\n", b"{\n", b'{"rep": "x"}\n', b"[]"]
    entries = [*read_json_lines(lines).entries]
    assert [entry.place for entry in entries] == ["line 1", "line 3", "line 4", "line 5"]
    assert [[error.field for error in entry.errors] for entry in entries] == [
        [], [""], ["rep"], [""],
    ]  # fmt: skip
    assert entries[0].data == {"language": "pt"}


VARIABLES = st.sampled_from(
    ["id", "type", "title", "author", "family", "literal", "issued", "date-parts", "raw", "custom"]
)
#: Any value, also of a type that CSL-JSON does not allow.
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=3),
    lambda value: st.lists(value, max_size=2) | st.dictionaries(VARIABLES, value, max_size=3),
    max_leaves=8,
)


@given(st.lists(st.dictionaries(VARIABLES, VALUES, max_size=4), max_size=2))
def test_no_value_of_csl_makes_the_reader_fail(items: list[Any]) -> None:
    works = read_csl_json(json.dumps(items))
    assert all(entry.errors or entry.data for entry in works.entries)


# --- all -----------------------------------------------------------------------------------------


@given(st.text())
def test_no_text_makes_a_reader_fail(text: str) -> None:
    for read in (
        lambda: read_csv(text.splitlines(keepends=True)),
        lambda: read_csv([f"title\t{text}\n", *text.splitlines(keepends=True)]),
        lambda: read_csl_json(text),
        lambda: read_csl_json(f"[{text}"),
        lambda: read_json_lines(text.encode(errors="replace").splitlines()),
    ):
        try:
            works = read()
        except FieldError:
            continue
        assert all(entry.place for entry in works.entries)

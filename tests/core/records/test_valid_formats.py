"""Every XML format of random works is valid by its official schema, and so is DataCite's JSON.

``IBI_TEST_WORKS=100000 pytest -m slow tests/core/records/test_valid_formats.py`` tests as many
works as the variable says.
"""

from __future__ import annotations

import json
import os

import pytest
from hypothesis import given
from lxml import etree
from support.metadata import SCHEMA_FILES, is_valid_json, load_schema, works
from support.random_works import described_works, make_random_work

from flask_ibi_archive.core.records.formats import BUILT_IN
from flask_ibi_archive.core.records.work import Work

SCHEMAS = {name: load_schema(name) for name in SCHEMA_FILES}
#: The number of works of the long run.
WORKS = int(os.environ.get("IBI_TEST_WORKS", "2000"))


def check_formats(work: Work) -> None:
    for format in BUILT_IN:
        if format.is_xml or format.name == "datacite-json":
            text = format.write(work)
            assert isinstance(text, str)
            if format.is_xml:
                SCHEMAS[format.name].assertValid(etree.fromstring(text.encode()))
            else:
                assert is_valid_json(json.loads(text)), text


@given(works | described_works)
def test_every_format_of_any_work_is_valid(work: Work) -> None:
    check_formats(work)


@pytest.mark.slow
def test_every_format_of_very_many_works_is_valid() -> None:
    for seed in range(WORKS):
        try:
            check_formats(make_random_work(seed))
        except Exception as error:
            raise AssertionError(f"the work of seed {seed} is not valid: {error}") from error

"""The tables of ``vectors/tables``: what functions of the core return or refuse.

A table of a module has a sentence as its name. Its ``cases`` are lists of the arguments of a
function, each followed by what the function returns, or by a part of the message of its error. If
all cases have that in common, ``returns`` or ``says`` states it once.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import asdict, is_dataclass
from datetime import date, datetime
from enum import Enum
from fractions import Fraction
from importlib import import_module
from typing import Any

import msgspec
import pytest
from support.metadata import describe, make
from support.vectors import FOLDER, load

from flask_ibi_archive.core import registry_2008
from flask_ibi_archive.core.identifiers import dates, foreign, grammar, parse
from flask_ibi_archive.core.protocol import (
    catalogue_items,
    hosts,
    inclusion,
    languages,
    messages,
    relations,
    states,
    url_list,
)
from flask_ibi_archive.core.records import csl_reader, description, readers, record, values, work
from flask_ibi_archive.errors import IBIError

#: The packages of modules that the tables name.
PACKAGES = {
    **dict.fromkeys(("dates", "foreign", "grammar", "parse"), "identifiers"),
    **dict.fromkeys(("description", "formats", "record", "rich_text", "values"), "records"),
}
REQUESTS = {
    "inclusion": {
        "servicesubject": "inclusionRequest",
        "archiveaddress": "banon-pc2.dpi.inpe.br:8080",
        "archiveserviceibi": "dpi.inpe.br/banon/1999/01.09.22.14",
        "archiveip": "150.163.2.166",
        "archiveprotocol": "HTTP",
        "archiveplatformversion": "2014:11.09.02.16.15",
        "archiveadmemailaddress": "banon@dpi.inpe.br",
        "registrationkey": "1234567890-9876543210",
    },
    "url": {
        "servicesubject": "urlRequest",
        "parsedibiurl.ibi": "8JMKD3MGP7W/3EPGUE5",
        "clientinformation.ipaddress": "150.163.2.175",
    },
}
BOOK = {"type": "book"}


def change(request: str, name: str, value: str | None) -> list[tuple[str, str]]:
    """Return the pairs of a request with another value of a pair; None: without this pair."""
    pairs = {**REQUESTS[request], name: value}
    return [(name, value) for name, value in pairs.items() if value is not None]


def decode(text: str) -> tuple[object, ...]:
    decoded = parse.decode_identifier(parse.parse_identifier(text))
    assert decoded.date is not None
    return decoded.host, decoded.port, dates.format_date(decoded.date)


def find_language(header: str, available: str) -> str | None:
    ranges, offered = languages.parse_accept_language(header), available.split()
    [found] = {languages.find_language(ranges, tags) for tags in (offered, offered[::-1])}
    return found


def find_last_edition(later: list[str | None]) -> int | str | None:
    editions = [
        catalogue_items.CatalogueItem(number, state, None, None)
        for number, state in enumerate(["Original", *later])
    ]
    for number, edition in enumerate(editions[:-1]):
        edition.following = editions[number + 1]
    last = editions[0].last_edition()
    return None if last is None else last.key


def find_file(paths: list[str]) -> tuple[str, str | None] | None:
    files = {"a.txt": None, "b.txt": "http://b.br/b.txt"}
    scope = catalogue_items.Scope(paths=tuple(paths))
    item = catalogue_items.CatalogueItem(1, "Original", None, None, files=files, scope=scope)
    file = item.file()
    return None if file is None else (file.path, file.url)


def read_table(text: str) -> list[dict[str, Any]]:
    """Return the records of a table; raise the error of an entry, after the place of the entry."""
    entries = [*readers.read_csv(text.splitlines(keepends=True)).entries]
    for entry in entries:
        for error in entry.errors:
            raise ValueError(f"{entry.place}: {error}")
    return [entry.data for entry in entries]


def omit(name: str, fields: dict[str, Any]) -> dict[str, Any]:
    return {other: value for other, value in fields.items() if other != name}


def read_cell(column: str, value: str) -> dict[str, Any]:
    """Return the record of a table with a title and one more column, without the title."""
    [data] = read_table(f'title\t{column}\nT\t"{value}"\n')
    fields = data.pop("metadata")["work"]
    del fields["titles"][0]
    return {name: value for name, value in {**data, **fields}.items() if value}


def read_csl(text: str) -> list[dict[str, Any]]:
    entries = [*csl_reader.read_csl_json(text).entries]
    for entry in entries:
        for error in entry.errors:
            raise ValueError(f"{entry.place}: {error}")
    return [entry.data["metadata"]["work"] for entry in entries]


def read_doubts(entry: readers.Entry) -> tuple[dict[str, Any], list[str]]:
    """Return the fields of an entry but the title "T", and its warnings."""
    assert not entry.errors
    fields = omit("metadata", {**entry.data, **entry.data["metadata"]["work"]})
    stated = {name: value for name, value in fields.items() if value != ["T"]}
    return stated, list(map(str, entry.warnings))


def read_csl_doubts(item: dict[str, Any]) -> tuple[dict[str, Any], list[str]]:
    """Return the fields of an item of CSL, and its warnings; of a book, without the type."""
    fields, warnings = read_doubts(*csl_reader.read_csl_json(json.dumps(BOOK | item)).entries)
    return fields if "type" in item else omit("type", fields), warnings


def read_field(name: str, value: Any) -> Any:
    stated = description.parse_description("work", {"titles": ["Rain"], name: value})
    return record.format_description(stated)[name]


def read_licence(text: str) -> tuple[str | None, str | None]:
    url = description.parse_description("work", {"titles": ["T"], "licence": text}).licence_url
    assert url is not None
    return url, values.find_spdx(url)


def read_record(changes: dict[str, Any]) -> dict[str, Any]:
    """Return a record with other fields as JSON, without its rep."""
    stated = {"rep": "sid.inpe.br/mtc-m18@80/2009/07.01.00.00.00", **changes}
    if "rep" in changes:
        del stated["rep"]
    return omit("rep", record.format_record(record.parse_record(stated)))


def read_registration(arguments: dict[str, str] | list[list[str]]) -> tuple[str, dict[str, Any]]:
    pairs = arguments.items() if isinstance(arguments, dict) else arguments
    return registry_2008.parse_registry_request([(name, value) for name, value in pairs])


def read_type(texts: str | list[str]) -> tuple[str, str | None]:
    stated = [(text, None) for text in ([texts] if isinstance(texts, str) else texts)]
    found = work.read_dublin_core({"type": tuple(stated)})
    return found.type.value, found.type_text


#: What a table calls instead of a function of the core, because its arguments are no JSON.
CALLS: dict[str, Callable[..., Any]] = {
    "catalogue_items.find_file": find_file,
    "catalogue_items.find_last_edition": find_last_edition,
    "catalogue_items.may_read": lambda networks, embargo, address: catalogue_items.may_read(
        networks, embargo and date.fromisoformat(embargo), address, date(2026, 1, 1)
    ),
    "dates.find_granularity": lambda n, wait: dates.find_granularity(n, Fraction(wait)),
    "dates.format_date": lambda text: dates.format_date(Fraction(text)),
    "dates.format_decimal": lambda text: dates.format_decimal(Fraction(text)),
    "dates.write": lambda text: dates.format_date(dates.parse_decimal(text)),
    "description.derive_thesis": lambda: description.derive_dublin_core(
        description.parse_description("work", load("description.json"))
    ),
    "description.find_errors": lambda stated: [
        error.field for error in record.find_errors(json.dumps(stated))
    ],
    "description.read_field": read_field,
    "description.read_licence": read_licence,
    "description.read_name": lambda text: (
        *description.parse_name(text).parts,
        description.parse_name(text).direct,
    ),
    "foreign.find_url": lambda text: foreign.parse_foreign(text).url,
    "foreign.fold": lambda text: foreign.parse_foreign(text).folded,
    "foreign.have_one_digest": lambda texts: (
        len({foreign.parse_foreign(text).digest for text in texts}) == 1
    ),
    "grammar.build_ibip_suffix": lambda text: grammar.build_ibip_suffix(Fraction(text)),
    "grammar.build_repository_suffix": lambda text: grammar.build_repository_suffix(Fraction(text)),
    "grammar.encode_and_decode": lambda ip: grammar.decode_ibip_prefix(
        grammar.build_ibip_prefix(ip, 800)
    ),
    "hosts.allow_inner": lambda setting, host, ip: hosts.parse_inner_hosts([setting]).allow(
        host, hosts.ip_address(ip)
    ),
    "hosts.is_public_ip": lambda text: hosts.is_public_ip(hosts.ip_address(text)),
    "inclusion.parse_registration_answer": lambda subject, text: (
        inclusion.parse_registration_answer(subject, text.encode())
    ),
    "inclusion.read_pair": lambda name, value: inclusion.parse_registration_request(
        change("inclusion", name, value)
    ),
    "languages.find": find_language,
    "languages.is_first_choice": lambda header, tag: languages.is_first_choice(
        languages.parse_accept_language(header), tag
    ),
    "languages.read": lambda header: [
        [language.tag, language.quality] for language in languages.parse_accept_language(header)
    ],
    "messages.read_ibi": lambda text: (
        messages.parse_request([("servicesubject", "acknowledgment"), ("ibi", text)]).ibi
    ),
    "messages.read_pair": lambda name, value: messages.parse_request(change("url", name, value)),
    "parse.decode": decode,
    "parse.is_canonical": lambda text: parse.parse_identifier(text).text == text,
    "readers.read_cell": read_cell,
    "readers.read_csl": read_csl,
    "readers.read_csl_doubts": read_csl_doubts,
    "readers.read_csl_type": lambda kind, genre: read_csl_doubts({"type": kind, "genre": genre})[0][
        "type"
    ],
    "readers.read_csl_item": lambda item: omit("type", read_csl(json.dumps([BOOK | item]))[0]),
    "readers.read_row": lambda text: omit("titles", read_table(text)[0]["metadata"]["work"]),
    "readers.name_in_table": lambda path: readers.name_field(
        path, readers.read_csv(["title;Autores;Orientador;Banca;Volume;DOI;Processo\n"]).names
    ),
    "readers.read_row_doubts": lambda text: read_doubts(
        *readers.read_csv(text.splitlines(keepends=True)).entries
    ),
    "readers.read_table": read_table,
    "record.read": read_record,
    "record.read_line": lambda line: record.parse_record(record.read_json(line)),
    "registry_2008.read": read_registration,
    "relations.match": lambda pattern, text: relations.parse_relation_pattern(pattern).matches(
        relations.parse_relation(text)
    ),
    "relations.read_verbs": lambda text: (
        relations.parse_verb_list(text).relation.name,
        relations.parse_verb_list(text).file_list,
    ),
    "relations.write_again": lambda text: relations.parse_relation(text).name == text,
    "states.next_state": lambda state, event: states.next_state(
        state and states.State(state), states.Event[event], "a"
    ),
    "url_list.encode_path": lambda path: (
        url_list.ArchiveUrls("").file(catalogue_items.CatalogueItem(1, None, "a", None), path)
    ).removeprefix("/col/a/doc/"),
    "work.find": lambda fields, name: getattr(describe(**{"titles": ["T"], **fields}), name),
    "work.find_in_dublin_core": lambda elements, name: getattr(make(**elements), name),
    "work.read_type": read_type,
}


def find_call(name: str) -> Callable[..., Any]:
    if name in CALLS:
        return CALLS[name]
    module, _, function = name.rpartition(".")
    package = PACKAGES.get(module.partition(".")[0], "protocol")
    found: Callable[..., Any] = getattr(
        import_module(f"flask_ibi_archive.core.{package}.{module}"), function
    )
    return found


def to_json(value: Any) -> Any:
    """Return a result as JSON: identifiers as their texts, and objects without what is None."""
    if isinstance(value, (grammar.Identifier, foreign.ForeignIdentifier, Fraction)):
        return str(value)
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, (date, datetime)):
        return value.isoformat()
    if isinstance(value, (list, tuple)):
        return [to_json(member) for member in value]
    if is_dataclass(value) and not isinstance(value, type):
        value = asdict(value)
    elif isinstance(value, msgspec.Struct):
        value = msgspec.structs.asdict(value)
    if isinstance(value, dict):
        members = {name: to_json(member) for name, member in value.items()}
        return {name: member for name, member in members.items() if member not in (None, False, [])}
    return value


def list_tables() -> Iterator[Any]:
    for path in sorted(FOLDER.glob("tables/*.json")):
        for name, table in load(f"tables/{path.name}").items():
            marks = pytest.mark.rule(*table.get("rules", []))
            yield pytest.param(table, marks=marks, id=f"{path.stem}: {name}")


@pytest.mark.parametrize("table", [*list_tables()])
def test_a_table(table: dict[str, Any]) -> None:
    shared = [table[key] for key in ("returns", "says") if key in table]
    for case in table["cases"]:
        *arguments, expected = [*(case if isinstance(case, list) else [case]), *shared]
        if "call" in table:
            assert to_json(find_call(table["call"])(*arguments)) == expected, case
        else:
            check_refusal(table["refuse"], arguments, expected)


def check_refusal(name: str, arguments: list[Any], expected: str | list[str]) -> None:
    """Check that the message of an error is one line with a text or texts."""
    try:
        value = find_call(name)(*arguments)
    except (ValueError, IBIError) as error:
        message = str(error)
    else:
        pytest.fail(f"{name} returns {value!a} for {arguments!a}")
    for part in [expected] if isinstance(expected, str) else expected:
        assert part in message, arguments
    assert message.isprintable(), arguments
    assert "secret" not in message, arguments

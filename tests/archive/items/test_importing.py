"""Import: all lines or none; an error names file, line and field, and says what is expected."""

from __future__ import annotations

import hashlib
import itertools
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest
from flask import Flask
from sqlalchemy import select
from support.archives import (
    SERVICE,
    archive_of,
    close,
    import_file,
    import_records,
    make_app,
    paths_in_store,
)
from support.commands import ROOT, command
from support.databases import count_known_rows, new_database
from support.stores import ibip_of, make_store, moment_of, rep_of

from flask_ibi_archive.archive.archive import Archive
from flask_ibi_archive.archive.items import import_export as importing
from flask_ibi_archive.archive.items.files import FileStore
from flask_ibi_archive.archive.items.import_export import export_records
from flask_ibi_archive.archive.items.tables import metadata
from flask_ibi_archive.core.identifiers import parse_identifier
from flask_ibi_archive.core.protocol.messages import UrlRequest
from flask_ibi_archive.core.protocol.relations import parse_verb_list
from flask_ibi_archive.core.records.lines import format_line, format_record, parse_record
from flask_ibi_archive.errors import RecordError, StorageError

A, B, C, D, E = (rep_of(number) for number in range(5))
AI, BI, CI = (ibip_of(number) for number in range(3))
FAR = rep_of(1, "elsewhere.org/there")
WHEN = moment_of(3)
CONTENT = hashlib.sha256(b"content").hexdigest()
PROGRAM = Path(__file__).with_name("import_process.py")


def item(rep: str, **fields: Any) -> dict[str, Any]:
    """Return a record with a timestamp."""
    return {"rep": rep, "timestamp": WHEN, **fields}


def dump(archive: Archive) -> dict[str, Any]:
    """Return all rows, and the paths of all stored files."""
    with archive.database.reading() as connection:
        held: dict[str, Any] = {
            name: sorted(map(repr, connection.execute(select(table))))
            for name, table in metadata.tables.items()
        }
    held["files"] = list(map(str, paths_in_store(archive)))
    return held


def export(archive: Archive) -> list[dict[str, Any]]:
    """Return the records of an Archive's items as JSON objects."""
    found = export_records(archive.database, archive.served().id, archive.files_folder)
    return [format_record(record) for record in found]


def exported(archive: Archive, ibi: str) -> dict[str, Any]:
    """Return the record of one item."""
    return next(one for one in export(archive) if ibi in (one.get("rep"), one.get("ibip")))


def ask(archive: Archive, ibi: str, verbs: str = "") -> dict[str, Any]:
    """Return the URL list of an item, filtered by verbs."""
    return dict(
        archive.list_urls(
            UrlRequest(parse_identifier(ibi), ("192.0.2.1",), "", parse_verb_list(verbs))
        )
    )


# --- all or nothing ------------------------------------------------------------------------------

GOOD = json.dumps(item(A, next_edition=FAR, files=[{"path": "a.txt", "source": "a.txt"}]))

#: A wrong line, the field that the error names, and a part of the message.
WRONG_LINES = {
    "an unknown field inside": (
        item(B, files=[{"path": "a", "size": 1}]),
        "files[0].size",
        "path, url",
    ),
    "an identifier that a repair makes right": (
        {"rep": "sid.inpe.br/mtc-m18@80/2009/07.21.13.O3"},
        "rep",
        "did you mean sid.inpe.br/mtc-m18@80/2009/07.21.13.03?",
    ),
    "a copy of its own Archive's": (
        item(B, state="Copy", original_archive=SERVICE),
        "original_archive",
        "can't be in the same Archive",
    ),
    "an alias that stands in the file already": (item(B, aliases=[A]), "aliases", "earlier line"),
    "an item that is here": (item(C), "rep", f"an item of the Archive already has {C}"),
    "an item that is here, by its alias": (item(B, aliases=["abZc/1"]), "aliases", "already"),
    "the service item": (item(SERVICE), "rep", "can't be imported"),
    "another language than the group gives": (
        item(B, language="fr", translations={"en": C}),
        "translations",
        "the item lists a translation into en, but this translation states the language pt",
    ),
    "one item in two languages by two identifiers": (
        item(B, translations={"es": E, "en": ibip_of(4)}),
        "translations",
        "two different languages",
    ),
    "a second item of one language in the group": (
        item(B, language="pt", translations={"en": D}),
        "translations",
        "the group of translations has two items in the language pt",
    ),
    "a next edition that is another's": (
        item(B, next_edition=D),
        "next_edition",
        "already the next edition of another item",
    ),
    "itself as its next edition, by an alias": (
        item(B, aliases=["abZc/2"], next_edition="abZc/2"),
        "next_edition",
        "its own next edition",
    ),
    "itself as its metadata": (item(B, metadata={"ibi": B}), "metadata.ibi", "omit metadata"),
    "a target file that is none": (
        item(B, files=[{"path": "a"}], target_file="b"),
        "target_file",
        "not among the files",
    ),
    "a content that is not there": (
        item(B, files=[{"path": "a", "source": "missing.txt"}]),
        "files[0].source",
        "can't be read",
    ),
    "another checksum": (
        item(B, files=[{"path": "x"}, {"path": "a", "source": "a.txt", "sha256": "0" * 64}]),
        "files[1].sha256",
        f"has the checksum {CONTENT}",
    ),
    "half a surrogate": (item(B, files=[{"path": "a\ud800"}]), "files[0].path", "surrogate"),
    "a line end in a name": ({"a\nb": 1}, r"a\nb", "this field is unknown"),
    "a list": ([1], None, "not an object"),
    "bytes that are no UTF-8": (b'{"rep": "\xff"}', None, "byte 10 is not UTF-8"),
    "a field twice inside": (
        b'{"metadata": {"ibi": "a", "ibi": "b"}}',
        "ibi",
        "the field appears twice in one object",
    ),
    "too deep": (b"[" * 200_000, None, "nested too deeply"),
    "a moment with a fraction": (item(B, timestamp="2009-02-03T00:00:00.5Z"), "timestamp", "(UTC)"),
    "a removal without its moment": (
        {"rep": B, "state": "Deleted"},
        "timestamp",
        "time of its removal",
    ),
    "a state that is none": (item(B, state="original"), "state", "Original, Copy, Deleted"),
    "a copy that names no Archive": (
        item(B, state="Copy"),
        "original_archive",
        "the Archive of its Original",
    ),
    "an Original that names an Archive": (
        item(B, original_archive=FAR),
        "original_archive",
        "only a Copy",
    ),
    "its own language given to another": (
        item(B, language="pt", translations={"pt": FAR}),
        "translations.pt",
        "this is the language of the item itself; use the identifier of the item itself",
    ),
    "metadata of two kinds": (
        item(B, metadata={"ibi": C, "url": "http://a.b/"}),
        "metadata",
        "one of the fields ibi, dc, url and work",
    ),
    "formats of data": (item(B, formats={"oai_dc": "http://a.b/"}), "formats", "Metadata"),
    "an absolute path": (
        item(B, files=[{"path": "/etc/passwd"}]),
        "files[0].path",
        "no leading /",
    ),
    "a file here and elsewhere": (
        item(B, files=[{"path": "a", "url": "http://a.b/", "source": "a.txt"}]),
        "files[0]",
        "but not both",
    ),
    "no checksum": (
        item(B, files=[{"path": "a", "sha256": "abc"}]),
        "files[0].sha256",
        "64 hexadecimal",
    ),
    "a network with host bits": (
        item(B, access={"networks": ["150.163.1.1/16"]}),
        "access.networks[0]",
        "did you mean 150.163.0.0/16?",
    ),
    "a word that others can't have": (
        item(B, access={"networks": ["::/0"], "others": "all"}),
        "access.others",
        "metadata, none",
    ),
    "NaN": (b'{"rep": NaN}', None, "NaN is not allowed in JSON"),
}


@pytest.fixture(scope="module")
def settled(backend: str, tmp_path_factory: Any) -> Iterator[Archive]:
    """An Archive with a few items, which refuses the files of the tests."""
    folder = tmp_path_factory.mktemp("settled")
    with new_database(backend, folder, ready=True) as uri:
        app = make_app(uri, folder)
        archive = archive_of(app)
        archive.init()
        import_records(
            archive,
            [
                item(C, ibip=CI, aliases=["abZc/1"], language="pt", next_edition=D),
                item(D, language="en", translations={"pt": C}),
                item(E, ibip=ibip_of(4)),
            ],
        )
        yield archive
        close(app)


def test_an_error_names_file_line_and_field_and_nothing_is_changed(
    settled: Archive, tmp_path: Path
) -> None:
    before = dump(settled)
    (tmp_path / "a.txt").write_bytes(b"content")
    file = tmp_path / "items.jsonl"
    for kind, (wrong, field, reason) in WRONG_LINES.items():
        line = wrong if isinstance(wrong, bytes) else json.dumps(wrong).encode()
        file.write_bytes(GOOD.encode() + b"\n\n" + line + b"\n")
        with pytest.raises(RecordError) as refused:
            import_file(settled, file)
        error = refused.value
        assert (error.source, error.line, error.field) == (str(file), 3, field), kind
        assert reason in error.reason, kind
        message = str(error)
        assert message.startswith(f"{file}, line 3"), kind
        assert "\n" not in message, kind
        message.encode()
    assert dump(settled) == before


def test_a_cycle_of_editions_is_refused(app: Flask) -> None:
    archive = archive_of(app)
    before = dump(archive)
    cycle = [item(A, next_edition=B), item(B, next_edition=C), item(C, next_edition=A)]
    with pytest.raises(RecordError, match="would become a circle") as refused:
        import_records(archive, cycle)
    assert (refused.value.line, refused.value.field) == (3, "next_edition")
    assert dump(archive) == before


@pytest.mark.parametrize("field", ["translations", "language"])
def test_a_language_that_differs_from_that_in_translations_is_refused(
    app: Flask, field: str
) -> None:
    archive = archive_of(app)
    before = dump(archive)
    records = [item(A, translations={"pt": B}), item(B, language="en")]
    if field == "translations":
        records.reverse()
    with pytest.raises(RecordError, match="states the language en") as refused:
        import_records(archive, records)
    assert refused.value.field == field
    assert dump(archive) == before


def test_an_identifier_twice_in_a_file_is_refused_however_far_apart(
    app: Flask, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(importing, "BATCH", 2)
    archive = archive_of(app)
    import_records(archive, [item(E, next_edition=A)])
    before = dump(archive)
    records = [item(A), item(B), item(C), item(A, language="en")]
    for on_conflict in ("error", "skip", "update"):
        with pytest.raises(RecordError, match="is already in an earlier line") as refused:
            import_records(archive, records, on_conflict=on_conflict)
        assert (refused.value.line, refused.value.field) == (4, "rep"), on_conflict
        assert dump(archive) == before, on_conflict


@pytest.mark.slow
@pytest.mark.postgresql
@pytest.mark.parametrize("words", [("items.jsonl",), ("items.jsonl", "--mint")])
def test_a_killed_import_leaves_nothing(
    app: Flask, uri: str, tmp_path: Path, words: tuple[str, ...]
) -> None:
    records = [
        {"key": f"{number}", "metadata": {"dc": {"title": ["A"]}}}
        if "--mint" in words
        else item(rep_of(number), next_edition=rep_of(number + 1))
        for number in range(100)
    ]
    (tmp_path / "a.txt").write_text("content")
    for record in records[::20]:
        record["files"] = [{"path": "a.txt", "source": "a.txt"}]
    (tmp_path / "items.jsonl").write_text("\n".join(map(json.dumps, records)))
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "tests")])}
    killed = 0
    for last in itertools.count(5, 30):
        program = [sys.executable, str(PROGRAM), uri, str(tmp_path), str(last), *words]
        done = subprocess.run(program, env=environment, cwd=tmp_path, check=False)
        if done.returncode != -signal.SIGKILL:
            break
        killed += 1
        assert export(archive_of(app)) == []
    assert killed >= 3
    assert len(export(archive_of(app))) == 100
    assert command(app, "verify").data == ""


def test_the_progress_grows_to_the_total(app: Flask, tmp_path: Path) -> None:
    path = tmp_path / "items.jsonl"
    path.write_text("\n".join(map(json.dumps, make_store(9, 40))))
    for options in ({"dry_run": True}, {}, {"on_conflict": "update"}):
        reported: list[tuple[int, int]] = []

        def progress(
            stage: str, done: int, total: int, reported: list[tuple[int, int]] = reported
        ) -> None:
            reported.append((done, total))

        import_file(archive_of(app), path, progress=progress, **options)
        assert reported == sorted(reported)
        assert reported[-1][0] == reported[-1][1]
        assert len({total for _, total in reported}) == 1


@pytest.mark.only_on("postgresql")
def test_postgresql_knows_how_many_rows_were_imported(
    app: Flask, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(importing, "BATCH", 2)
    archive = archive_of(app)
    import_records(archive, [item(A), item(B), item(C), item(D), item(E)])
    assert count_known_rows(archive.database, "ibi_item") == 3  # before the second batch


@pytest.mark.parametrize("name", ["absolute", "above", "link", "linked folder/a.txt", "fifo"])
def test_only_regular_files_in_the_folder_of_the_records_are_read(
    app: Flask, tmp_path: Path, name: str
) -> None:
    archive, folder = archive_of(app), tmp_path / "records"
    outside = tmp_path / "outside" / "a.txt"
    for path in (folder / "a.txt", outside):
        path.parent.mkdir()
        path.write_bytes(b"content")
    (folder / "link").symlink_to(outside)
    (folder / "linked folder").symlink_to(outside.parent)
    os.mkfifo(folder / "fifo")
    file = folder / "items.jsonl"
    source = {"absolute": str(outside), "above": "../outside/a.txt"}.get(name, name)
    file.write_text(json.dumps(item(A, files=[{"path": "a", "source": source}])))
    reason = (
        "is not a regular file" if name == "fifo" else f"is not in the folder {folder}; --files"
    )
    for options in ({}, {"dry_run": True}):
        with pytest.raises(
            RecordError,
            match=rf"items.jsonl, line 1, files\[0\].source: '.* can't be read: it {reason}",
        ):
            import_file(archive, file, **options)
    assert export(archive) == []
    if name != "fifo":
        import_file(archive, file, files_folder=outside.parent)
        assert [one["path"] for one in exported(archive, A)["files"]] == ["a"]


def test_a_pipe_is_read_as_standard_input_only(app: Flask) -> None:
    reading, writing = os.pipe()
    try:
        error = command(app, "import", f"/dev/fd/{reading}").error
    finally:
        os.close(reading)
        os.close(writing)
    assert error.endswith(f"is a pipe; read it as standard input: import - < /dev/fd/{reading}")


def test_paths_may_begin_at_another_folder_of_files(app: Flask, tmp_path: Path) -> None:
    scans = tmp_path / "far" / "scans"
    for place, content in ((tmp_path / "records", b"not this one"), (scans, b"content")):
        place.mkdir(parents=True)
        (place / "a.txt").write_bytes(content)
    file = tmp_path / "records" / "items.jsonl"
    named = [
        {"path": "a", "source": "a.txt"},
        {"path": "b", "source": str(scans / "a.txt")},
        {"path": "c", "source": "../far/scans/a.txt"},  # relative to the file, as in an export
    ]
    file.write_text(json.dumps(item(A, files=named)))
    import_file(archive_of(app), file, files_folder=scans)
    assert {one["sha256"] for one in exported(archive_of(app), A)["files"]} == {CONTENT}


def test_records_from_standard_input_may_name_files_only_if_their_folder_is_named(
    app: Flask, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a.txt").write_bytes(b"content")
    monkeypatch.chdir(tmp_path)
    line = json.dumps(item(A, files=[{"path": "a", "source": "a.txt"}])).encode()
    outcome = command(app, "import", "-", stdin=line)
    assert outcome.error.endswith("--files-folder must name the folder of the files")
    assert command(app, "import", "-", "--files-folder", tmp_path, stdin=line).status == 0


# --- items, files and references -----------------------------------------------------------------


def test_empty_lines_carriage_returns_and_a_byte_order_mark_are_ignored(
    app: Flask, tmp_path: Path
) -> None:
    file = tmp_path / "items.jsonl"
    lines = [json.dumps(item(A)).encode(), b"", b"  ", json.dumps(item(B)).encode()]
    file.write_bytes(b"\xef\xbb\xbf" + b"\r\n".join(lines))
    assert import_file(archive_of(app), file).added == 2


@pytest.mark.postgresql
def test_references_may_precede_their_items_in_any_form_and_case(app: Flask) -> None:
    archive = archive_of(app)
    import_records(
        archive,
        [
            item(A, next_edition=BI.lower(), translations={"pt": "abZc/1"}, language="en"),
            item(B, ibip=BI),
            item(C, aliases=["abZc/1"], metadata={"ibi": D.upper()}),
            item(D, content_type="Metadata"),
        ],
    )
    assert exported(archive, A)["next_edition"] == B
    assert exported(archive, A)["translations"] == {"pt": C}
    assert exported(archive, C)["language"] == "pt"
    assert exported(archive, C)["metadata"] == {"ibi": D}


def test_identifiers_are_stored_in_canonical_case_but_legacy_ones_unchanged(app: Flask) -> None:
    archive = archive_of(app)
    import_records(archive, [{"rep": A.upper(), "ibip": AI.lower(), "aliases": ["aBZc/1"]}])
    [record] = export(archive)
    assert (record["rep"], record["ibip"], record["aliases"]) == (A, AI, ["aBZc/1"])


# --- stubs ---------------------------------------------------------------------------------------


@pytest.mark.rule("R72-05")
def test_a_reference_is_remote_until_an_item_has_the_identifier(app: Flask) -> None:
    archive = archive_of(app)
    import_records(archive, [item(A, next_edition=B)])
    known = ask(archive, A, "GetLastEdition")
    assert known["ibi.nextedition"] == ("rep", B)
    assert "ibi.lastedition" not in known
    assert ask(archive, B) == {}
    import_records(archive, [item(B, ibip=BI)])
    known = ask(archive, A, "GetLastEdition")
    assert known["ibi.lastedition"] == ("rep", B, "ibip", BI)
    assert known["url.lastedition"] == f"http://mtc-m16c.sid.inpe.br/col/{B}/"
    assert ask(archive, B)["state"] == "Original"


def test_an_item_that_was_a_stub_gets_the_language_that_translations_state(app: Flask) -> None:
    archive = archive_of(app)
    import_records(archive, [item(A, language="en", translations={"pt": B})])
    import_records(archive, [item(B)])
    assert exported(archive, B)["language"] == "pt"
    assert ask(archive, A, "GetTranslation(pt)")["ibi.translation(pt)"] == ("rep", B)
    assert ask(archive, B, "GetTranslation(en)")["ibi.translation(en)"] == ("rep", A)


# --- conflicts -----------------------------------------------------------------------------------


def test_skip_leaves_existing_items_and_adds_the_others(app: Flask) -> None:
    archive = archive_of(app)
    import_records(archive, [item(A, language="en")])
    result = import_records(archive, [item(A), item(B, next_edition=A)], on_conflict="skip")
    assert (result.added, result.updated, result.skipped) == (1, 0, 1)
    assert export(archive) == [item(A, language="en"), item(B, next_edition=A)]


WHOLE = [
    item(A, ibip=AI, aliases=["abZc/1"], language="en", next_edition=B, translations={"pt": C}),
    item(B, next_edition=D, metadata={"ibi": E}),
    item(C),
    item(D, state="Deleted", next_edition=FAR),
    item(E, content_type="Metadata", formats={"oai_dc": "https://a.b/c"}),
]


def same(records: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the records of WHOLE as they are exported."""
    return [{**one, "language": "pt"} if one["rep"] == C else one for one in records]


def test_an_update_to_the_same_content_changes_nothing(
    app: Flask, monkeypatch: pytest.MonkeyPatch
) -> None:
    archive = archive_of(app)
    import_records(archive, WHOLE)
    expected = in_any_order(map(in_written_order, same(WHOLE)))
    before = [answers(archive, one["rep"]) for one in WHOLE]
    assert in_any_order(export(archive)) == expected
    everything = [0, 1, 2, 3, 4]
    cases = [
        *(([line], 400) for line in everything),
        *((lines, batch) for lines in (everything, everything[::-1]) for batch in (2, 400)),
        ([2, 1], 400),
    ]
    for lines, batch in cases:
        monkeypatch.setattr(importing, "BATCH", batch)
        result = import_records(archive, [WHOLE[line] for line in lines], on_conflict="update")
        assert result == importing.Counts(skipped=len(lines)), (lines, batch)
        assert in_any_order(export(archive)) == expected, (lines, batch)
        assert [answers(archive, one["rep"]) for one in WHOLE] == before, (lines, batch)


VERBS = (
    "",
    "GetLastEdition",
    "GetTranslation",
    "GetMetadata(oai_dc)",
    "GetLastEdition GetMetadata",
)


def answers(archive: Archive, ibi: str) -> list[dict[str, Any]]:
    """Return the URL lists of an item, without the URL keys."""
    return [{**ask(archive, ibi, verbs), "urlkey": ""} for verbs in VERBS]


def in_any_order(records: Iterable[dict[str, Any]]) -> list[str]:
    return sorted(map(json.dumps, records))


def in_written_order(record: dict[str, Any]) -> dict[str, Any]:
    return format_record(parse_record(record))


def test_an_update_changes_the_chain_of_editions(app: Flask) -> None:
    archive = archive_of(app)
    import_records(archive, [item(A, next_edition=B), item(B, next_edition=C), item(C), item(D)])
    import_records(archive, [item(A, next_edition=D)], on_conflict="update")
    assert ask(archive, A, "GetLastEdition")["ibi.lastedition"] == ("rep", D)
    assert ask(archive, B, "GetLastEdition")["ibi.lastedition"] == ("rep", C)
    import_records(archive, [item(C, next_edition=A), item(B)], on_conflict="update")
    assert ask(archive, C, "GetLastEdition")["ibi.lastedition"] == ("rep", D)
    assert ask(archive, B, "GetLastEdition")["ibi.lastedition"] == ("rep", B)
    turned = [item(D, next_edition=A), item(A), item(C)]
    import_records(archive, turned, on_conflict="update")
    assert ask(archive, D, "GetLastEdition")["ibi.lastedition"] == ("rep", A)
    assert "next_edition" not in exported(archive, C)


@pytest.mark.postgresql
def test_an_update_changes_translations(app: Flask) -> None:
    archive = archive_of(app)
    import_records(
        archive, [item(A, language="en", translations={"pt": B}), item(B), item(C, language="fr")]
    )
    import_records(archive, [item(A, language="en", translations={"fr": C})], on_conflict="update")
    assert "ibi.translation(pt)" not in ask(archive, A, "GetTranslation")
    assert ask(archive, C, "GetTranslation(en)")["ibi.translation(en)"] == ("rep", A)
    import_records(
        archive,
        [item(B, language="fr"), item(A, language="en", translations={"es": C}), item(C)],
        on_conflict="update",
    )
    assert exported(archive, C)["language"] == "es"
    assert ask(archive, A, "GetTranslation(es)")["ibi.translation(es)"] == ("rep", C)


def test_a_member_may_leave_a_group_before_the_line_of_the_head_omits_it(app: Flask) -> None:
    archive = archive_of(app)
    head = item(A, language="fr", translations={"en": B, "pt": C})
    import_records(archive, [head, item(B, language="en"), item(C, language="pt")])
    left = [item(B, language="ja"), item(A, language="fr", translations={"pt": C})]
    result = import_records(archive, left, on_conflict="update")
    assert result == importing.Counts(updated=2)
    assert "translations" not in exported(archive, B)
    assert exported(archive, B)["language"] == "ja"
    assert exported(archive, A)["translations"] == {"pt": C}


@pytest.mark.parametrize("present", [[A], [A, B]])
def test_a_member_has_no_language_of_a_group_that_a_later_line_ends(
    app: Flask, present: list[str]
) -> None:
    archive = archive_of(app)
    lines = [item(A, language="fr", translations={"en": B}), item(B)]
    import_records(archive, lines[: len(present)])
    import_records(archive, [item(B), item(A, language="fr")], on_conflict="update")
    assert "language" not in exported(archive, B)
    assert "translations" not in exported(archive, A)


@pytest.mark.postgresql
def test_two_members_may_swap_their_languages_in_one_file(
    app: Flask, monkeypatch: pytest.MonkeyPatch
) -> None:
    archive = archive_of(app)
    at_first = [item(A, language="en", translations={"pt": B}), item(B, language="pt")]
    swapped = [item(A, language="pt", translations={"en": B}), item(B, language="en")]
    import_records(archive, at_first)
    for batch in (1, 400):
        monkeypatch.setattr(importing, "BATCH", batch)
        for records in (swapped, at_first[::-1], swapped[::-1], at_first):
            import_records(archive, records, on_conflict="update")
            portuguese, english = (A, B) if item(B, language="en") in records else (B, A)
            found = ask(archive, portuguese, "GetTranslation(en)")
            assert found["ibi.translation(en)"] == ("rep", english), (batch, records)
            found = ask(archive, english, "GetTranslation(pt)")
            assert found["ibi.translation(pt)"] == ("rep", portuguese), (batch, records)


def test_an_update_may_not_state_another_language_than_translations(
    app: Flask,
) -> None:
    archive = archive_of(app)
    import_records(archive, [item(A, language="en", translations={"pt": B}), item(B)])
    before = dump(archive)
    for language in ("es", "en"):
        with pytest.raises(RecordError, match=f"states the language {language}") as refused:
            import_records(archive, [item(B, language=language)], on_conflict="update")
        assert (refused.value.line, refused.value.field) == (1, "language")
        assert dump(archive) == before


def test_an_update_changes_metadata_files_and_other_fields(app: Flask, tmp_path: Path) -> None:
    archive = archive_of(app)
    (tmp_path / "a.txt").write_bytes(b"content")
    import_records(
        archive,
        [
            item(
                A,
                aliases=["abZc/1", "abZc/2"],
                files=[{"path": "a"}, {"path": "b"}],
                target_file="b",
                metadata={"ibi": FAR},
                access={"networks": ["10.0.0.0/8"]},
                list_files=False,
                transferable=False,
            )
        ],
    )
    changed = item(
        A,
        ibip=AI,
        aliases=["abZc/2", "abZc/3"],
        metadata={"dc": {"title": ["x", {"value": "y", "lang": "en"}]}},
        files=[{"path": "c", "url": "https://a.b/c"}, {"path": "a", "sha256": CONTENT}],
    )
    import_records(archive, [changed], on_conflict="update")
    kept = {**changed, "aliases": ["abZc/2", "abZc/3", "abZc/1"]}
    assert export(archive) == [in_written_order(kept)]
    assert ask(archive, "abZc/3")["url"] == "https://a.b/c"
    with archive.database.reading() as connection:
        items = connection.execute(select(metadata.tables["ibi_item"].c.rep)).scalars().all()
    assert sorted(items) == sorted([A, SERVICE]), "unused stubs are deleted"


@pytest.mark.rule("G4-01")
@pytest.mark.parametrize("field", ["rep", "ibip"])
def test_an_update_removes_no_identifier(app: Flask, field: str) -> None:
    archive = archive_of(app)
    import_records(archive, [item(A, ibip=AI, aliases=["abZc/1"])])
    before = dump(archive)
    other = {"rep": B, "ibip": AI} if field == "rep" else {"rep": A, "ibip": BI}
    with pytest.raises(RecordError, match="identifiers are permanent"):
        import_records(archive, [other], on_conflict="update")
    assert dump(archive) == before
    import_records(archive, [{"ibip": AI, "timestamp": WHEN}], on_conflict="update")
    assert export(archive) == [item(A, ibip=AI, aliases=["abZc/1"])]


def test_two_items_cannot_be_merged_by_an_update(app: Flask) -> None:
    archive = archive_of(app)
    import_records(archive, [item(A), item(B, ibip=AI)])
    before = dump(archive)
    with pytest.raises(RecordError, match="belong to several items"):
        import_records(archive, [item(A, ibip=AI)], on_conflict="update")
    assert dump(archive) == before


def test_an_original_of_another_archive_is_refused_and_a_copy_requires_it(
    new_app: Callable[..., Flask],
) -> None:
    here = archive_of(new_app())
    there = archive_of(new_app(IBI_ARCHIVE_SERVICE_IBI=rep_of(9, "sid.inpe.br/other")))
    here.init()
    there.init()
    other = there.served().service_ibi
    import_records(there, [item(A)])
    with pytest.raises(RecordError, match="another Archive of the database") as refused:
        import_records(here, [item(B), item(C, aliases=[A])])
    assert (refused.value.line, refused.value.field) == (2, "aliases")
    with pytest.raises(RecordError, match="does not have the Original of this Copy") as refused:
        import_records(here, [item(B, state="Copy", original_archive=other)])
    assert (refused.value.line, refused.value.field) == (1, "original_archive")
    import_records(here, [item(A, state="Copy", original_archive=other)])
    assert ask(here, A)["state"] == "Copy"


def test_an_update_that_only_names_a_file_preserves_its_content(app: Flask, tmp_path: Path) -> None:
    archive = archive_of(app)
    (tmp_path / "a.txt").write_bytes(b"content")
    import_records(archive, [item(A, files=[{"path": "a.txt", "source": "a.txt"}])], tmp_path)
    before = export(archive)
    import_records(archive, [item(A, files=[{"path": "a.txt"}])], on_conflict="update")
    assert export(archive) == before
    other = {"path": "a.txt", "sha256": "0" * 64}
    import_records(archive, [item(A, files=[other])], on_conflict="update")
    assert export(archive) == [item(A, files=[other])]


def test_an_original_with_copies_cannot_be_updated_to_another_state(
    new_app: Callable[..., Flask],
) -> None:
    here = archive_of(new_app())
    there = archive_of(new_app(IBI_ARCHIVE_SERVICE_IBI=rep_of(9, "sid.inpe.br/other")))
    here.init()
    there.init()
    import_records(here, [item(A)])
    import_records(there, [item(A, state="Copy", original_archive=SERVICE)])
    before = dump(here)
    with pytest.raises(RecordError, match=rep_of(9, "sid.inpe.br/other")) as refused:
        import_records(here, [item(A, state="Deleted")], on_conflict="update")
    assert (refused.value.line, refused.value.field) == (1, "original_archive")
    assert dump(here) == before


def test_a_folder_that_cannot_be_written_is_named_and_nothing_is_changed(
    app: Flask, tmp_path: Path
) -> None:
    archive = archive_of(app)
    before = dump(archive)
    (tmp_path / "a.txt").write_bytes(b"content")
    archive.__dict__["files_folder"] = FileStore(tmp_path / "a.txt" / "folder")
    with pytest.raises(StorageError, match="IBI_FILES_FOLDER"):
        import_records(archive, [item(A, files=[{"path": "a", "source": "a.txt"}])], tmp_path)
    del archive.__dict__["files_folder"]
    assert dump(archive) == before


def test_a_url_with_a_password_in_an_old_export_is_refused_by_line_and_field(
    app: Flask, tmp_path: Path
) -> None:
    archive = archive_of(app)
    rep = "a.br/x/2001/01.01.00.0"
    path = tmp_path / "items.jsonl"
    import_records(archive, [{"rep": f"{rep}1"}], tmp_path)
    with archive.database.writing() as connection:  # such URLs were allowed in earlier versions
        connection.exec_driver_sql(
            "INSERT INTO ibi_file (item_id, path, position, url) SELECT max(id), 'a', 0,"
            " 'http://me:hush@a.br/a' FROM ibi_item"
        )
        connection.exec_driver_sql("UPDATE ibi_item SET target_path = 'a' WHERE NOT is_service")
    lines = [format_line(item.record) for item in archive.find()]
    assert len(lines) == 1
    path.write_text("\n".join([f'{{"rep": "{rep}2"}}', *lines]))
    with pytest.raises(RecordError, match="user name or password") as refused:
        import_file(archive, path, on_conflict="update")
    assert (refused.value.line, refused.value.field) == (2, "files[0].url")
    assert "hush" not in str(refused.value)
    assert len(list(archive.find())) == 1

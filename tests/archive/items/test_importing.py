"""Import: all lines or none; an error names file, line and field, and says what is expected."""

from __future__ import annotations

import hashlib
import itertools
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
from flask import Flask
from sqlalchemy import func, select
from support.archives import SERVICE, archive_of, everything_in, export, import_file, import_records
from support.commands import ROOT, command
from support.operations import SECOND, make_archives
from support.stores import ibip_of, make_store, moment_of, rep_of
from support.vectors import load

from flask_ibi_archive.archive.archive import Archive
from flask_ibi_archive.archive.items import import_export as importing
from flask_ibi_archive.archive.items.tables import Item
from flask_ibi_archive.core.identifiers.parse import parse_identifier
from flask_ibi_archive.core.protocol.messages import UrlRequest
from flask_ibi_archive.core.protocol.relations import parse_verb_list
from flask_ibi_archive.core.records.record import format_record, parse_record
from flask_ibi_archive.errors import RecordError

A, B, C, D, E = (rep_of(number) for number in range(5))
AI, BI, CI = (ibip_of(number) for number in range(3))
FAR = rep_of(1, "elsewhere.org/there")
WHEN = moment_of(3)
CONTENT = hashlib.sha256(b"content").hexdigest()
#: Runs the command import, and is killed before the SQL statement with a number.
IMPORT = """
import os, signal, sys
from itertools import count
from pathlib import Path
from sqlalchemy import Engine, event
from support.archives import close, make_app
from support.commands import command
from flask_ibi_archive.archive.items import import_export
uri, folder, last, *words = sys.argv[1:]
import_export.BATCH = 10
app, numbers = make_app(uri, Path(folder)), count(1)
def count_statement(*values):
    if next(numbers) == int(last):
        os.kill(os.getpid(), signal.SIGKILL)
event.listen(Engine, "before_cursor_execute", count_statement)
print(command(app, "import", *words).data)
close(app)
"""


def item(rep: str, **fields: Any) -> dict[str, Any]:
    """Return a record with a timestamp."""
    return {"rep": rep, "timestamp": WHEN, **fields}


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

FILE = {"path": "a", "source": "a.txt"}
GOOD = json.dumps(item(A, next_edition=FAR, files=[FILE]))

#: Of each wrong record or line: its fields or text, the field that the error names, and what it
#: says. Of each wrong file and update, also its records and the line of the error.
WRONG = load("archive/wrong_imports.json")


@pytest.fixture
def settled(archive: Archive) -> Archive:
    """An Archive with a few items, which refuses the files of the tests."""
    portuguese = item(C, ibip=CI, aliases=["abZc/1"], language="pt", next_edition=D)
    english = item(D, language="en", translations={"pt": C})
    import_records(archive, [portuguese, english, item(E, ibip=ibip_of(4))])
    return archive


def test_an_error_names_file_line_and_field(settled: Archive, tmp_path: Path) -> None:
    before = everything_in(settled)
    (tmp_path / "a.txt").write_bytes(b"content")
    file = tmp_path / "items.jsonl"
    for wrong, field, reason in WRONG["lines"]:
        is_text = isinstance(wrong, str)
        line = wrong.encode("latin1") if is_text else json.dumps({**item(B), **wrong}).encode()
        file.write_bytes(GOOD.encode() + b"\n\n" + line + b"\n")
        with pytest.raises(RecordError) as refused:
            import_file(settled, file)
        error = refused.value
        assert (error.source, error.line, error.field) == (str(file), 3, field), wrong
        assert reason in error.reason, wrong
        message = str(error)
        assert message.startswith(f"{file}, line 3"), wrong
        assert "\n" not in message, wrong
        message.encode()
    assert everything_in(settled) == before


@pytest.mark.rule("G4-01")
def test_contradictions_and_refused_updates_change_nothing(settled: Archive) -> None:
    before = everything_in(settled)
    updates = [([record], 1, field, reason) for record, field, reason in WRONG["updates"]]
    for on_conflict, cases in (("error", WRONG["files"]), ("update", updates)):
        for records, line, field, reason in cases:
            with pytest.raises(RecordError, match=reason) as refused:
                import_records(settled, records, on_conflict=on_conflict)
            assert (refused.value.line, refused.value.field) == (line, field), records
            assert everything_in(settled) == before, records


def test_an_identifier_twice_in_a_file_is_refused_however_far_apart(
    app: Flask, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(importing, "BATCH", 2)
    archive = archive_of(app)
    import_records(archive, [item(E, next_edition=A)])
    before = everything_in(archive)
    records = [item(A), item(B), item(C), item(A, language="en")]
    for on_conflict in ("error", "skip", "update"):
        with pytest.raises(RecordError, match="is already in an earlier line") as refused:
            import_records(archive, records, on_conflict=on_conflict)
        assert (refused.value.line, refused.value.field) == (4, "rep"), on_conflict
        assert everything_in(archive) == before, on_conflict


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
        program = [sys.executable, "-c", IMPORT, uri, str(tmp_path), str(last), *words]
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
    path.write_text("\n".join(map(json.dumps, make_store(9, 20))))
    for options in ({"dry_run": True}, {}, {"on_conflict": "update"}):
        progress = Mock()
        import_file(archive_of(app), path, progress=progress, **options)
        steps = [call.args[1:] for call in progress.call_args_list]
        assert steps == sorted(steps)
        assert steps[-1][0] == steps[-1][1]
        assert len({total for _, total in steps}) == 1


# --- files ---------------------------------------------------------------------------------------


def test_only_regular_files_in_the_folder_of_records_are_read(app: Flask, tmp_path: Path) -> None:
    archive, folder = archive_of(app), tmp_path / "records"
    outside = tmp_path / "far" / "scans" / "a.txt"
    for path, content in ((folder / "a.txt", b"not this one"), (outside, b"content")):
        path.parent.mkdir(parents=True)
        path.write_bytes(content)
    (folder / "link").symlink_to(outside)
    (folder / "linked folder").symlink_to(outside.parent)
    os.mkfifo(folder / "fifo")
    file = folder / "items.jsonl"
    not_inside = f"is not in the folder {folder}; --files"
    # a path is relative to the file, as in an export
    far = (str(outside), "../far/scans/a.txt", "link", "linked folder/a.txt")
    for source, reason in (*((name, not_inside) for name in far), ("fifo", "is not a regular")):
        file.write_text(json.dumps(item(A, files=[{"path": "a", "source": source}])))
        place = r"items.jsonl, line 1, files\[0\].source: '.* can't be read"
        for options in ({}, {"dry_run": True}):
            with pytest.raises(RecordError, match=f"{place}: it {reason}"):
                import_file(archive, file, **options)
    assert export(archive) == []
    # another folder of files can be named: paths begin there, or at the file of records
    files = [{"path": str(n), "source": source} for n, source in enumerate(("a.txt", *far))]
    file.write_text(json.dumps(item(A, files=files)))
    import_file(archive, file, files_folder=outside.parent)
    assert {one["sha256"] for one in exported(archive, A)["files"]} == {CONTENT}


def test_standard_input_has_files_only_in_a_folder_that_is_named(
    app: Flask, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a.txt").write_bytes(b"content")
    monkeypatch.chdir(tmp_path)
    line = json.dumps(item(A, files=[FILE])).encode()
    outcome = command(app, "import", "-", stdin=line)
    assert outcome.error.endswith("--files-folder must name the folder of the files")
    assert command(app, "import", "-", "--files-folder", tmp_path, stdin=line).status == 0
    reading, writing = os.pipe()
    try:
        error = command(app, "import", f"/dev/fd/{reading}").error
    finally:
        os.close(reading)
        os.close(writing)
    assert error.endswith(f"is a pipe; read it as standard input: import - < /dev/fd/{reading}")


# --- items and references ------------------------------------------------------------------------


def test_empty_lines_and_a_byte_order_mark_are_ignored(app: Flask, tmp_path: Path) -> None:
    file = tmp_path / "items.jsonl"
    lines = [json.dumps(item(A)).encode(), b"", b"  ", json.dumps(item(B)).encode()]
    file.write_bytes(b"\xef\xbb\xbf" + b"\r\n".join(lines))
    assert import_file(archive_of(app), file).added == 2


@pytest.mark.rule("R72-05")
def test_a_reference_is_remote_until_an_item_has_the_identifier(app: Flask) -> None:
    archive = archive_of(app)
    import_records(archive, [item(A, next_edition=B, language="en", translations={"pt": C})])
    known = ask(archive, A, "GetLastEdition")
    assert known["ibi.nextedition"] == ("rep", B)
    assert "ibi.lastedition" not in known
    assert ask(archive, B) == {}
    import_records(archive, [item(B, ibip=BI), item(C)])
    known = ask(archive, A, "GetLastEdition")
    assert known["ibi.lastedition"] == ("rep", B, "ibip", BI)
    assert known["url.lastedition"] == f"http://mtc-m16c.sid.inpe.br/col/{B}/"
    assert ask(archive, B)["state"] == "Original"
    # the item gets the language that the translations state
    assert exported(archive, C)["language"] == "pt"
    assert ask(archive, A, "GetTranslation(pt)")["ibi.translation(pt)"] == ("rep", C)
    assert ask(archive, C, "GetTranslation(en)")["ibi.translation(en)"] == ("rep", A)


# --- updates -------------------------------------------------------------------------------------

WHOLE = [
    item(A, ibip=AI, aliases=["abZc/1"], language="en", next_edition=B, translations={"pt": C}),
    item(B, next_edition=D, metadata={"ibi": E}),
    item(C),
    item(D, state="Deleted", next_edition=FAR),
    item(E, content_type="Metadata", formats={"oai_dc": "https://a.b/c"}),
]


def test_an_update_to_the_same_changes_nothing(app: Flask, monkeypatch: pytest.MonkeyPatch) -> None:
    archive = archive_of(app)
    import_records(archive, WHOLE)
    written = [format_record(parse_record(record)) for record in WHOLE]
    written[2]["language"] = "pt"
    assert sorted(export(archive), key=lambda record: record["rep"]) == written
    before = {**everything_in(archive), "ibi_change_note": None}
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
        # a note about an item that looks as before has no effect
        assert {**everything_in(archive), "ibi_change_note": None} == before, (lines, batch)


@pytest.mark.postgresql
def test_a_member_leaves_a_group_before_or_after_the_line_of_its_head(app: Flask) -> None:
    archive = archive_of(app)
    head = partial(item, A, language="en")
    import_records(archive, [head(translations={"fr": C, "pt": D}), item(C), item(D)])
    left = [item(C, language="ja"), head(translations={"pt": D})]
    result = import_records(archive, left, on_conflict="update")
    assert result == importing.Counts(updated=2)
    assert "translations" not in exported(archive, C)
    assert exported(archive, C)["language"] == "ja"
    assert exported(archive, A)["translations"] == {"pt": D}
    # a member has no language of a group that a later line ends, also if it comes with that line
    import_records(archive, [item(D), head()], on_conflict="update")
    assert "language" not in exported(archive, D)
    import_records(archive, [head(translations={"pt": E})], on_conflict="update")
    import_records(archive, [item(E), head()], on_conflict="update")
    assert "language" not in exported(archive, E)
    assert "translations" not in exported(archive, A)


def test_a_line_joins_a_group_that_another_line_ends(
    app: Flask, monkeypatch: pytest.MonkeyPatch
) -> None:
    archive = archive_of(app)
    for number, (batch, is_first) in enumerate(product((1, 400), (True, False))):
        head, joining = rep_of(10 + 2 * number), rep_of(11 + 2 * number)
        import_records(archive, [item(head, translations={"pt": joining})])
        lines = [item(joining, translations={"es": head}), item(head)]
        monkeypatch.setattr(importing, "BATCH", batch)
        import_records(archive, lines if is_first else lines[::-1], on_conflict="update")
        assert exported(archive, joining)["translations"] == {"es": head}, (batch, is_first)
        assert exported(archive, head)["language"] == "es"


@pytest.mark.postgresql
def test_two_members_may_swap_their_languages(app: Flask, monkeypatch: pytest.MonkeyPatch) -> None:
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


def test_an_update_changes_metadata_files_and_other_fields(app: Flask, tmp_path: Path) -> None:
    archive = archive_of(app)
    (tmp_path / "a.txt").write_bytes(b"content")
    first = item(
        A,
        aliases=["abZc/1", "abZc/2"],
        files=[{"path": "a"}, {"path": "b"}],
        target_file="b",
        metadata={"ibi": FAR},
        access={"networks": ["10.0.0.0/8"]},
        list_files=False,
        transferable=False,
    )
    changed = item(
        A,
        ibip=AI,
        aliases=["abZc/2", "abZc/3"],
        metadata={"dc": {"title": ["x", {"value": "y", "lang": "en"}]}},
        files=[{"path": "c", "url": "https://a.b/c"}, {"path": "a", "sha256": CONTENT}],
    )
    import_records(archive, [first])
    import_records(archive, [changed], on_conflict="update")
    kept = {**changed, "aliases": ["abZc/2", "abZc/3", "abZc/1"]}
    assert export(archive) == [format_record(parse_record(kept))]
    assert ask(archive, "abZc/3")["url"] == "https://a.b/c"
    with archive.database.reading() as connection:
        count = connection.scalar(select(func.count(Item.id)))
    assert count == 2, "unused stubs are deleted; the other item is the service"
    # a file that is only named keeps its content; no identifier is removed
    stored = item(A, files=[{"path": "a.txt", "source": "a.txt"}])
    import_records(archive, [stored], tmp_path, on_conflict="update")
    before = export(archive)
    named = {"ibip": AI, "timestamp": WHEN, "files": [{"path": "a.txt"}]}
    import_records(archive, [named], on_conflict="update")
    assert export(archive) == before
    other = {"path": "a.txt", "sha256": "0" * 64}
    import_records(archive, [item(A, files=[other])], on_conflict="update")
    assert exported(archive, A)["files"] == [other]


def test_an_item_of_two_archives_has_one_original(new_app: Callable[..., Flask]) -> None:
    here, there = make_archives(new_app, 2)
    copy = item(A, state="Copy", original_archive=SECOND)
    import_records(there, [item(A)])
    import_records(here, [copy])
    assert ask(here, A)["state"] == "Copy"
    for archive, record, field, reason in (
        (here, item(C, aliases=[A]), "state", "add --take-back"),
        (here, {**copy, "rep": B}, "original_archive", "must have an Original"),
        (there, item(A, state="Deleted"), "original_archive", SERVICE),
    ):
        before = everything_in(archive)
        with pytest.raises(RecordError, match=reason) as refused:
            import_records(archive, [item(D), record], on_conflict="update")
        assert (refused.value.line, refused.value.field) == (2, field)
        assert everything_in(archive) == before

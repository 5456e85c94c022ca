"""The files of rows are copied when they are deposited, and read again only if they change."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from support.host_app import Host

from flask_ibi_archive.archive.items.files import Staging
from flask_ibi_archive.errors import RowError

#: A modification time in nanoseconds since 1970, long ago.
OLD = 1_000_000_000_123_456_789


@pytest.fixture
def host(new_host: Callable[..., Host]) -> Host:
    """A host with a plain model."""
    return new_host()


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the uploads that were read, once for each time."""
    names: list[str] = []
    open_file = Path.open

    def note(path: Path, mode: str = "r", *arguments: Any, **options: Any) -> Any:
        if path.suffix == ".pdf" and "r" in mode:
            names.append(path.name)
        return open_file(path, mode, *arguments, **options)

    monkeypatch.setattr(Path, "open", note)
    return names


def write(host: Host, name: str, content: str, modified: int = OLD) -> str:
    """Write an upload that was modified at a time, and return its path."""
    path = host.folder / name
    path.write_bytes(content.encode())
    os.utime(path, ns=(modified, modified))
    return str(path)


def add(host: Host, opened: list[str], name: str = "a.pdf") -> Any:
    """Add a row whose file is read once, and forget that it was read."""
    row = host.add(pdf=write(host, name, "rain"))
    assert opened == [name]
    opened.clear()
    return row


def refresh(host: Host, row: Any) -> None:
    host.ibi.refresh(row)
    host.session.commit()


def read_item(host: Host, row: Any) -> tuple[str, list[str | None]]:
    """Return the title of an item, and the contents of its files."""
    item = host.archive.get(row.ibi)
    assert item is not None
    contents = [
        host.archive.files_folder.path(file.sha256 or "").read_text() for file in item.record.files
    ]
    return item.title, contents


def test_a_file_that_is_known_is_not_read_again(host: Host, opened: list[str]) -> None:
    row = add(host, opened)
    for change in ({"views": 1}, {"title": "On snow"}, {"views": 2}):
        for name, value in change.items():
            setattr(row, name, value)
        host.session.commit()
    host.ibi.refresh(row)
    host.session.commit()
    assert opened == []
    assert read_item(host, row) == ("On snow", ["rain"])


def test_a_row_can_be_edited_when_its_file_is_gone(host: Host, opened: list[str]) -> None:
    row = add(host, opened)
    (host.folder / "a.pdf").rename(host.folder / "moved.pdf")
    row.title, row.language = "On snow", "pt"
    host.session.commit()
    assert read_item(host, row) == ("On snow", ["rain"])
    row.pdf = str(host.folder / "missing.pdf")
    with pytest.raises(RowError, match=r"missing\.pdf can't be read: No such file"):
        host.session.commit()


@pytest.mark.parametrize("content", ["snow", "rain and snow"])
def test_a_file_that_was_rewritten_is_read(host: Host, opened: list[str], content: str) -> None:
    row = add(host, opened)
    write(host, "a.pdf", content, OLD + 1)
    refresh(host, row)
    assert read_item(host, row) == ("On rain", [content])
    opened.clear()
    row.title = "On snow"
    host.session.commit()
    assert opened == []


def test_a_file_with_another_time_or_path_is_read_once(host: Host, opened: list[str]) -> None:
    row = add(host, opened)
    os.utime(host.folder / "a.pdf", ns=(OLD, OLD + 1))
    for _ in range(2):
        refresh(host, row)
    assert opened == ["a.pdf"]
    opened.clear()
    (host.folder / "b").mkdir()
    row.pdf = write(host, "b/a.pdf", "rain")
    host.session.commit()
    row.title = "On snow"
    host.session.commit()
    assert opened == ["a.pdf"]
    assert read_item(host, row) == ("On snow", ["rain"])


def test_a_file_that_may_change_again_at_the_same_time_is_read_again(
    host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Within one step of its clock, a file system gives two changes of a file the same time."""
    monkeypatch.setattr("time.time_ns", lambda: OLD + 5_000_000)
    row = host.add(pdf=write(host, "a.pdf", "rain"))
    write(host, "a.pdf", "snow")
    refresh(host, row)
    assert read_item(host, row) == ("On rain", ["snow"])


def test_a_file_that_changes_while_it_is_read_is_read_again(
    host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    add_stream = Staging.add_stream

    def change(staging: Staging, stream: Any) -> Any:
        content = add_stream(staging, stream)
        write(host, "a.pdf", "snow", OLD + 1)
        return content

    path = write(host, "a.pdf", "rain")
    with monkeypatch.context() as patch:
        patch.setattr(Staging, "add_stream", change)
        row = host.add(pdf=path)
    refresh(host, row)
    assert read_item(host, row) == ("On rain", ["snow"])

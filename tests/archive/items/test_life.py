"""Tests of the commands copy, transfer and delete."""

from __future__ import annotations

from pathlib import Path

import pytest
from flask import Flask
from support.archives import FAR_SERVICE, SERVICE
from support.commands import command, show, unchanged
from support.pages import see
from support.web import NOBODY, ask, ask_urls

NOWHERE = "sid.inpe.br/mtc-m99@80/2009/08.21.17.02"


def add(app: Flask, file: Path, *words: str) -> tuple[str, str]:
    """Add an item and return its identifiers."""
    [line] = command(app, "add", file, "--title", "A report", *words).lines
    ibi, ibip = line.split("\t")
    return ibi, ibip


# --- copy and transfer ---------------------------------------------------------------------------


def test_copy_makes_a_copy_in_the_other_archive_or_here(
    here: Flask, there: Flask, report: Path
) -> None:
    ibi, ibip = add(here, report)
    said = command(here, "copy", ibip.lower(), "--to", FAR_SERVICE.upper()).lines
    assert said == [f"copied {ibi} to {FAR_SERVICE}"]
    copy = show(there, ibi)
    assert (copy["state"], copy["original_archive"]) == ("Copy", SERVICE)
    assert (copy["rep"], copy["ibip"]) == (ibi, ibip)
    assert show(here, ibi)["state"] == "Original"
    assert ask(there, f"/col/{ibi}/doc/report.pdf").body == report.read_bytes()
    other, _ = add(there, report)
    assert command(here, "copy", other).lines == [f"copied {other} to {SERVICE}"]
    assert show(here, other)["original_archive"] == FAR_SERVICE


@pytest.mark.parametrize(
    ("words", "left", "remains"),
    [((), "Deleted", "a tombstone"), (("--keep-copy",), "Copy", "a copy")],
)
def test_transfer_hands_the_original_over(
    here: Flask, there: Flask, report: Path, words: tuple[str, ...], left: str, remains: str
) -> None:
    ibi, ibip = add(here, report)
    [line] = command(here, "transfer", ibip, "--to", FAR_SERVICE, *words).lines
    assert line == f"transferred {ibi} to {FAR_SERVICE}; {remains} remains here"
    assert (show(here, ibi)["state"], show(there, ibi)["state"]) == (left, "Original")
    assert show(there, ibi)["ibip"] == ibip
    assert ask(there, f"/col/{ibi}/doc/report.pdf").body == report.read_bytes()
    assert ask(here, f"/col/{ibi}/").status == (410 if left == "Deleted" else 200)


# --- delete --------------------------------------------------------------------------------------


WITHDRAWN = "--yes", "--reason", "Withdrawn"


def test_delete_leaves_a_tombstone_and_perhaps_no_description(here: Flask, report: Path) -> None:
    ibi, ibip = add(here, report)
    words = (*WITHDRAWN, "--citation", "Banon, 2009", "--successor", NOBODY.upper())
    [line] = command(here, "delete", ibip.lower(), *words).lines
    url = f"http://mtc-m16c.sid.inpe.br/col/{ibi}/"
    assert line == f"deleted {ibi}; {url} now shows the tombstone (410)"
    removed = show(here, ibi)
    assert removed["state"] == "Deleted"
    tombstone = {"reason": "Withdrawn", "citation": "Banon, 2009", "successor": NOBODY}
    assert removed["tombstone"] == tombstone
    told = command(here, "show", ibip).lines
    for fact in ("state Deleted", "tombstone.reason Withdrawn", f"tombstone.successor {NOBODY}"):
        assert fact in told
    assert ask_urls(here, ibi)["state"] == ("Deleted",)
    # the description can be discarded later
    options = ("--yes", "--reason", "Requested by the author", "--discard-description")
    assert command(here, "delete", ibi, *options).status == 0
    left = show(here, ibi)
    assert (removed.pop("metadata"), "metadata" in left) == ({"dc": {"title": ["A report"]}}, False)
    removed["tombstone"] = {"reason": "Requested by the author", "successor": NOBODY}
    assert left == removed
    assert "has the state Deleted" in command(here, "delete", ibi, "--yes", "--reason", "x").error


def test_a_removed_item_is_cited_by_its_description_if_no_citation_is_given(
    here: Flask, report: Path
) -> None:
    ibi, ibip = add(here, report, "--creator", "Banon, G.", "--date", "2009-07-21")
    with unchanged(here):
        assert command(here, "delete", ibi, "--reason", "Withdrawn").error == (
            f"Delete {ibi} (A report)? This cannot be undone. Nothing was done, "
            "because there is no terminal for the answer; add --yes."
        )
    assert command(here, "delete", ibi, *WITHDRAWN).data
    assert show(here, ibi)["tombstone"] == {"reason": "Withdrawn"}
    cited = see(here, f"/col/{ibi}/", 410).text("p")
    assert f"2009. IBI: {ibip}." in cited


# --- what these commands refuse ------------------------------------------------------------------


def test_what_can_not_be_done_is_an_error_and_changes_nothing(
    here: Flask, there: Flask, report: Path
) -> None:
    ibi, _ = add(here, report)
    gone, _ = add(here, report)
    command(here, "delete", gone, *WITHDRAWN)
    with unchanged(here, there):
        for name, *options in (
            ("copy", "--to", FAR_SERVICE),
            ("transfer", "--to", FAR_SERVICE),
            ("delete", "--yes", "--reason", "x"),
        ):
            for text, reason in (
                ("report", "'report' is not an IBI"),
                (NOBODY, f"no item of this Archive has the identifier {NOBODY}"),
                (gone, f"{gone} has the state Deleted: it can't be"),
                (SERVICE, SERVICE),
            ):
                assert reason in command(here, name, text, *options).error
        for name in ("copy", "transfer"):
            assert NOWHERE in command(here, name, ibi, "--to", NOWHERE).error
            assert command(here, name, ibi, "--to", SERVICE).error
        assert SERVICE in command(here, "edit", SERVICE, "title=x").error
        assert "Missing option '--to'" in command(here, "transfer", ibi).usage
        assert "Missing option '--reason'" in command(here, "delete", ibi, "--yes").usage
        assert "--reason is empty" in command(here, "delete", ibi, "--yes", "--reason", "").usage

"""The text of an alert in one line."""

from __future__ import annotations

from dataclasses import replace

from flask_ibi_archive.core.identifiers.parse import parse_identifier
from flask_ibi_archive.core.resolution.answer import ArchiveSource
from flask_ibi_archive.core.resolution.outcome import Alert, AlertKind, MissingPart
from flask_ibi_archive.errors import Reason

IBI = "8JMKD3MGP8W/35MMLL8"
NAMED = [
    ArchiveSource("8JMKD3MGP8W/35MME4E", "archive.br"),
    ArchiveSource("8JMKD3MGP8W/34PGRBS", "other.br:8080"),
]
NAMES = "8JMKD3MGP8W/35MME4E at archive.br, 8JMKD3MGP8W/34PGRBS at other.br:8080"
ALERT = Alert(AlertKind.UNKNOWN, parse_identifier(IBI), (), 1, 3)
SILENT = replace(ALERT, kind=AlertKind.SILENT)


def test_an_alert_is_explained_in_one_line() -> None:
    sources = tuple(NAMED)
    for alert, text in [
        (ALERT, f"no Archive has {IBI}"),
        (replace(ALERT, ibi=None, alias="hdl:1/2"), "no Archive has hdl:1/2"),
        (
            replace(ALERT, kind=AlertKind.MISSING, missing_part=MissingPart.FILE),
            f"{IBI} is known, but does not have this file",
        ),
        (replace(ALERT, kind=AlertKind.REMOVED), f"{IBI} was removed"),
        (
            replace(ALERT, kind=AlertKind.REMOVED, timestamp="2010-01-02T03:04:05Z"),
            f"{IBI} was removed on 2010-01-02",
        ),
        (
            replace(ALERT, kind=AlertKind.SUSPECTS, sources=sources),
            f"more than one source claims to have the Original of {IBI}: {NAMES}",
        ),
        (SILENT, f"{IBI} was not found, but 1 of 3 Archives did not answer"),
        (
            replace(SILENT, is_found=True),
            f"{IBI} was found, but not what was requested of it; 1 of 3 Archives did not answer",
        ),
        (
            replace(SILENT, sources=sources),
            f"{IBI} was removed from an Archive, but 1 of 3 Archives did not answer",
        ),
        (replace(SILENT, claimants=sources), f"{NAMES} has {IBI}, but did not answer"),
        (replace(ALERT, kind=AlertKind.LOOP), f"the answers about {IBI} form a cycle"),
        (
            replace(ALERT, kind=AlertKind.TOO_LONG),
            f"the chain of items is too long; the search stopped at {IBI}",
        ),
    ]:
        assert alert.summary == text


def test_the_alert_about_a_malformed_url_has_the_reason_and_a_suggestion() -> None:
    alert = Alert(AlertKind.MALFORMED, None, reason=Reason("url_too_long", limit=9), suggestion=IBI)
    assert alert.summary.startswith("this is not a persistent URL: ")
    assert IBI in alert.summary
    assert alert.kind.status == 400

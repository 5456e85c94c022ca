"""An alert of each kind."""

from __future__ import annotations

from typing import Any

from flask_ibi_archive.core.identifiers.parse import parse_identifier
from flask_ibi_archive.core.resolution.answer import ArchiveSource
from flask_ibi_archive.core.resolution.outcome import Alert, AlertKind, MissingPart
from flask_ibi_archive.core.resolution.persistent_url import parse_persistent_target

IBI = "8JMKD3MGP8W/35MMLL8"
IDENTIFIER = parse_identifier(IBI)
SOURCES = (
    ArchiveSource("sid.inpe.br/mtc-m18@80/2008/03.17.15.17", "mtc-m16c.sid.inpe.br"),
    ArchiveSource("8JMKD3MGP7W/3EPGUE5", "archive.example.org:8080"),
)
_TOMBSTONE: Any = {"sources": SOURCES[:1], "timestamp": "2010-01-02T03:04:05Z"}
_PARTS = tuple(parse_persistent_target(f"/{IBI}{rest}") for rest in ("+(en)", ":", ":(oai_dc)"))

UNKNOWN = Alert(AlertKind.UNKNOWN, IDENTIFIER)
REMOVED = Alert(AlertKind.REMOVED, IDENTIFIER, **_TOMBSTONE)
REMOVED_IN_PART = Alert(AlertKind.SILENT, IDENTIFIER, silent=1, asked=7, **_TOMBSTONE)
MISSING = Alert(
    AlertKind.MISSING, IDENTIFIER, missing_part=MissingPart.TRANSLATION, alternatives=_PARTS
)
SUSPECTS = Alert(AlertKind.SUSPECTS, IDENTIFIER, SOURCES)
SILENT = Alert(AlertKind.SILENT, IDENTIFIER, silent=2, asked=7)
LOOP = Alert(AlertKind.LOOP, IDENTIFIER)
TOO_LONG = Alert(AlertKind.TOO_LONG, IDENTIFIER)
ALERTS = (UNKNOWN, REMOVED, SUSPECTS, SILENT, LOOP, TOO_LONG, MISSING, REMOVED_IN_PART)

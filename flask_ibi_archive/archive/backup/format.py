"""What a backup is: a ZIP with a manifest, the rows of tables in parts, and contents by their
checksums.
"""

from __future__ import annotations

import re
from dataclasses import asdict, dataclass
from typing import Any

FORMAT = "flask_ibi_archive backup"
VERSION = 1

MANIFEST = "manifest.json"
#: The contents that could not be read when the backup was made, one a line.
FAULTS = "faults.jsonl"
PART = re.compile(r"tables/([a-z_]+)/([0-9]{6})\.jsonl")
CONTENT = re.compile(r"contents/([0-9a-f]{64})")

#: A part ends after so many rows or bytes.
PART_ROWS = 10_000
PART_BYTES = 32 << 20
#: No row, and no manifest, is longer.
MAX_TEXT = 64 << 20


@dataclass(frozen=True, slots=True)
class Part:
    """A part of the rows of a table: its name in the ZIP, rows, bytes and checksum."""

    name: str
    rows: int
    bytes: int
    sha256: str


@dataclass(frozen=True, slots=True)
class BackupManifest:
    """What a backup says of itself.

    :param revision: that of the tables; ``created``: when, in ISO 8601.
    :param archives: the IBIs of the services of its Archives.
    :param parts: those of each table; ``numbers``: what was given last to a row of it.
    :param contents: how many there are, whole; ``bytes``: of them; ``digest``: of their sorted
        checksums.
    :param faults: how many contents are missing or damaged.
    """

    revision: str
    created: str
    archives: list[str]
    parts: dict[str, list[Part]]
    numbers: dict[str, int]
    contents: int
    bytes: int
    digest: str
    faults: int

    def rows(self, table: str) -> int:
        """Return the number of rows of a table."""
        return sum(part.rows for part in self.parts.get(table, []))

    @property
    def all_rows(self) -> int:
        """The number of rows of all tables."""
        return sum(self.rows(table) for table in self.parts)


def format_manifest(manifest: BackupManifest) -> dict[str, Any]:
    """Return a manifest as JSON."""
    return {"format": FORMAT, "version": VERSION, **asdict(manifest)}


def parse_manifest(given: Any) -> BackupManifest:
    """Return the manifest that JSON says.

    :raises ValueError: if it says none, or one of another version.
    """
    if not isinstance(given, dict) or given.get("format") != FORMAT:
        raise ValueError(f"{MANIFEST} is none of {FORMAT}")
    if given.get("version") != VERSION:
        raise ValueError(
            f"it is written in version {str(given.get('version'))[:20]!r} of the format, this package "
            f"reads version {VERSION}"
        )
    names = BackupManifest.__dataclass_fields__
    if given.keys() != {"format", "version", *names}:
        raise ValueError(f"{MANIFEST} has other fields than it should")
    _check(given, str, "revision", "created", "digest")
    _check(given, int, "contents", "bytes", "faults")
    _check(given, dict, "parts", "numbers")
    _check(given, list, "archives")
    if not all(type(name) is str for name in given["archives"]):
        raise ValueError(f"archives in {MANIFEST} is not what it should be")
    _check(given["numbers"], int, *given["numbers"])
    _check(given["parts"], list, *given["parts"])
    parts = {table: [_part(one) for one in found] for table, found in given["parts"].items()}
    return BackupManifest(**{**{name: given[name] for name in names}, "parts": parts})


def _part(given: Any) -> Part:
    if not isinstance(given, dict) or given.keys() != Part.__dataclass_fields__.keys():
        raise ValueError(f"a part in {MANIFEST} has other fields than it should")
    _check(given, str, "name", "sha256")
    _check(given, int, "rows", "bytes")
    return Part(**given)


def _check(given: dict[str, Any], kind: type, *names: str) -> None:
    for name in names:
        if type(given[name]) is not kind or (kind is int and given[name] < 0):
            raise ValueError(f"{name[:80]} in {MANIFEST} is not what it should be")

"""Offers in folders: what is written, and the receipt that the giver answers."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

from support.archives import FAR_SERVICE

from flask_ibi_archive.archive.archive import Archive
from flask_ibi_archive.core.records.offers import OfferedRecord, hash_secret, parse_offered
from flask_ibi_archive.core.records.switches import (
    StoredVersion,
    format_receipt,
    parse_confirmation,
    parse_offer_file,
)

from .conftest import deposit, record_of

Run = Callable[..., Any]


def read_items(folder: Path) -> list[OfferedRecord]:
    lines = (folder / "items.jsonl").read_bytes().splitlines(keepends=True)
    return list(map(parse_offered, lines))


def write_receipt(folder: Path, items: list[OfferedRecord], secret: str | None = None) -> Path:
    """Write the receipt as the taker does."""
    description, own = parse_offer_file(json.loads((folder / "offer.json").read_bytes()))
    stored = [StoredVersion(item.number, item.version) for item in items]
    path = folder / "receipt.json"
    receipt = format_receipt(description.offer, stored, hash_secret(secret or own))
    path.write_text(json.dumps(receipt))
    return path


def test_a_folder_has_the_items_and_each_content_once(
    archive: Archive, run: Run, tmp_path: Path
) -> None:
    items = [deposit(archive, "On rain", "a.txt", "b.txt"), deposit(archive, "On snow", "a.txt")]
    made = run("offer", *items, "--to", FAR_SERVICE, "--to-folder", tmp_path / "offer")
    assert (made.exit_code, made.stdout) == (0, "")
    folder = tmp_path / "offer"
    assert folder.stat().st_mode & 0o777 == 0o700
    assert (folder / "offer.json").stat().st_mode & 0o777 == 0o600
    description, secret = parse_offer_file(json.loads((folder / "offer.json").read_bytes()))
    assert (description.items, description.files, description.taker) == (2, 3, FAR_SERVICE)
    assert secret not in made.output
    assert [item.record.rep for item in read_items(folder)] == items
    files = sorted(path.name for path in (folder / "files").iterdir())
    assert files == sorted(hashlib.sha256(name).hexdigest() for name in (b"a.txt", b"b.txt"))


def test_a_receipt_is_answered_and_can_be_repeated(
    archive: Archive, run: Run, tmp_path: Path
) -> None:
    items = [deposit(archive, title) for title in ("On rain", "On snow", "On hail")]
    folder = tmp_path / "offer"
    run("offer", *items, "--to", FAR_SERVICE, "--to-folder", folder)
    archive.edit(items[1], language="pt")
    stored = read_items(folder)[:2]
    receipt = write_receipt(folder, stored)
    for _ in range(2):
        answered = run("offers", "receipt", receipt)
        assert answered.exit_code == 0, answered.output
        assert "2 items: changed 1, switched 1" in answered.stderr
    key = hash_secret(parse_offer_file(json.loads((folder / "offer.json").read_bytes()))[1])
    confirmation = json.loads((folder / "confirmation.json").read_bytes())
    asked = [StoredVersion(item.number, item.version) for item in stored]
    answers = parse_confirmation(confirmation, asked, key)
    assert [answer.result for answer in answers] == ["switched", "changed"]
    states = [record_of(archive, item).state for item in items]
    assert states == ["Copy", "Original", "Original"]


def test_wrong_receipts_and_folders_are_refused_in_one_line(
    archive: Archive, run: Run, tmp_path: Path
) -> None:
    item, folder = deposit(archive, "On rain", "a.txt"), tmp_path / "offer"
    run("offer", item, "--to", FAR_SERVICE, "--to-folder", folder)
    receipt = write_receipt(folder, read_items(folder), "s" * 43)
    texts = {
        receipt.read_text(): "hmac: the receipt was changed, or belongs to another offer",
        re.sub(
            '"hmac": "', r"\g<0>\\ud800", receipt.read_text()
        ): "hmac: the text contains half of",
        "{": "the text is not JSON",
        "{}": "offer: None is not an offer: 16 hexadecimal digits",
        '{"offer": "0000000000000000"}': "this Archive has made no offer 0000000000000000",
    }
    for text, message in texts.items():
        receipt.write_text(text)
        refused = run("offers", "receipt", receipt)
        assert refused.exit_code == 1
        assert f"Error: {receipt}: " in refused.stderr
        assert message in refused.stderr
    missing = run("offers", "receipt", tmp_path / "missing.json")
    assert "missing.json can't be read: No such file or directory" in missing.stderr
    used = run("offer", item, "--to", FAR_SERVICE, "--as", "copy", "--to-folder", folder)
    assert f"Error: {folder} is not empty; name a new folder" in used.stderr
    assert record_of(archive, item).state == "Original"


def test_an_offer_that_cannot_be_written_is_withdrawn(
    archive: Archive, run: Run, tmp_path: Path
) -> None:
    item = deposit(archive, "On rain", "a.txt")
    [file] = record_of(archive, item).files
    archive.files_folder.path(file.sha256).unlink()
    failed = run("offer", item, "--to", FAR_SERVICE, "--to-folder", tmp_path / "offer")
    assert failed.exit_code == 1
    assert "can't be copied to" in failed.stderr
    assert [row["status"] for row in json.loads(run("offers", "--json").stdout)] == ["withdrawn"]

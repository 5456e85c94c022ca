"""Reads the claims that an Archive publishes, and checks the whole log."""

from __future__ import annotations

from hashlib import sha256

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from flask import Flask
from flask.testing import FlaskClient

from flask_ibi_archive.core.claims.checkpoint import open_checkpoint
from flask_ibi_archive.core.claims.claim import Claim, parse_claim
from flask_ibi_archive.core.claims.keys import parse_key
from flask_ibi_archive.core.claims.tiles import decode_entries, list_bundles
from support.archives import archive_of
from support.merkle_trees import find_root
from support.published_logs import sequence

ROOT = "/ibi/claims"


def read_entries(app: Flask) -> list[bytes]:
    """Return all entries of the log as a resolver reads them, after its signature was checked."""
    with app.app_context():  # a catalogue of the host may need it
        sequence(archive_of(app))
    archive_of(app).__dict__.pop("claims", None)  # the next look at the database is at once
    client = app.test_client()
    key = parse_key(get(client, "key").decode().strip())
    opened = open_checkpoint(get(client, "checkpoint").decode(), key)
    plain = opened.note.signatures[0]
    Ed25519PublicKey.from_public_bytes(key.public).verify(plain.data, opened.note.text.encode())
    entries: list[bytes] = []
    for bundle in list_bundles(0, opened.checkpoint.size):
        entries += decode_entries(get(client, bundle.path), bundle.width)
    assert find_root(entries) == opened.checkpoint.root
    return entries


def read_claims(app: Flask) -> dict[str, Claim]:
    """Return the last claim of each item, by the short identifier of the item."""
    claims = map(parse_claim, read_entries(app))
    return {claim.identifiers[-1]: claim for claim in claims}


def get(client: FlaskClient, path: str) -> bytes:
    """Return a file of the log."""
    answer = client.get(f"{ROOT}/{path}")
    assert answer.status_code == 200, answer.text
    return answer.data


def hash_entry(entry: bytes) -> bytes:
    """Return the hash of a leaf of the tree."""
    return sha256(b"\0" + entry).digest()

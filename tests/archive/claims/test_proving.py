"""Proofs with a real witness, and without one: who claimed what, and since when at the latest."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import pytest
from flask import Flask
from support.archives import SERVICE, archive_of
from support.cases import for_each
from support.commands import Outcome, command
from support.loopback import nobody, serving
from support.merkle_trees import find_path
from support.published_claims import read_entries
from support.witnesses import Witness

from flask_ibi_archive.archive.archive import Archive
from flask_ibi_archive.archive.claims.proving import Prover, format_add_checkpoint
from flask_ibi_archive.core.claims.claim import parse_claim
from flask_ibi_archive.core.claims.claim_proof import parse_claim_proof
from flask_ibi_archive.core.claims.keys import TIMESTAMPED, SigningKey
from flask_ibi_archive.errors import StorageError

NewApp = Callable[..., Flask]
#: The time of the signatures of the witness.
NOON = datetime(2026, 3, 1, 12, tzinfo=timezone.utc).timestamp()


@dataclass
class Case:
    """An Archive with a resolver that signs its checkpoints."""

    app: Flask
    witness: Witness

    @property
    def archive(self) -> Archive:
        return archive_of(self.app)

    def prove(self, ibi: str, **more: Any) -> str:
        """Return a proof that the resolver has signed."""
        prover = Prover(self.archive)
        proof = prover.prove(ibi)
        assert prover.problem is None
        return proof

    def fail(self, ibi: str) -> str:
        """Return why a proof has no signature of the resolver."""
        prover = Prover(self.archive)
        assert parse_claim_proof(prover.prove(ibi)).check().confirmations == ()
        assert prover.problem is not None
        return prover.problem


@contextmanager
def witnessed(new_app: NewApp) -> Iterator[Case]:
    """Yield an Archive with three items and a resolver."""
    apps: list[Flask] = []
    witness: Any = None
    with serving(lambda environ, start: witness(environ, start)) as address:
        app = new_app(IBI_RESOLVER_URL=f"http://{address}/J8LNKB5R7W/3FUQHC5")
        apps.append(app)
        archive = archive_of(app)
        archive.init()
        archive.claims.create_key()
        key = archive.claims.verifier()
        assert key is not None
        witness = Witness(key, lambda: read_entries(app))
        witness.clock = lambda: NOON
        for number in range(3):
            archive.deposit(title=f"Item {number}")
        yield Case(app, witness)


@pytest.fixture
def case(new_app: NewApp) -> Iterator[Case]:
    """An Archive with a resolver that signs its checkpoints."""
    with witnessed(new_app) as found:
        yield found


def test_each_item_is_proven_as_the_definition_of_the_tree_says(case: Case) -> None:
    entries = read_entries(case.app)
    for item in case.archive.find():
        proof = parse_claim_proof(case.prove(item.ibi))
        proven = proof.check(case.archive.claims.verifier(), [case.witness.key.verifier])
        assert item.ibi in proven.claim.identifiers
        assert proven.archive == SERVICE
        assert entries[proven.index] == proven.entry
        assert list(proof.proof.hashes) == find_path(proven.index, entries)
        assert [one.seconds for one in proven.confirmations] == [int(NOON)]
        assert [one.key for one in proven.confirmations] == [case.witness.key.verifier]


def test_either_form_and_an_alias_of_the_resolver_names_the_item(case: Case) -> None:
    item = next(iter(case.archive.find()))
    for ibi in item.record.identifiers:
        assert parse_claim_proof(case.prove(ibi)).check().claim.rep == item.record.rep


def test_the_proof_shows_the_last_claim_of_an_item(case: Case) -> None:
    item = case.archive.deposit(title="Rain")
    first = parse_claim_proof(case.prove(item.ibi)).check()
    case.archive.delete(item.ibi, reason="x")
    second = parse_claim_proof(case.prove(item.ibi)).check()
    assert (first.claim.state, second.claim.state) == ("Original", "Deleted")
    assert second.index > first.index


def test_the_log_begins_where_the_witness_says(case: Case) -> None:
    [item, *_] = case.archive.find()
    case.prove(item.ibi)
    case.archive.deposit(title="another")
    case.prove(item.ibi)
    case.prove(item.ibi)
    sizes = [len(read_entries(case.app)) - 1, len(read_entries(case.app))]
    # the first checkpoint is signed at once, and then each one after its size was told
    assert case.witness.asked == [
        "old 0", "old 0", f"old {sizes[0]}", "old 0", f"old {sizes[1]}",
    ]  # fmt: skip


def test_a_larger_checkpoint_that_another_process_sent_is_used(case: Case) -> None:
    [item, *_] = case.archive.find()

    def sign_larger(text: str) -> tuple[str, str]:
        case.witness.answer = case.witness.sign
        case.archive.deposit(title="meanwhile")
        case.witness.size = len(read_entries(case.app))
        return case.witness.sign(text)

    case.witness.answer = sign_larger
    proven = parse_claim_proof(case.prove(item.ibi)).check(None, [case.witness.key.verifier])
    assert proven.size == case.witness.size


def test_a_claim_of_an_unknown_or_hidden_item_cannot_be_proven(case: Case) -> None:
    for ibi in ("a.br/x/2001/01.01.00.00", case.archive.reserve().ibi):
        with pytest.raises(StorageError, match="has never claimed"):
            case.prove(ibi)


OTHER = SigningKey("urlib.net/J8LNKB5R7W/3FUQHC5", b"o" * 32)


@for_each(
    ("status", "body", "reason"),
    [
        ("404 Not Found", "unknown log\n", "does not sign the checkpoint (status 404: unknown log"),
        ("503 Busy", "alert {try again later}", "(status 503: try again later)"),
        ("403 Forbidden", "", "does not sign the checkpoint (status 403)"),
        ("422 Unprocessable Entity", "\x1b[31mno\n", "(status 422: [31mno"),
        ("200 OK", "", "a line of a signed note is no signature"),
        ("200 OK", "yes\n", "a line of a signed note is no signature"),
        ("200 OK", OTHER.cosign("x\n", 1).format(), "no signature of the key that it publishes"),
        ("409 Conflict", "many\n", "states no size of the log (status 409: many"),
        ("409 Conflict", "9" * 20, "states no size of the log"),
        ("409 Conflict", "1000\n", "has signed a checkpoint with 1000 claims, more than the log"),
        ("409 Conflict", "1\n", "does not sign the checkpoint (status 409: 1"),
    ],
)
def test_without_a_signature_of_the_resolver_the_proof_says_why(
    status: str, body: str, reason: str, new_app: NewApp
) -> None:
    with witnessed(new_app) as case:
        [item, *_] = case.archive.find()
        case.witness.answer = lambda text: (status, body)
        problem = case.fail(item.ibi)
    assert reason in problem
    assert "\x1b" not in problem


def test_a_false_signature_of_the_resolver_is_not_taken(case: Case) -> None:
    [item, *_] = case.archive.find()
    case.witness.answer = lambda text: (
        "200 OK",
        case.witness.key.cosign(f"another\n{text.partition(chr(10) * 2)[2]}", 1).format(),
    )
    assert case.fail(item.ibi) == f"the signature of {case.witness.key.name} is false"


@pytest.mark.parametrize("published", [404, 200])
def test_a_resolver_without_a_key_is_no_witness(case: Case, published: int) -> None:
    [item, *_] = case.archive.find()
    if published == 404:
        case.witness.key = None  # type: ignore[assignment]
        case.app.config["IBI_RESOLVER_URL"] = "x"
    config = case.archive.config
    url = f"{config.resolver_base}/{'nothing' if published == 404 else 'x'}"
    config.__dict__["resolver_base"] = url
    assert case.fail(item.ibi) == (
        "the resolver publishes no key of a witness (status 404: not here)"
    )


def test_a_resolver_that_cannot_be_reached_is_named(new_app: NewApp) -> None:
    with nobody() as address:
        app = new_app(IBI_RESOLVER_URL=f"http://user:secret@{address}/J8LNKB5R7W/3FUQHC5")
        archive_of(app).init()
        archive_of(app).claims.create_key()
        item = archive_of(app).deposit(title="Rain")
        prover = Prover(archive_of(app))
        assert parse_claim_proof(prover.prove(item.ibi)).check().confirmations == ()
    assert prover.problem == (
        f"http://{address}/ibi/claims/witness/key can't be reached (Connection refused)"
    )


def test_the_request_is_that_of_the_specification() -> None:
    body = format_add_checkpoint(2, [bytes(32), b"\1" * 32], "origin\n3\nroot\n\n— x y\n")
    assert body == (
        "old 2\n"
        "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=\n"
        "AQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQE=\n"
        "\n"
        "origin\n3\nroot\n\n— x y\n"
    )


# --- the commands --------------------------------------------------------------------------------


def no_app() -> Flask:
    raise AssertionError("check-proof needs no app")


def check(path: Path, *words: Any) -> Outcome:
    """Check a proof without an app."""
    return command(no_app, "check-proof", path, *words)


def test_the_commands_write_and_explain_a_proof(case: Case, tmp_path: Path) -> None:
    pdf = tmp_path / "rain.pdf"
    pdf.write_bytes(b"on rain")
    item = case.archive.deposit(title="Rain", files=[pdf], same_as=["doi:10.5281/zenodo.1"])
    path = tmp_path / "item.tlog-proof"
    assert command(case.app, "prove", item.ibi, "-o", path).data == ""
    key, witness = case.archive.claims.verifier(), case.witness.key.verifier
    assert key is not None
    witness_key = witness.format(TIMESTAMPED)
    claim = parse_claim(parse_claim_proof(path.read_text()).entry)
    size = len(read_entries(case.app))
    what = [
        f"The Archive {SERVICE} claims that it holds the Original of the item {item.rep} "
        f"({item.ibip}).",
        f"The item was last changed at {claim.timestamp}.",
        "The item is also known as doi:10.5281/zenodo.1.",
        f"Its main file has the SHA-256 checksum {claim.sha256}.",
        f"The claim has the number {size} in the log of {size} claims.",
        "The log contained the claim at 2026-03-01T12:00:00Z at the latest: "
        f"{witness.name} witnesses this.",
    ]
    assert check(path).lines == [
        *what,
        f"The key of the Archive {SERVICE} is only stated in the proof. Compare it with "
        f"/ibi/claims/key of the Archive: {key.format()}",
        f"The key of the witness {witness.name} is only stated in the proof. Compare it with "
        f"/ibi/claims/witness/key of the witness: {witness_key}",
    ]
    keys = ["--archive-key", key.format(), "--witness-key", witness_key]
    assert check(path, *keys).lines == [
        *what,
        f"The key of the Archive {SERVICE} is the one that you gave.",
        f"The key of the witness {witness.name} is the one that you gave.",
    ]
    facts = json.loads(check(path, *keys, "--json").data)
    assert facts["aliases"] == ["doi:10.5281/zenodo.1"]
    assert facts["witnesses"] == [
        {"key": witness_key, "key_given": True, "signed_at": "2026-03-01T12:00:00Z"}
    ]
    assert command(no_app, "check-proof", "-", stdin=path.read_bytes()).lines[:-2] == what


def test_a_proof_without_a_witness_is_written_with_a_warning(new_app: NewApp) -> None:
    with nobody() as address:
        app = new_app(IBI_RESOLVER_URL=f"http://{address}/x")
        archive_of(app).init()
        archive_of(app).claims.create_key()
        item = archive_of(app).deposit(title="Rain")
        done = command(app, "prove", item.ibi)
    assert done.status == 0
    assert done.err.startswith(
        f"Warning: the proof has no signature of the resolver: http://{address}"
    )
    lines = command(no_app, "check-proof", "-", stdin=done.raw).lines
    assert "No witness says when the log contained the claim; the Archive itself says 20" in (
        "\n".join(lines)
    )


def test_a_false_proof_is_an_error_in_one_line(case: Case, tmp_path: Path) -> None:
    [item, *_] = case.archive.find()
    path = tmp_path / "item.tlog-proof"
    path.write_text(case.prove(item.ibi))
    other = SigningKey(SERVICE, bytes(32)).verifier.format()
    assert check(path, "--archive-key", other).error == (
        f"{path}: the checkpoint is not signed by the known key of {SERVICE}"
    )
    assert "has no signature of the witness" in check(path, "--witness-key", other).error
    changed = path.read_text().replace("index ", "index 1")
    path.write_text(changed)
    error = "the proof does not show that the log contains this claim"
    assert check(path).error == f"{path}: {error}"
    outcome = command(no_app, "check-proof", "-", stdin=path.read_bytes())
    assert outcome.error == f"standard input: {error}"
    path.write_bytes(b"\xff")
    assert check(path).error == f"{path} is not UTF-8 text"
    assert check(tmp_path / "none").error.endswith("can't be read: No such file or directory")
    assert "is not an Ed25519 key" in check(path, "--archive-key", "x").usage


def test_prove_refuses_what_has_no_claim(case: Case, new_app: NewApp, tmp_path: Path) -> None:
    assert "has never claimed" in command(case.app, "prove", "a.br/x/2001/01.01.00.00").error
    [item, *_] = case.archive.find()
    outcome = command(case.app, "prove", item.ibi, "-o", tmp_path / "none" / "x")
    assert "can't be written: No such file or directory" in outcome.error
    off = new_app(IBI_CLAIMS=False)
    assert "publishes no claims" in command(off, "prove", item.ibi).error

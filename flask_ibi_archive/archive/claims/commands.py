"""Commands for claims: claims status, key and rotate; prove and check-proof."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click

from flask_ibi_archive.core.identifiers.dates import format_timestamp
from flask_ibi_archive.server.commands.group import get_archive, json_option, read_ibi, yes_option
from flask_ibi_archive.server.commands.terminal import (
    confirm,
    say,
    standard_input,
    standard_output,
    warn,
    write,
    write_json,
)

if TYPE_CHECKING:
    from flask_ibi_archive.core.claims.keys import VerifierKey

NO_CLAIMS = "this Archive publishes no claims; flask ibi claims status says why"


@click.group("claims")
def claims_command() -> None:
    """Show the log of claims and its key, or replace the key.

    In the log of claims, the Archive states in signed form what it holds. Resolvers read the log at
    /ibi/claims/checkpoint, and witness it. The private key is in the folder IBI_CLAIMS_FOLDER, or
    in the setting IBI_CLAIMS_KEY. The database does not contain it: keep a copy in a safe place.

    \b
    Example:
      flask --app example_app ibi claims status
    """


@claims_command.command("status")
@json_option
def status_command(as_json: bool) -> None:
    """Show the number of claims, the pending changes and the key.

    "number" is the number of the log: 1, unless the Archive had to begin a new one. "size" is the
    number of claims in the log, and "pending" that of the changes that it does not contain yet.
    Pending changes become claims when a resolver asks for the next checkpoint. If no claims are to
    be published, the line "disabled" says why. If the administrator must do something, the last
    line says what.

    \b
    Example:
      flask --app example_app ibi claims status
    """
    status = get_archive().claims.status()
    values = asdict(status) | {"folder": str(status.folder)}
    for name in ("begun_at", "signed_at"):
        values[name] = format_timestamp(values[name])
    if as_json:
        write_json(values)
        return
    for name, value in values.items():
        if value is not None:
            write(f"{name.replace('_', ' ')}: {value}")


@claims_command.command("key")
def key_command() -> None:
    """Print the public key with which resolvers check the claims.

    The same key is at /ibi/claims/key. A resolver reads it there when it includes the Archive.

    \b
    Example:
      flask --app example_app ibi claims key
    """
    key = get_archive().claims.verifier()
    if key is None:
        raise click.ClickException(NO_CLAIMS)
    write(key.format())


@claims_command.command("rotate")
@click.option(
    "--new-log", is_flag=True, help="Begin a new log with the new key. Necessary after a fork."
)
@yes_option
def rotate_command(new_log: bool, yes: bool) -> None:
    """Replace the private key, for example because others may know it.

    Prints the new public key. Resolvers do not accept claims with the new key until you run flask
    ibi register-archive. Until then, they ask the Archive for each item, as before it had claims.

    A log that has forked can't be continued. With --new-log, the Archive claims all its items again
    in a new log, with another name. Proofs from the earlier log remain valid.

    \b
    Example:
      flask --app example_app ibi claims rotate
      flask --app example_app ibi claims rotate --new-log
    """
    archive = get_archive()
    standard_output()
    if not archive.claims.is_enabled:
        raise click.ClickException(NO_CLAIMS)
    confirm("Replace the key of the claims? Resolvers must then include the Archive again.", yes)
    write(archive.claims.rotate(new_log).format())
    say("now run: flask ibi register-archive")


@click.command("prove")
@click.argument("ibi", metavar="IBI", type=read_ibi)
@click.option(
    "-o",
    "--output",
    "target",
    type=click.Path(dir_okay=False, writable=True, path_type=Path),
    help="Write the proof to this file instead of standard output.",
)
def prove_command(ibi: str, target: Path | None) -> None:
    """Write a proof of what the Archive claims about an item.

    The proof contains the last claim of the item (its state, its identifiers, the checksum of its
    main file), and the signatures of the Archive and of the resolver. The signature of the resolver
    contains the time. Everyone can check the proof with flask ibi check-proof, or with another
    program for tlog-proof, also if neither the Archive nor the resolver exists any more.

    If the resolver does not sign, the command says why on standard error. The proof then lacks the
    signature of the resolver, and only the Archive itself states the time.

    \b
    Example:
      flask --app example_app ibi prove 8JMKD3MGP8W/35MME4E -o item.tlog-proof
    """
    from flask_ibi_archive.archive.claims.proving import Prover
    from flask_ibi_archive.core.identifiers import parse_identifier

    archive = get_archive()
    if target is None:
        standard_output()
    prover = Prover(archive)
    proof = prover.prove(parse_identifier(ibi).text)
    if target is None:
        write(proof, nl=False)
    else:
        try:
            target.write_text(proof, encoding="utf-8")
        except OSError as error:
            raise click.ClickException(f"{target} can't be written: {error.strerror}") from error
    if prover.problem is not None:
        warn(f"the proof has no signature of the resolver: {prover.problem}")


def _parse_keys(
    context: click.Context, parameter: click.Parameter, value: str | tuple[str, ...] | None
) -> tuple[VerifierKey, ...]:
    from flask_ibi_archive.core.claims.keys import parse_key
    from flask_ibi_archive.errors import ClaimError

    texts = value if isinstance(value, tuple) else () if value is None else (value,)
    try:
        return tuple(parse_key(text.strip()) for text in texts)
    except ClaimError as error:
        raise click.BadParameter(str(error)) from error


@click.command("check-proof")
@click.argument("source", metavar="FILE", type=click.Path(dir_okay=False, allow_dash=True))
@click.option(
    "--archive-key",
    "archive_keys",
    metavar="KEY",
    callback=_parse_keys,
    help="The public key of the Archive (from /ibi/claims/key).",
)
@click.option(
    "--witness-key",
    "witnesses",
    metavar="KEY",
    multiple=True,
    callback=_parse_keys,
    help="The public key of a resolver that must have signed (from /ibi/claims/witness/key). "
    "Can be repeated.",
)
@json_option
def check_proof_command(
    source: str,
    archive_keys: tuple[VerifierKey, ...],
    witnesses: tuple[VerifierKey, ...],
    as_json: bool,
) -> None:
    """Check a proof that flask ibi prove has written.

    FILE can be "-" for standard input. The command needs neither a network nor a database. It says
    which Archive claimed what, since when at the latest, and who confirms this. If a part of the
    proof is false, the command says so, and the exit status is 1.

    The proof states the keys with which it can be checked. Whoever made the file could have stated
    keys of their own. Give the right keys with the options, or compare them with the published
    ones.

    \b
    Example:
      flask --app example_app ibi check-proof item.tlog-proof
    """
    from flask_ibi_archive.archive.claims.proof_texts import explain, list_facts
    from flask_ibi_archive.core.claims.claim_proof import parse_claim_proof
    from flask_ibi_archive.errors import ClaimError

    text = _read(source)
    try:
        proven = parse_claim_proof(text).check(next(iter(archive_keys), None), witnesses)
    except ClaimError as error:
        name = "standard input" if source == "-" else source
        raise ClaimError(f"{name}: {error}") from error
    if as_json:
        write_json(list_facts(proven))
    else:
        for sentence in explain(proven):
            write(sentence)


def _read(source: str) -> str:
    try:
        if source == "-":
            return standard_input().read().decode()
        return Path(source).read_bytes().decode()
    except OSError as error:
        raise click.ClickException(f"{source} can't be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise click.ClickException(f"{source} is not UTF-8 text") from error

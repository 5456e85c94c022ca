"""Commands for moves between servers: offer, offers, offers withdraw and offers receipt."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from flask_ibi_archive.archive.moving.accept_commands import refused_command
from flask_ibi_archive.server.commands.group import (
    get_archive,
    json_option,
    parse_period,
    read_ibi,
)
from flask_ibi_archive.server.commands.terminal import (
    Bars,
    say,
    standard_input,
    standard_output,
    write,
    write_table,
)

if TYPE_CHECKING:
    from flask_ibi_archive.archive.archive import Archive
    from flask_ibi_archive.archive.moving.choosing import Terms
    from flask_ibi_archive.archive.moving.offers import NewOffer

_COLUMNS = (
    "offer",
    "direction",
    "archive",
    "kind",
    "items",
    "bytes",
    "settled",
    "refused",
    "created_at",
    "expires_at",
    "status",
)


def _parse_period(context: click.Context, parameter: click.Parameter, value: str) -> timedelta:
    return parse_period(value)


@click.command("offer")
@click.argument("identifiers", metavar="[IBI]...", type=read_ibi, nargs=-1)
@click.option("--all", "all_items", is_flag=True, help="Offer all items.")
@click.option(
    "--where",
    metavar="TEXT",
    help="Offer all items with TEXT in a title, a creator or an identifier.",
)
@click.option(
    "--file",
    "listed",
    metavar="LIST",
    type=click.Path(dir_okay=False, allow_dash=True),
    help="Offer the items that a file lists, one IBI in each line; - reads standard input.",
)
@click.option(
    "--accepted",
    metavar="OFFER",
    help="Offer the items that came with this accepted offer, to move them back.",
)
@click.option(
    "--to",
    required=True,
    type=read_ibi,
    metavar="IBI",
    help="The service IBI of the other Archive.",
)
@click.option(
    "--as",
    "kind",
    type=click.Choice(["move", "copy"]),
    default="move",
    show_default=True,
    help="Move the items to the other Archive, or let it make Copies.",
)
@click.option(
    "--leave",
    type=click.Choice(["copy", "tombstone"]),
    default="copy",
    show_default=True,
    help="What remains here of an item that was moved.",
)
@click.option(
    "--expires",
    "period",
    default="30d",
    show_default=True,
    callback=_parse_period,
    help="When the offer expires: a number of days (d), weeks (w), months (m) or years (y).",
)
@click.option(
    "--to-folder",
    "folder",
    metavar="DIR",
    type=click.Path(file_okay=False, path_type=Path),
    help="Write the items and their files to a new folder, for an Archive that cannot reach this "
    "one.",
)
def offer_command(
    identifiers: tuple[str, ...],
    to: str,
    kind: str,
    leave: str,
    period: timedelta,
    folder: Path | None,
    **choice: Any,
) -> None:
    """Offer items to an Archive on another server.

    Prints the address of the offer with its secret, which cannot be shown again. Give it to the
    administrator of the other Archive, who runs there: flask ibi accept. Whoever has the address
    can read the offered items and take them. Until an item is moved, it stays as it is here, and
    can be changed.

    Name the items, or choose them with --all, --where, --file or --accepted. Items that cannot be
    offered (Copies, items that are not transferable, items in another open offer) are left out by
    --all and --where. A metadata item that describes the items is offered with them.

    \b
    Example:
      flask --app example_app ibi offer 8JMKD3MGP8W/35MME4E \\
          --to sid.inpe.br/mtc-m19@80/2009/08.21.17.02
    """
    from flask_ibi_archive.archive.moving.choosing import Terms
    from flask_ibi_archive.archive.moving.folders import prepare_folder
    from flask_ibi_archive.archive.moving.offers import make_offer
    from flask_ibi_archive.core.protocol.states import State
    from flask_ibi_archive.core.records.offers import PATH, OfferAddress

    states = {"copy": State.COPY, "tombstone": State.DELETED}
    terms = Terms(to, states[leave] if kind == "move" else None, period)
    archive = get_archive()
    archive.check_has_items()
    standard_output()
    items = _choose(archive, identifiers, **choice)
    if folder is not None:
        prepare_folder(folder)
    new = make_offer(archive, terms, **items)
    if folder is not None:
        _write_folder(archive, new, folder)
    else:
        url = f"{archive.addresses.base}{PATH}/{new.public_id}"
        write(OfferAddress(url, new.secret).text)
    _report(new, terms, folder)
    if terms.leaves is State.DELETED:
        say("Once an item is moved, the other Archive has the only Original, and no copy is here.")


def _choose(
    archive: Archive,
    identifiers: tuple[str, ...],
    all_items: bool,
    where: str | None,
    listed: str | None,
    accepted: str | None,
) -> dict[str, Any]:
    """Return the arguments of :func:`~.offers.make_offer` that choose the items."""
    from flask_ibi_archive.archive.items.conditions import select_items
    from flask_ibi_archive.archive.moving.choosing import find_accepted

    ways = [bool(identifiers), all_items, *(one is not None for one in (where, listed, accepted))]
    if sum(ways) != 1:
        raise click.UsageError(
            "choose the items with one of: IBI..., --all, --where, --file, --accepted"
        )
    if accepted is not None:
        return {"identifiers": find_accepted(archive, accepted)}
    if listed is not None:
        return {"identifiers": list(_read_list(listed))}
    return {
        "identifiers": identifiers,
        "where": None if identifiers else select_items(search=where),
    }


def _read_list(path: str) -> Iterator[str]:
    """Yield the identifiers in a file."""
    try:
        stream = standard_input() if path == "-" else Path(path).open("rb")  # noqa: SIM115
        with stream:
            for number, line in enumerate(stream, 1):
                try:
                    text = line.decode().strip()
                except UnicodeDecodeError as error:
                    raise click.ClickException(f"{path}, line {number}: not UTF-8") from error
                if text:
                    yield read_ibi(text)
    except OSError as error:
        raise click.ClickException(f"{path} can't be read: {error.strerror}") from error


def _write_folder(archive: Archive, new: NewOffer, folder: Path) -> None:
    """Write an offer to a folder. If this fails, the offer is withdrawn."""
    from flask_ibi_archive.archive.moving.folders import write_folder
    from flask_ibi_archive.archive.moving.giving import find_offer
    from flask_ibi_archive.archive.moving.offers import withdraw_offer

    offer = find_offer(archive, new.public_id, new.secret)
    assert offer is not None
    try:
        with Bars(items="Writing") as bars:
            write_folder(
                archive,
                offer,
                new.secret,
                folder,
                lambda done, total: bars.show("items", done, total),
            )
    except BaseException:
        withdraw_offer(archive, new.public_id)
        raise


def _report(new: NewOffer, terms: Terms, folder: Path | None) -> None:
    added = f", {new.added} of them metadata items that were added" if new.added else ""
    say(f"offer {new.public_id}: {new.items} items ({new.bytes} bytes) to {terms.to}{added}")
    if new.left_out:
        say(f"{new.left_out} items can't be offered, and were left out")
    say(
        "Give the address to the administrator of the other Archive; it cannot be shown again."
        if folder is None
        else f"Give the folder {folder} to the administrator of the other Archive; it contains the "
        "secret of the offer."
    )


@click.group("offers", invoke_without_command=True)
@json_option
@click.pass_context
def offers_command(context: click.Context, as_json: bool) -> None:
    """List the offers made and accepted, with their progress.

    Prints one line for each offer. "settled" is the number of items that were moved or copied, and
    "refused" the number of items that could not be taken; offers refused lists them.

    \b
    Example:
      flask --app example_app ibi offers
    """
    if context.invoked_subcommand is not None:
        return
    archive = get_archive()
    standard_output()
    write_table(_COLUMNS, [*_list_made(archive), *_list_accepted(archive)], as_json)


def _list_made(archive: Archive) -> Iterator[dict[str, Any]]:
    from flask_ibi_archive.archive.moving.offers import list_offers
    from flask_ibi_archive.core.identifiers.dates import format_timestamp

    now = archive.clock()
    for offer in list_offers(archive):
        yield {
            "offer": offer.public_id,
            "direction": "made",
            "archive": offer.taker,
            "kind": offer.kind,
            "items": offer.items,
            "bytes": offer.bytes,
            "settled": offer.settled,
            "refused": None,
            "created_at": format_timestamp(offer.created_at),
            "expires_at": format_timestamp(offer.expires_at),
            "status": offer.get_status(now),
        }


def _list_accepted(archive: Archive) -> Iterator[dict[str, Any]]:
    from flask_ibi_archive.archive.moving.offers import list_acceptances
    from flask_ibi_archive.core.identifiers.dates import format_timestamp

    for acceptance in list_acceptances(archive):
        yield {
            "offer": acceptance.public_id,
            "direction": "accepted",
            "archive": acceptance.giver,
            "kind": acceptance.kind,
            "items": acceptance.items,
            "bytes": acceptance.bytes,
            "settled": acceptance.done,
            "refused": acceptance.refused,
            "created_at": format_timestamp(acceptance.started_at),
            "expires_at": None,
            "status": "open" if acceptance.finished_at is None else "done",
        }


@offers_command.command("withdraw")
@click.argument("offer", metavar="OFFER")
@click.option(
    "--not-moved",
    is_flag=True,
    help="After a backup was restored: no item was moved, as the administrator of the other "
    "Archive has confirmed. The items become Originals again.",
)
def withdraw_command(offer: str, not_moved: bool) -> None:
    """Withdraw an offer, as long as no item was moved.

    \b
    Example:
      flask --app example_app ibi offers withdraw 0123456789abcdef
    """
    from flask_ibi_archive.archive.moving.offers import withdraw_offer

    withdraw_offer(get_archive(), offer, not_moved)
    say(f"withdrawn: {offer}")


@offers_command.command("receipt")
@click.argument("path", metavar="FILE", type=click.Path(dir_okay=False, path_type=Path))
def receipt_command(path: Path) -> None:
    """Switch the items that a receipt names, and write confirmation.json beside it.

    FILE is the receipt.json that the other Archive has written to the folder of an offer. Give
    confirmation.json to its administrator, who runs flask ibi accept again. The command can be
    repeated.

    \b
    Example:
      flask --app example_app ibi offers receipt /mnt/usb/offer/receipt.json
    """
    from flask_ibi_archive.archive.moving.folders import answer_receipt

    archive = get_archive()
    with Bars(items="Moving") as bars:
        answers = answer_receipt(archive, path, lambda done, total: bars.show("items", done, total))
    results = Counter(answer.result for answer in answers)
    counts = ", ".join(f"{result} {count}" for result, count in sorted(results.items()))
    say(f"{len(answers)} items: {counts}")
    for answer in answers:
        if answer.reason is not None:
            say(f"item {answer.number} stays here: {answer.reason}")


offers_command.add_command(refused_command)

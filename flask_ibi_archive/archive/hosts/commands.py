"""The commands ``adopt`` and ``compare``, for the rows of the host's own models."""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict
from importlib import import_module
from typing import TYPE_CHECKING, Any

import click

from flask_ibi_archive.server.commands.group import get_archive, json_option
from flask_ibi_archive.server.commands.terminal import Bars, write, write_json_list

if TYPE_CHECKING:
    from collections.abc import Iterator

    from flask_ibi_archive.archive.hosts.models import IdentifiedItem
    from flask_ibi_archive.archive.hosts.sync import Difference, Sync


@click.command("adopt")
@click.argument("model", metavar="MODULE:MODEL")
@click.option("--where", metavar="SQL", help="Adopt only the rows that fulfil an SQL condition.")
@click.option("--dry-run", is_flag=True, help="Report all problems. Change nothing.")
def adopt_command(model: str, where: str | None, dry_run: bool) -> None:
    """Assign identifiers and items to existing rows of a model.

    MODULE:MODEL is a model with IdentifiedItem, such as myapp.models:Thesis. The table must already
    have the columns of IdentifiedItem. Rows that have identifiers are ignored. If a row refers to
    another row as its previous edition or as the item that it translates, the other row is adopted
    too, even if it does not fulfil --where.

    Rows that have lost their identifiers get them back: the Archive knows the table and the primary
    key of each item.

    If a row cannot be adopted, its class, its primary key, the wrong field and the reason are
    written to standard output, one line per row. The other rows are adopted. The exit status is 1.
    Correct the rows and run the command again.

    The rows are committed in batches. If the adoption is interrupted, run the same command again to
    continue. With --dry-run, nothing is written and no identifier is used up.

    \b
    Example:
      flask --app example_app ibi adopt example_app.models:Publication --where "year > 1990"
    """
    from flask_ibi_archive.archive.hosts.sync import LOST

    counts: Counter[str] = Counter()
    with Bars(rows="Adopting") as bars:
        sync = _sync(model, bars, adopt=True, where=where, dry_run=dry_run)
        for difference in sync.run():
            if difference.repaired:
                counts["reconnected" if difference.kind == LOST else "adopted"] += 1
            else:
                counts["refused"] += 1
                bars.clear()
                write(f"{difference.row}: {difference.reason}")
    would, refused = "would be " if dry_run else "", counts["refused"]
    names = ["adopted", *(["reconnected"] if counts["reconnected"] else []), "refused"]
    write(", ".join(f"{would}{name} {counts[name]}" for name in names))
    if refused:
        rows = "1 row" if refused == 1 else f"{refused} rows"
        could = "can't" if dry_run else "could not"
        raise click.ClickException(f"{rows} {could} be adopted; correct them and run adopt again")


@click.command("compare")
@click.argument("model", metavar="MODULE:MODEL")
@click.option("--repair", is_flag=True, help="Repair the differences.")
@click.option(
    "--reason",
    metavar="TEXT",
    help='The reason in new tombstones. Default: "removed by the repository".',
)
@json_option
def compare_command(model: str, repair: bool, reason: str | None, as_json: bool) -> None:
    """Compare the rows of a model with their items.

    MODULE:MODEL is a model with IdentifiedItem, such as myapp.models:Thesis. Bulk statements,
    deletions by the database and restores of a single table change rows without their items. The
    command reports rows without an item, rows that have lost their identifier, rows whose record
    differs from that of the item, and items whose row is missing. The exit status is 1 if there are
    differences.

    With --repair, rows get back their identifiers, items are deposited and changed, and an item
    whose row is missing becomes a tombstone, which is permanent. These are the items of the whole
    table, also if the model is a subclass. Run the command without --repair first. The repairs are
    committed in batches. The exit status is 1 if a difference remains.

    \b
    Example:
      flask --app example_app ibi compare example_app.models:Publication
    """
    from flask_ibi_archive.archive.hosts.models import DEFAULT_REASON
    from flask_ibi_archive.core.records.values import FieldError, parse_text

    if reason is not None and not repair:
        raise click.UsageError("--reason can't be used without --repair")
    try:
        stated = DEFAULT_REASON if reason is None else parse_text("--reason", reason)
    except FieldError as error:
        raise click.UsageError(str(error)) from error
    counts: Counter[bool] = Counter()
    with Bars(rows="Comparing") as bars:
        sync = _sync(model, bars, repair=repair, reason=stated)

        def find() -> Iterator[Difference]:
            for difference in sync.run():
                counts[difference.repaired] += 1
                bars.clear()
                yield difference

        if as_json:
            write_json_list(asdict(difference) for difference in find())
        else:
            for difference in find():
                end = f"; not repaired: {difference.reason}" if difference.reason else ""
                repaired = " (repaired)" if difference.repaired else ""
                write(f"{difference.row}: {difference.text}{end}{repaired}")
    if not as_json:
        repaired = f", repaired {counts[True]}" if repair else ""
        found = f"compared {sync.rows} rows and {sync.items} items"
        write(f"{found}: differences {counts.total()}{repaired}")
    if counts[False]:
        raise click.exceptions.Exit(1)


def _sync(model: str, bars: Bars, **options: Any) -> Sync:
    """Return the comparison of a model of the current app."""
    from flask_ibi_archive.archive.hosts.models import find_current_archive
    from flask_ibi_archive.archive.hosts.sync import Sync

    get_archive()  # reports an app without an Archive
    model_class = load_model(model)
    archive = find_current_archive()  # with the session of the host
    return Sync(
        archive, model_class, progress=lambda done, total: bars.show("rows", done, total), **options
    )


def load_model(name: str) -> type[IdentifiedItem]:
    """Return the model that a text such as ``myapp.models:Thesis`` names.

    :raises BadParameter: if there is no such model, or if the model has no IdentifiedItem.
    """
    from flask_ibi_archive.archive.hosts.models import list_models

    module_name, _, class_name = name.partition(":")
    if not module_name or not class_name:
        raise _refuse(f"{name!a} should be MODULE:MODEL, such as myapp.models:Thesis")
    try:
        models = list_models(import_module(module_name))
    except Exception as error:
        reason = f"{type(error).__name__}: {' '.join(str(error).split())}"
        raise _refuse(f"the module {module_name} can't be imported: {reason}") from error
    if class_name not in models:
        raise _refuse(
            f"{class_name} is not a model with IdentifiedItem; the models with IdentifiedItem in "
            f"{module_name} are: {', '.join(sorted(models)) or 'none'}"
        )
    return models[class_name]


def _refuse(reason: str) -> click.BadParameter:
    return click.BadParameter(reason, param_hint="'MODULE:MODEL'")

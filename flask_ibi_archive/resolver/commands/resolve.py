"""The command ``resolve``: shows to which URL a persistent URL leads."""

from __future__ import annotations

import sys
from functools import partial
from typing import TYPE_CHECKING, Any

import click

from flask_ibi_archive.core.protocol.hosts import InnerHosts, parse_client_addresses
from flask_ibi_archive.core.protocol.languages import parse_accept_language
from flask_ibi_archive.core.protocol.pairs import format_pairs
from flask_ibi_archive.core.protocol.relations import format_verb_list
from flask_ibi_archive.core.resolution import persistent_url
from flask_ibi_archive.core.resolution.answer import Answer, find_usable_url
from flask_ibi_archive.core.resolution.outcome import Alert, NextRound, Redirect
from flask_ibi_archive.resolver.commands import get_resolver
from flask_ibi_archive.server.commands import terminal
from flask_ibi_archive.server.commands.group import json_option

if TYPE_CHECKING:
    from collections.abc import Collection

    from flask_ibi_archive.resolver.resolving import TraceEvent

#: The default IP address of the user. The questions to Archives contain this address.
LOCALHOST = "127.0.0.1"


@click.command("resolve")
@click.argument("url")
@click.option("--trace", is_flag=True, help="Print all messages and decisions on standard error.")
@click.option(
    "--ip",
    default=LOCALHOST,
    show_default=True,
    help="The IP addresses of the user and the proxies.",
)
@click.option(
    "--language", metavar="RANGES", help="The preferred languages, such as pt-BR,en;q=0.5."
)
@json_option
def resolve_command(url: str, trace: bool, ip: str, language: str | None, as_json: bool) -> None:
    """Show to which URL a persistent URL leads.

    URL is a persistent URL, or an IBI with or without a modifier. The resolver asks the Archives in
    the same way as for a user who opens the URL, but sends no acknowledgment. If the persistent URL
    cannot be resolved, the exit status is 1.

    \b
    Example:
      flask --app example_app:create_resolver ibi-resolver resolve 8JMKD3MGP8W/35MMLL8
      flask --app example_app:create_resolver ibi-resolver resolve --trace \\
        '8JMKD3MGP8W/35MMLL8!:(oai_dc)'
    """

    try:
        addresses = parse_client_addresses(ip)
    except ValueError as error:
        raise click.BadParameter(str(error), param_hint="--ip") from error
    resolver = get_resolver()
    wanted = persistent_url.read_persistent_url(url)
    ranges = parse_accept_language(language)
    request = persistent_url.ResolutionRequest(wanted, url, addresses, ranges)
    print_event = partial(_print_event, inner_hosts=resolver.config.inner_hosts)
    outcome = resolver.resolve(request, print_event if trace else None, acknowledges=False)
    target = (
        persistent_url.add_query(outcome.url, wanted.passed_query)
        if isinstance(outcome, Redirect)
        else None
    )
    if as_json:
        terminal.write_json(_describe_outcome(outcome, target))
    elif target is not None:
        terminal.write(target)
    if not isinstance(outcome, Redirect):
        raise click.ClickException(_summarise(outcome))


def _describe_outcome(outcome: Redirect | Alert, target: str | None) -> dict[str, Any]:

    if isinstance(outcome, Redirect):
        source = outcome.source
        return {
            "url": target,
            "state": outcome.state,
            "content_type": outcome.content_type,
            "ibi": [ibi.text for ibi in outcome.ibi],
            "actor" if source.is_actor else "archive": {
                "service": source.service,
                "address": source.address,
            },
        }
    return {
        "url": None,
        "alert": outcome.kind.value,
        "status": outcome.kind.status,
        "ibi": None if outcome.ibi is None else outcome.ibi.text,
        "archives": [
            {"service": source.service, "address": source.address} for source in outcome.sources
        ],
        "lack": None if outcome.missing_part is None else outcome.missing_part.name.lower(),
        "found": [persistent_url.format_persistent_target(url) for url in outcome.alternatives],
        "silent": outcome.silent,
        "asked": outcome.asked,
        "timestamp": outcome.timestamp,
    }


def _print_event(event: TraceEvent, inner_hosts: InnerHosts) -> None:
    from flask_ibi_archive.resolver.asking import Failure, Reply
    from flask_ibi_archive.resolver.resolving import Asked, Decided, Skipped

    match event:
        case Asked(target, is_first):
            why = " (asked first, because it claims the item, or gave similar ones)"
            why = why if is_first else ""
            terminal.say(f"-> {target.archive.address}{why}\n     {target.url}")
        case Reply(target, pairs, seconds):
            terminal.say(f"<- {target.archive.address}, {seconds * 1000:.0f} ms")
            terminal.say(_format_pairs(pairs, target.archive.address, inner_hosts))
        case Answer(source=source):
            terminal.say(f"<> registered by actor {source.service} at {source.address}")
            terminal.say(_format_pairs(event.pairs.items(), source.address, inner_hosts))
        case Failure(target, reason, seconds):
            terminal.say(f"<- {target.archive.address} {reason} ({seconds * 1000:.0f} ms)")
        case Skipped(archive):
            terminal.say(f"-- {archive.address} is skipped because it failed repeatedly")
        case Decided():
            late = f" ({event.late} Archives have not answered)" if event.late else ""
            terminal.say(f"== round {event.round}{late}: {_summarise(event.outcome)}")
    sys.stderr.flush()


def _format_pairs(
    pairs: Collection[tuple[str, tuple[str, ...]]], address: str, inner_hosts: InnerHosts
) -> str:
    """Return the pairs of an answer, one pair on each line.

    After the pairs, a line is added for each URL that is not usable.

    :param address: the host and port of the Archive or actor.
    """

    text = format_pairs(pairs) or "(this Archive does not know the item)"
    lines = text.splitlines()
    for name, words in pairs:
        is_url = name == "url" or name.startswith("url.")
        if is_url and find_usable_url(words, address, inner_hosts) is None:
            lines.append(f"({name} is ignored, because a redirect to this URL is not allowed)")
    return "\n".join(f"     {line}" for line in lines)


def _summarise(outcome: Redirect | NextRound | Alert) -> str:

    if isinstance(outcome, Redirect):
        state = outcome.state or "state unknown"
        return f"redirect to {outcome.url}, {state}, at {outcome.source.address}"
    if isinstance(outcome, NextRound):
        questions = "; ".join(
            " ".join(
                [question.ibi.text, format_verb_list(question.verbs), question.filepath]
            ).strip()
            for question in outcome.questions
        )
        return f"ask for {questions}"
    return outcome.summary

"""Trying the resolver out: resolve."""

from __future__ import annotations

import sys
from functools import partial
from typing import TYPE_CHECKING, Any

import click
from flask.cli import with_appcontext

from flask_ibi_archive.cli.group import json_option, say, standard_output, write, write_json
from flask_ibi_archive.resolver.cli.group import the_resolver

if TYPE_CHECKING:
    from flask_ibi_archive.protocol.hosts import InnerHosts
    from flask_ibi_archive.resolution.outcome import Alert, Ask, Redirect
    from flask_ibi_archive.resolver.trace import TraceEvent

#: Whom the Archives take the reader for unless told otherwise.
HERE = "127.0.0.1"


@click.command("resolve")
@click.argument("url")
@click.option("--trace", is_flag=True, help="Tell every message and decision on standard error.")
@click.option("--ip", default=HERE, show_default=True, help="The reader's address, and proxies'.")
@click.option("--language", metavar="RANGES", help="What the reader prefers, as pt-BR,en;q=0.5.")
@json_option
@with_appcontext
def resolve_command(url: str, trace: bool, ip: str, language: str | None, as_json: bool) -> None:
    """Show where a persistent URL leads.

    URL is a whole one, or an IBI with or without a modifier. The Archives are asked as if a reader
    had clicked, but no access is acknowledged. Ends with status 1 where there is nothing to lead
    to.

    \b
    Example:
      flask --app example_app:create_resolver ibi-resolver resolve 8JMKD3MGP8W/35MMLL8
      flask --app example_app:create_resolver ibi-resolver resolve --trace \\
        '8JMKD3MGP8W/35MMLL8!:(oai_dc)'
    """
    from flask_ibi_archive.protocol.messages import parse_addresses
    from flask_ibi_archive.resolution.languages import parse_accept_language
    from flask_ibi_archive.resolution.outcome import Redirect
    from flask_ibi_archive.resolution.persistent_url import add_query, read_persistent_url
    from flask_ibi_archive.resolver.resolving import ResolutionRequest

    try:
        addresses = parse_addresses(ip)
    except ValueError as error:
        raise click.BadParameter(str(error), param_hint="--ip") from error
    resolver = the_resolver()
    standard_output()
    wanted = read_persistent_url(url)
    request = ResolutionRequest(wanted, url, addresses, parse_accept_language(language))
    tell = partial(_tell, inner_hosts=resolver.config.inner_hosts)
    outcome = resolver.resolve(request, tell if trace else None, acknowledges=False)
    leads_to = (
        add_query(outcome.url, wanted.passed_query) if isinstance(outcome, Redirect) else None
    )
    if as_json:
        write_json(_facts(outcome, leads_to))
    elif leads_to is not None:
        write(leads_to)
    if not isinstance(outcome, Redirect):
        raise click.ClickException(_describe(outcome))


def _facts(outcome: Redirect | Alert, leads_to: str | None) -> dict[str, Any]:
    from flask_ibi_archive.resolution.outcome import Redirect
    from flask_ibi_archive.resolution.persistent_url import format_persistent_target

    if isinstance(outcome, Redirect):
        source = outcome.source
        return {
            "url": leads_to,
            "state": outcome.state,
            "content_type": outcome.content_type,
            "ibi": [ibi.text for ibi in outcome.ibi],
            "archive": {"service": source.service, "address": source.address},
        }
    return {
        "url": None,
        "alert": outcome.kind.value,
        "status": outcome.kind.status,
        "ibi": None if outcome.ibi is None else outcome.ibi.text,
        "archives": [
            {"service": source.service, "address": source.address} for source in outcome.sources
        ],
        "lack": None if outcome.lack is None else outcome.lack.name.lower(),
        "found": [format_persistent_target(url) for url in outcome.found],
        "silent": outcome.silent,
        "asked": outcome.asked,
        "timestamp": outcome.timestamp,
    }


def _tell(event: TraceEvent, inner_hosts: InnerHosts) -> None:
    """Tell what happens, one event after the other; a URL list line by line."""
    from flask_ibi_archive.protocol.pairs import format_pairs
    from flask_ibi_archive.resolution.redirect_target import find_usable_url
    from flask_ibi_archive.resolver import trace

    if isinstance(event, trace.Asked):
        why = " (it was found there last)" if event.by_hint else ""
        say(f"-> {event.source.address}{why}\n     {event.url}")
    elif isinstance(event, trace.Answered):
        text = format_pairs(event.pairs) or "(unknown there)"
        lines = "\n".join(f"     {line}" for line in text.splitlines())
        for pair in event.pairs:
            is_url = pair.name == "url" or pair.name.startswith("url.")
            if is_url and find_usable_url(pair.words, event.source.address, inner_hosts) is None:
                lines += f"\n     (no reader is led there by {pair.name})"
        say(f"<- {event.source.address}, {event.seconds * 1000:.0f} ms\n{lines}")
    elif isinstance(event, trace.Failed):
        say(f"<- {event.source.address} {event.reason} ({event.seconds * 1000:.0f} ms)")
    elif isinstance(event, trace.Skipped):
        say(f"-- {event.source.address} is skipped: it failed again and again")
    elif isinstance(event, trace.Decided):
        late = f", {event.late} not waited for" if event.late else ""
        say(f"== round {event.round}{late}: {_describe(event.outcome)}")
    sys.stderr.flush()


def _describe(outcome: Redirect | Ask | Alert) -> str:
    from flask_ibi_archive.protocol.verbs import format_verb_list
    from flask_ibi_archive.resolution.outcome import Ask, Redirect

    if isinstance(outcome, Redirect):
        return f"leads to {outcome.url}, {outcome.state or 'state unknown'}, at {outcome.source.address}"
    if isinstance(outcome, Ask):
        asked = "; ".join(
            " ".join([one.ibi.text, format_verb_list(one.verbs), one.filepath]).strip()
            for one in outcome.questions
        )
        return f"ask all for {asked}"
    return outcome.summary

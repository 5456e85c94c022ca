"""The commands ``flask ibi registry``: a client of the document registry of a resolver."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict, replace
from typing import TYPE_CHECKING

import click

from flask_ibi_archive.core.identifiers import parse_identifier
from flask_ibi_archive.core.identifiers.dates import format_timestamp
from flask_ibi_archive.core.protocol.hosts import extract_host, is_like_ipv4
from flask_ibi_archive.core.protocol.registry_2008 import model, registry_messages
from flask_ibi_archive.errors import ConfigError
from flask_ibi_archive.server.commands import group, terminal

if TYPE_CHECKING:
    from flask_ibi_archive.archive.joining.registry_client import RegistryClient
    from flask_ibi_archive.server.config import ArchiveConfig

#: The sections of the help page. Each section lists its commands, with the module of each command.
SECTIONS = {
    "The Archive as an actor": "registry_commands.register-actor "
    "registry_commands.change-password registry_commands.change-email",
    "Documents": "registry_commands.register registry_commands.change-actor "
    "registry_commands.delete registry_commands.display",
}


@click.group(
    "registry", cls=group.IBIGroup, sections=SECTIONS, package="flask_ibi_archive.archive.joining"
)
def registry_command() -> None:
    """Register documents with the registry of a resolver.

    The registry is for resolvers that use the protocol of 2008. The Archive is an "actor" there:
    register-actor registers the Archive once, and register registers items. IBI_REGISTRY_URL is the
    address of the registry. IBI_REGISTRY_ACTOR_ID is the identifier of the Archive.

    Each command asks for the password of the actor, or reads the first line of --password-file.

    \b
    Example:
      flask --app example_app ibi registry register 8JMKD3MGP8W/35MME4E
    """


# --- the actor -----------------------------------------------------------------------------------


def _get_client() -> RegistryClient:
    """Return the client of the current app's Archive.

    :raises ConfigError: if IBI_REGISTRY_URL is not set.
    """
    from flask_ibi_archive.archive.joining.registry_client import RegistryClient

    terminal.standard_output()
    return RegistryClient(group.get_archive().config)


def _send(
    password_file: str | None, create: Callable[[model.Credentials], model.RegistryRequest]
) -> None:
    """Send a request of the actor, and write the confirmation.

    :param create: returns the request.
    """
    from flask_ibi_archive.server.http.transport import make_printable

    client = _get_client()
    actor_id = client.actor_id
    request = create(model.Credentials(actor_id, terminal.read_password(password_file)))
    terminal.say(make_printable(client.send(request, registry_messages.Confirmation).text))


def _parse_id(context: click.Context, parameter: click.Parameter, value: str | None) -> str | None:
    """Return an IBI, which may be given as a persistent URL, in canonical case.

    :raises IdentifierError: if the text is not an identifier.
    """
    return None if value is None else parse_identifier(group.read_ibi(value)).text


@click.command("register-actor")
@click.option(
    "--host",
    callback=group.parse_as("parse_archive_address"),
    help="The host name. By default, IBI_ARCHIVE_ADDRESS.",
)
@click.option("--port", type=click.IntRange(1, 65535), help="By default, that of the address.")
@click.option(
    "--ip",
    callback=group.parse_as("parse_ip"),
    help="The IP address of the host. By default, IBI_ARCHIVE_IP.",
)
@click.option(
    "--email", callback=group.parse_email_option, help="By default, IBI_ARCHIVE_ADMIN_EMAIL."
)
@click.option(
    "--actor-id",
    callback=_parse_id,
    help="An IBI for the actor. By default, the resolver mints one.",
)
@terminal.password_option
def register_actor_command(
    host: str | None,
    port: int | None,
    ip: str | None,
    email: str | None,
    actor_id: str | None,
    password_file: str | None,
) -> None:
    """Register the Archive as an actor, and print its actorID.

    The resolver compares the IP address with the DNS entry of the host name. Choose a new password
    and keep it: all other commands need it. Then set IBI_REGISTRY_ACTOR_ID to the actorID.

    \b
    Example:
      flask --app example_app ibi registry register-actor --host hermes.dpi.inpe.br \\
          --ip 150.163.2.14 --email banon@dpi.inpe.br
    """
    from flask_ibi_archive.archive.joining.registrar import (
        EMAIL_EXPECTED,
        IP_EXPECTED,
        require_setting,
    )

    client = _get_client()
    config = client.config
    computer, domain, default_port = _split_address(config, host)
    request = model.RegisterActor(
        computer_name=computer,
        domain_name=domain,
        port=port or default_port,
        ip=require_setting(ip or config.archive_ip, "IBI_ARCHIVE_IP", IP_EXPECTED),
        email=require_setting(
            email or config.archive_admin_email, "IBI_ARCHIVE_ADMIN_EMAIL", EMAIL_EXPECTED
        ),
        password=terminal.read_password(password_file, is_new=True),
        actor_id=actor_id,
    )
    answer = client.send(request, registry_messages.RegisteredActor)
    terminal.write(answer.actor_id)
    terminal.say(f"the Archive is registered; now set IBI_REGISTRY_ACTOR_ID = {answer.actor_id}")


def _split_address(config: ArchiveConfig, host: str | None) -> tuple[str, str, int]:
    """Return the computerName, the domainName and the port of the Archive.

    :param host: a host and perhaps a port; None means the address in the settings.
    :raises ConfigError: if the host is not a name of at least two words.
    """
    address = host or config.archive_address
    name = extract_host(address)
    computer, dot, domain = name.partition(".")
    if not dot or is_like_ipv4(name):
        raise ConfigError(
            "IBI_ARCHIVE_ADDRESS" if host is None else "--host",
            address,
            "a host name of two words or more, such as hermes.dpi.inpe.br"
            + ("; --host replaces this setting" if host is None else ""),
        )
    port = address[len(name) + 1 :]
    return computer, domain, int(port or (443 if config.url_scheme == "https" else 80))


@click.command("change-password")
@terminal.password_option
@terminal.new_password_option
def change_password_command(password_file: str | None, new_password_file: str | None) -> None:
    """Change the password of the actor.

    If both files are -, the first line of standard input is the old password, and the second line
    is the new password.

    \b
    Example:
      flask --app example_app ibi registry change-password
      flask --app example_app ibi registry change-password \\
          --password-file old.txt --new-password-file new.txt
    """
    _send(
        password_file,
        lambda credentials: model.ChangePassword(
            credentials, terminal.read_password(new_password_file, "New password", is_new=True)
        ),
    )


@click.command("change-email")
@click.argument("address", callback=group.parse_email_option)
@terminal.password_option
def change_email_command(address: str, password_file: str | None) -> None:
    """Change the e-mail address of the actor.

    \b
    Example:
      flask --app example_app ibi registry change-email banon@iconet.com.br
    """
    _send(password_file, lambda credentials: model.ChangeEMailAddress(credentials, address))


# --- documents -----------------------------------------------------------------------------------


@click.command("register")
@click.argument("ibi", nargs=-1, required=True, type=group.read_ibi)
@click.option("--no-original", is_flag=True, help="Send originalDocument=no for an Original, too.")
@click.option("--dry-run", is_flag=True, help="Only show what would be sent, without a password.")
@terminal.password_option
def register_command(
    ibi: tuple[str, ...], no_original: bool, dry_run: bool, password_file: str | None
) -> None:
    """Register items, or update their registrations.

    For each IBI, the command sends the URL of the item, the URLs of its metadata, and its previous
    and next edition. The IBI becomes the documentID. To register both forms of an identifier, enter
    both. Repeat the command after each change of an item.

    An item in the state Original is registered as the original: the Archive holds its copyright.
    Nothing is sent if one of the items can't be registered. Prints the documentIDs.

    \b
    Example:
      flask --app example_app ibi registry register 8JMKD3MGP8W/35MME4E
      flask --app example_app ibi registry register 8JMKD3MGP8W/35MME4E --dry-run
      flask --app example_app ibi registry register 8JMKD3MGP8W/35MME4E --password-file actor.txt
    """
    from flask_ibi_archive.archive.joining.registry_client import build_registration

    archive = group.get_archive()
    client = _get_client()
    credentials = model.Credentials(client.actor_id, "")
    requests = [
        build_registration(archive, text, credentials, allows_original=not no_original)
        for text in ibi
    ]
    if dry_run:
        for request in requests:
            for name, value in registry_messages.format_registry_request(request):
                if name != "password":
                    terminal.write(f"{name} {value}")
        return
    credentials = replace(credentials, password=terminal.read_password(password_file))
    for request in requests:
        answer = client.send(
            replace(request, credentials=credentials), registry_messages.RegisteredDocument
        )
        terminal.write(answer.document_id)


@click.command("change-actor")
@click.argument("document_id", metavar="IBI", callback=_parse_id)
@click.option(
    "--to",
    "new_actor_id",
    required=True,
    metavar="ACTORID",
    callback=_parse_id,
    help="The new actor.",
)
@terminal.password_option
def change_actor_command(document_id: str, new_actor_id: str, password_file: str | None) -> None:
    """Hand a document or a copy over to another actor.

    The copyright of an original moves to the new actor. The registration of this Archive becomes a
    copy. If the Archive removes the document, delete the registration of the copy first.

    \b
    Example:
      flask --app example_app ibi registry change-actor 8JMKD3MGP8W/35MME4E \\
          --to sid.inpe.br/bibdigital@80/2006/04.07.15.50
    """
    _send(
        password_file, lambda credentials: model.ChangeActor(credentials, document_id, new_actor_id)
    )


@click.command("delete")
@click.argument("document_id", metavar="IBI", callback=_parse_id)
@terminal.password_option
def delete_command(document_id: str, password_file: str | None) -> None:
    """Delete the registration of a document or of a copy.

    Delete the registration before the document is removed from the Archive. The resolver refuses to
    delete a document while other actors have copies; the error names these actors.

    \b
    Example:
      flask --app example_app ibi registry delete 8JMKD3MGP8W/35MME4E
    """
    _send(
        password_file,
        lambda credentials: model.DeleteDocumentRegistration(credentials, document_id),
    )


@click.command("display")
@click.argument("document_id", metavar="IBI", callback=_parse_id)
@terminal.password_option
@group.json_option
def display_command(document_id: str, password_file: str | None, as_json: bool) -> None:
    """Show the record of a document: all actors that have it.

    The first actor has the document, and the other actors have copies. originalDocument is yes if
    the actor holds the copyright.

    \b
    Example:
      flask --app example_app ibi registry display 8JMKD3MGP8W/35MME4E
    """
    client = _get_client()
    actor_id = client.actor_id
    credentials = model.Credentials(actor_id, terminal.read_password(password_file))
    record = client.send(
        model.DisplayIDRegistration(credentials, document_id), model.DocumentRecord
    )
    if as_json:
        terminal.write(
            json.dumps(asdict(record), default=format_timestamp, ensure_ascii=False, indent=2)
        )
    else:
        terminal.write(registry_messages.format_registry_answer(record), nl=False)

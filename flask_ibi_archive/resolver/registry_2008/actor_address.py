"""The check that an actor registers with the address of its own host ([P] 4.1)."""

from __future__ import annotations

import socket
from collections.abc import Callable, Sequence
from typing import TypeAlias

from flask_ibi_archive.core.protocol.hosts import InnerHosts
from flask_ibi_archive.core.protocol.registry_2008.model import RegisterActor
from flask_ibi_archive.errors import DocumentRegistryError
from flask_ibi_archive.server.http.guarded_http import look_up, run_within
from flask_ibi_archive.server.pages.requests import find_address

#: The maximum time for a look-up, and the time after which an actor should try again, in seconds.
LOOK_UP_TIMEOUT, DNS_RETRY_AFTER = 5.0, 60
#: The maximum number of IP addresses in an error message.
MAX_NAMED = 5

#: A function that returns the IP addresses of a host name: none if the host name is unknown, and
#: None if the DNS does not answer in time.
LookUp: TypeAlias = Callable[[str], Sequence[str] | None]

#: The errors of getaddrinfo for a host name that does not exist, or that has no IP address.
_UNKNOWN = {socket.EAI_NONAME, getattr(socket, "EAI_NODATA", socket.EAI_NONAME)}


def look_up_host(host: str, seconds: float = LOOK_UP_TIMEOUT) -> Sequence[str] | None:
    """Return the IP addresses of a host name, as described at :data:`LookUp`.

    :param seconds: the maximum time.
    """
    return run_within(seconds, lambda: _look_up(host))


def check_actor_address(request: RegisterActor, look_up: LookUp, inner_hosts: InnerHosts) -> None:
    """Check that the ip of an actor is public, and that it is an address of the actor's host.

    The error messages do not contain internal addresses. Otherwise strangers could explore the
    internal network of the resolver.

    :param look_up: queries the DNS, such as :func:`look_up_host`.
    :param inner_hosts: the internal hosts that are allowed.
    :raises DocumentRegistryError: "wrong-address" if the check fails, or "unavailable" if the DNS
        does not answer.
    """
    ip, host = find_address(request.ip), request.host
    if ip is None or not inner_hosts.allow(host, ip):
        raise DocumentRegistryError(
            "wrong-address", f"ip {request.ip} is not a public IP address; send that of {host}"
        )
    found = look_up(host)
    if found is None:
        raise DocumentRegistryError(
            "unavailable",
            f"the DNS does not answer for {host} (computerName.domainName); try again in "
            f"{DNS_RETRY_AFTER} s",
            DNS_RETRY_AFTER,
        )
    parsed = dict.fromkeys(map(find_address, found))
    addresses = [address for address in parsed if address and inner_hosts.allow(host, address)]
    if ip in addresses:
        return
    if addresses:
        named = ", ".join(str(address) for address in addresses[:MAX_NAMED])
        more = f" and {len(addresses) - MAX_NAMED} more" * (len(addresses) > MAX_NAMED)
        in_dns = f"has {named}{more}"
    else:
        in_dns = "has no public IP address"
    raise DocumentRegistryError(
        "wrong-address",
        f"ip {request.ip} is not an IP address of {host} (computerName.domainName), which "
        f"{in_dns} in the DNS",
    )


def _look_up(host: str) -> Sequence[str] | None:
    try:
        return look_up(host, None)
    except ValueError:  # InternalAddress, or UnicodeError if a label is too long
        return ()
    except OSError as error:
        return () if error.errno in _UNKNOWN else None

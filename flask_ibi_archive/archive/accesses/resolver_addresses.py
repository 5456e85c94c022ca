"""The IP addresses from which the resolver of an Archive sends its requests.

With ``IBI_COUNT_ONLY_RESOLVER``, only the resolver can acknowledge accesses. Its addresses are the
networks in the setting, or those of the host in ``IBI_RESOLVER_URL``. A host may send requests from
several addresses. Therefore an address of the DNS stands for its network: the first 24 bits of an
IPv4 address, or the first 64 bits of an IPv6 address.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from ipaddress import ip_address, ip_network
from threading import Lock
from time import monotonic

from flask_ibi_archive.server.http.guarded_http import look_up, run_within
from flask_ibi_archive.server.setting_values import Network

#: The bits of the network of an IPv4 and of an IPv6 address.
NETWORK_BITS = {4: 24, 6: 64}
#: The maximum number of seconds to wait for the DNS.
LOOK_UP_TIMEOUT = 2.0
#: The number of seconds after which the host is looked up again, after a success and a failure.
MAX_AGE, RETRY_AFTER = 600.0, 30.0


def find_network(address: str) -> Network:
    """Return the network of an IP address."""
    parsed = ip_address(address)
    return ip_network((parsed, NETWORK_BITS[parsed.version]), strict=False)


@lru_cache(maxsize=256)  # most requests come from the resolver
def name_network(address: str | None) -> str:
    """Return the name of the network of an IP address, such as 150.163.34.0/24; "" for None."""
    return "" if address is None else str(find_network(address))


def look_up_networks(host: str) -> frozenset[Network] | None:
    """Return the networks of the addresses of a host; None if the DNS does not know any."""

    def find() -> frozenset[Network] | None:
        try:
            return frozenset(map(find_network, look_up(host, None)))
        except (OSError, ValueError):
            return None

    return run_within(LOOK_UP_TIMEOUT, find)


class ResolverAddresses:
    """Says whether an IP address is one of the resolver. The class is thread-safe.

    If the DNS does not answer, the last known addresses are used.

    :param host: the host of the resolver.
    :param networks: the networks of the resolver. If there are none, the host is looked up.
    :param look_up: looks up the networks of a host.
    :param clock: returns the time in seconds.
    """

    def __init__(
        self,
        host: str,
        networks: Sequence[Network] = (),
        look_up: Callable[[str], frozenset[Network] | None] = look_up_networks,
        clock: Callable[[], float] = monotonic,
    ) -> None:
        self._host = host
        self._networks = frozenset(networks)
        self._look_up = look_up
        self._clock = clock
        self._lock = Lock()
        self._next = float("inf") if networks else clock()

    def contain(self, address: str) -> bool:
        """Return whether an IP address is one of the resolver. The DNS may be queried."""
        with self._lock:
            if self._clock() >= self._next:
                found = self._look_up(self._host)
                self._networks = found or self._networks
                self._next = self._clock() + (MAX_AGE if found else RETRY_AFTER)
        parsed = ip_address(address)
        return any(parsed in network for network in self._networks)

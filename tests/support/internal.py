"""Internal addresses in all notations, and look-ups of names with prepared results."""

from __future__ import annotations

import socket
from collections.abc import Mapping
from typing import Any

#: This machine as the host of a URL, in notations that a comparison of texts may miss.
THIS_MACHINE = [
    *("127.0.0.1", "127.1", "127.0.1", "2130706433", "0x7f.1", "0x7f000001", "0177.0.0.1"),
    *("017700000001", "0x7f.0x0.0x0.0x1", "localhost", "LOCALHOST", "0.0.0.0", "0"),
    *("[::1]", "[::]", "[::ffff:127.0.0.1]", "[::ffff:7f00:1]", "[0:0:0:0:0:0:0:1]"),
]
#: Other internal addresses.
OTHERS = [
    *("169.254.169.254", "0xa9fea9fe", "2852039166", "10.0.0.1", "172.16.0.1", "192.168.1.1"),
    *("100.64.0.1", "224.0.0.1", "255.255.255.255", "198.18.0.1", "[fe80::1]", "[fc00::1]"),
    *("[fd00:ec2::254]", "[ff02::1]", "[64:ff9b::7f00:1]", "[64:ff9b:1::a00:1]", "[2002:7f00:1::]"),
    *("[::ffff:169.254.169.254]", "[::127.0.0.1]", "[2001:db8::1]", "[2001::1]", "[fec0::1]"),
]


class Names:
    """Replaces ``socket.getaddrinfo`` for some names.

    :param addresses: for each name the results of its look-ups in order; the last result is
        repeated.
    """

    def __init__(self, addresses: Mapping[str, list[list[str]]]) -> None:
        self.addresses = dict(addresses)
        self.asked: list[str] = []
        self._system = socket.getaddrinfo

    def __call__(self, host: Any, port: Any, *rest: Any, **more: Any) -> Any:
        """Look a name up."""
        answers = self.addresses.get(host)
        if answers is None:
            return self._system(host, port, *rest, **more)
        self.asked.append(host)
        found = answers.pop(0) if len(answers) > 1 else answers[0]
        return [one for ip in found for one in self._system(ip, port, type=socket.SOCK_STREAM)]

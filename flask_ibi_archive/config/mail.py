"""The mail server, under the keys that Flask's mail extensions have for it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from flask_ibi_archive.config.values import a_flag, a_port, a_sender, a_text
from flask_ibi_archive.errors import ConfigError


@dataclass(frozen=True)
class MailSettings:
    """Where e-mails are handed over (MAIL_SERVER and so on)."""

    server: str
    port: int
    use_tls: bool
    use_ssl: bool
    username: str | None
    password: str | None = field(repr=False)
    default_sender: str | None

    @classmethod
    def from_reader(cls, read: Callable[..., Any]) -> MailSettings | None:
        """Give the settings that a Flask config holds, None where it names no server.

        :param read: gives the checked value of a key.
        :raises ConfigError: at the first key whose value is wrong.
        """
        server = read("MAIL_SERVER", a_text)
        if server is None:
            return None
        use_tls, use_ssl = read("MAIL_USE_TLS", a_flag, False), read("MAIL_USE_SSL", a_flag, False)
        if use_tls and use_ssl:
            raise ConfigError("MAIL_USE_TLS", True, "false where MAIL_USE_SSL is true")
        default = 465 if use_ssl else 587 if use_tls else 25
        return cls(
            server=server,
            port=read("MAIL_PORT", a_port, default),
            use_tls=use_tls,
            use_ssl=use_ssl,
            username=read("MAIL_USERNAME", a_text),
            password=read("MAIL_PASSWORD", a_text),
            default_sender=read("MAIL_DEFAULT_SENDER", a_sender),
        )

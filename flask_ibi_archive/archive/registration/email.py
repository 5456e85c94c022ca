"""E-mails: written, and handed over to the mail server that the settings name."""

from __future__ import annotations

import smtplib
import ssl
from collections.abc import Callable
from contextlib import suppress
from email.message import EmailMessage
from email.utils import formatdate, make_msgid

from flask_ibi_archive.archive.registration.resolver_answer import one_line
from flask_ibi_archive.archive.transport import within
from flask_ibi_archive.config import MailSettings
from flask_ibi_archive.errors import ConfigError, MailError

#: Seconds for each step with the mail server, and for all of them.
STEP, WHOLE = 20, 60


def compose(
    mail: MailSettings | None,
    admin: tuple[str, str | None],
    to: str,
    subject: str,
    body: str,
) -> EmailMessage:
    """Return an e-mail of an Archive or a resolver; answers to it go to its administrator.

    :param admin: the key that holds the administrator's address, and its value.
    :param to: the address of the receiver.
    :raises ConfigError: if no sender is configured, or one that can stand in no header.
    """
    key, address = admin
    sender = (mail.default_sender if mail else None) or address
    expected = f"the sender's address, as archive@example.org, or {key} be set"
    if sender is None:
        raise ConfigError("MAIL_DEFAULT_SENDER", None, expected)
    message = EmailMessage()
    try:
        message["From"] = sender
        right = len(message["From"].addresses) == 1 and bool(message["From"].addresses[0].domain)
    except (ValueError, IndexError):
        right = False
    if not right:
        raise ConfigError("MAIL_DEFAULT_SENDER", sender, expected)
    message["To"] = to
    if address not in (None, sender):
        message["Reply-To"] = address
    message["Subject"] = subject
    message["Date"] = formatdate()
    message["Message-ID"] = make_msgid(domain=message["From"].addresses[0].domain)
    message.set_content(body, cte="quoted-printable")
    return message


def send(settings: MailSettings | None, message: EmailMessage, *, seconds: float = WHOLE) -> None:
    """Hand an e-mail over to the mail server; its certificate is verified where TLS is used.

    :param seconds: for the whole of it.
    :raises ConfigError: if there is no mail server.
    :raises MailError: in one line, without passwords and without the e-mail, if it doesn't take it.
    """
    if settings is None:
        raise ConfigError(
            "MAIL_SERVER", None, "the host that e-mails are handed over to, as smtp.example.org"
        )
    given: MailSettings = settings
    reason = within(seconds, lambda: _try(given, message, min(STEP, seconds)))
    if reason is None:
        reason = "took too long; the e-mail may have been sent all the same"
    if reason:
        # raised here, where no other error is at hand: theirs may hold what was said to the server
        raise MailError(f"{settings.server}:{settings.port}", reason)


def _try(settings: MailSettings, message: EmailMessage, step: float) -> str:
    """Return what went wrong, "" where nothing did."""
    try:
        _hand_over(settings, message, step)
    except Exception as error:  # noqa: BLE001 - a thread; and the text of any of them may hold a secret
        return _explain(settings, error)
    return ""


def _hand_over(settings: MailSettings, message: EmailMessage, step: float) -> None:
    server = _connect(settings, step)
    try:
        if settings.use_tls:
            server.starttls(context=ssl.create_default_context())
        if settings.username is not None:
            server.login(settings.username, settings.password or "")
        server.send_message(message)
    finally:
        # what it took is taken, however it says goodbye
        with suppress(smtplib.SMTPException, OSError):
            server.quit()
        server.close()


def _connect(settings: MailSettings, step: float) -> smtplib.SMTP:
    if settings.use_ssl:
        return smtplib.SMTP_SSL(
            settings.server, settings.port, timeout=step, context=ssl.create_default_context()
        )
    return smtplib.SMTP(settings.server, settings.port, timeout=step)


def _explain(settings: MailSettings, error: Exception) -> str:
    """Return what keeps a mail server from taking an e-mail, to be read behind its name."""
    for kind, explain in _REASONS:
        if isinstance(error, kind):
            text = explain(error)
            for secret in (settings.password, settings.username):
                text = text.replace(secret, "***") if secret else text
            return text
    return f"can't be used ({type(error).__name__})"


def _said(error: smtplib.SMTPResponseException) -> str:
    text = error.smtp_error
    return _reply(error.smtp_code, text if isinstance(text, bytes) else str(text).encode())


def _reply(code: int, text: bytes) -> str:
    return f"{code} {one_line(text.decode(errors='replace'))}".strip()


def _recipients(error: smtplib.SMTPRecipientsRefused) -> str:
    replies = [
        f"{address}: {_reply(code, text)}" for address, (code, text) in error.recipients.items()
    ]
    return f"does not take the receiver: {'; '.join(replies)}"


def _system(error: OSError) -> str:
    return one_line(str(error.strerror or type(error).__name__))


#: From the special to the general: many are each other's base classes.
_REASONS: tuple[tuple[type[Exception], Callable[..., str]], ...] = (
    (
        smtplib.SMTPAuthenticationError,
        lambda error: (
            f"does not take MAIL_USERNAME and MAIL_PASSWORD (status {error.smtp_code}); see that both are right"
        ),
    ),
    (smtplib.SMTPRecipientsRefused, _recipients),
    (smtplib.SMTPSenderRefused, lambda error: f"does not take the sender: {_said(error)}"),
    (smtplib.SMTPDataError, lambda error: f"does not take the e-mail: {_said(error)}"),
    (smtplib.SMTPConnectError, lambda error: f"does not want to be asked: {_said(error)}"),
    (smtplib.SMTPHeloError, lambda error: f"does not want to be greeted: {_said(error)}"),
    (smtplib.SMTPResponseException, lambda error: f"says no: {_said(error)}"),
    (
        smtplib.SMTPNotSupportedError,
        lambda error: (
            "does not offer what the settings ask for; see MAIL_USE_TLS, MAIL_USE_SSL and MAIL_USERNAME"
        ),
    ),
    (
        smtplib.SMTPServerDisconnected,
        lambda error: "broke off; see that MAIL_PORT, MAIL_USE_TLS and MAIL_USE_SSL fit together",
    ),
    (
        ssl.SSLCertVerificationError,
        lambda error: f"has no certificate to be trusted: {one_line(error.verify_message)}",
    ),
    (
        ssl.SSLError,
        lambda error: (
            "does not speak TLS; see that MAIL_PORT, MAIL_USE_TLS and MAIL_USE_SSL fit together"
        ),
    ),
    (TimeoutError, lambda error: "took too long; see that MAIL_SERVER and MAIL_PORT are right"),
    (smtplib.SMTPException, lambda error: f"says no ({type(error).__name__})"),
    (
        OSError,
        lambda error: (
            f"can't be reached ({_system(error)}); see that MAIL_SERVER and MAIL_PORT are right"
        ),
    ),
    (
        UnicodeError,
        lambda error: (
            "takes ASCII alone; see that MAIL_SERVER, MAIL_USERNAME and MAIL_PASSWORD have nothing else"
        ),
    ),
)

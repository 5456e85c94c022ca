"""Writes and sends e-mails through a mail server.

An Archive requests its registration by e-mail, and a resolver confirms it.
"""

from __future__ import annotations

import smtplib
import ssl
from collections.abc import Callable, Generator, Iterable
from contextlib import suppress
from email.message import EmailMessage
from email.utils import formatdate, make_msgid

from flask_ibi_archive.errors import ConfigError, MailError
from flask_ibi_archive.server.config import MailSettings
from flask_ibi_archive.server.http.guarded_http import run_within
from flask_ibi_archive.server.http.transport import make_printable

#: The timeouts in seconds: for each step with the mail server, and for all steps together.
STEP_TIMEOUT, TIMEOUT = 20, 60


def compose_email(
    mail: MailSettings | None, admin: tuple[str, str | None], to: str, subject: str, body: str
) -> EmailMessage:
    """Return an e-mail of an Archive or a resolver. Replies go to the administrator.

    :param mail: the settings for e-mail; None if no mail server is configured.
    :param admin: the name and the value of the setting that contains the e-mail address of the
        administrator.
    :param to: the address of the recipient.
    :raises ConfigError: if the address of the sender is not configured or not valid.
    """
    key, address = admin
    sender = (mail.default_sender if mail else None) or address
    expected = f"the sender's address, such as archive@example.org; or set {key}"
    if sender is None:
        raise ConfigError("MAIL_DEFAULT_SENDER", None, expected)
    message = EmailMessage()
    try:
        message["From"] = sender
        [address_part] = message["From"].addresses
        is_valid = bool(address_part.domain)
    except (ValueError, IndexError):
        is_valid = False
    if not is_valid:
        raise ConfigError("MAIL_DEFAULT_SENDER", sender, expected)
    message["To"] = to
    if address not in (None, sender):
        message["Reply-To"] = address
    message["Subject"] = subject
    message["Date"] = formatdate()
    message["Message-ID"] = make_msgid(domain=message["From"].addresses[0].domain)
    message.set_content(body, cte="quoted-printable")
    return message


def send_email(
    settings: MailSettings | None, message: EmailMessage, *, seconds: float = TIMEOUT
) -> None:
    """Send an e-mail through the mail server. With TLS, the server needs a valid certificate.

    :param seconds: the timeout for all steps together.
    :raises ConfigError: if no mail server is configured.
    :raises MailError: if the server does not accept the e-mail. The message of the error contains
        neither a password nor the e-mail.
    """
    if settings is None:
        expected = "the host of the mail server, such as smtp.example.org"
        raise ConfigError("MAIL_SERVER", None, expected)
    mail: MailSettings = settings
    reason = run_within(seconds, lambda: _try(mail, message, min(STEP_TIMEOUT, seconds)))
    if reason is None:
        reason = "took too long; the e-mail may have been sent nevertheless"
    if reason:
        # The error is not raised in an except clause. Otherwise the context of the error could
        # contain data that was sent to the server.
        raise MailError(f"{settings.server}:{settings.port}", reason)


def _try(settings: MailSettings, message: EmailMessage, step: float) -> str:
    """Send an e-mail. Return the reason for a failure, or "" after success.

    :param step: the timeout in seconds for each step with the mail server.
    """
    try:
        _deliver(settings, message, step)
    except Exception as error:  # noqa: BLE001 - the text of any exception may contain a secret
        return _explain(settings, error)
    return ""


def send_emails(settings: MailSettings, messages: Iterable[EmailMessage]) -> Generator[str]:
    """Send e-mails through one connection to the mail server.

    The next e-mail is taken and sent when the caller asks for the next result.

    :returns: for each e-mail, "" or the reason why it was not sent; as in :class:`MailError`, the
        reason follows the name of the server. If the connection fails, there are no more results.
    """
    try:
        server = _connect(settings, STEP_TIMEOUT)
    except Exception as error:  # noqa: BLE001 - the text of any exception may contain a secret
        yield _explain(settings, error)
        return
    try:
        for message in messages:
            reason = ""
            try:
                server.send_message(message)
            except Exception as error:  # noqa: BLE001
                reason = _explain(settings, error)
            yield reason
            if server.sock is None:  # smtplib has closed the broken connection
                return
    finally:
        _disconnect(server)


def _deliver(settings: MailSettings, message: EmailMessage, step: float) -> None:
    server = _connect(settings, step)
    try:
        server.send_message(message)
    finally:
        _disconnect(server)


def _connect(settings: MailSettings, step: float) -> smtplib.SMTP:
    address = settings.server, settings.port
    if settings.use_ssl:
        context = ssl.create_default_context()
        server: smtplib.SMTP = smtplib.SMTP_SSL(*address, timeout=step, context=context)
    else:
        server = smtplib.SMTP(*address, timeout=step)
    try:
        if settings.use_tls:
            server.starttls(context=ssl.create_default_context())
        if settings.username is not None:
            server.login(settings.username, settings.password or "")
    except BaseException:
        _disconnect(server)
        raise
    return server


def _disconnect(server: smtplib.SMTP) -> None:
    # Errors are ignored here, because the result of the delivery is known already.
    with suppress(smtplib.SMTPException, OSError):
        server.quit()
    server.close()


def _explain(settings: MailSettings, error: Exception) -> str:
    """Return the reason for a failure, as a text that can follow the name of the server."""
    for kind, reason in _REASONS:
        if isinstance(error, kind):
            text = reason if isinstance(reason, str) else reason(error)
            for secret in (settings.password, settings.username):
                text = text.replace(secret, "***") if secret else text
            return text
    return f"can't be used ({type(error).__name__})"


def _response(error: smtplib.SMTPResponseException) -> str:
    text = error.smtp_error
    return _reply(error.smtp_code, text if isinstance(text, bytes) else str(text).encode())


def _reply(code: int, text: bytes) -> str:
    return f"{code} {make_printable(text.decode(errors='replace'))}".strip()


def _recipients(error: smtplib.SMTPRecipientsRefused) -> str:
    replies = [
        f"{address}: {_reply(code, text)}" for address, (code, text) in error.recipients.items()
    ]
    return f"does not accept the recipient: {'; '.join(replies)}"


def _login(error: smtplib.SMTPAuthenticationError) -> str:
    return (
        f"does not accept MAIL_USERNAME and MAIL_PASSWORD (status {error.smtp_code}); "
        "correct these settings"
    )


def _system(error: OSError) -> str:
    text = make_printable(str(error.strerror or type(error).__name__))
    return f"can't be reached ({text}); {CHECK_ADDRESS}"


CHECK_ADDRESS = "check whether MAIL_SERVER and MAIL_PORT are right"
CHECK_TLS = "check whether MAIL_PORT, MAIL_USE_TLS and MAIL_USE_SSL fit together"
#: The reason for each class of exceptions, or a function that returns the reason. A subclass is
#: listed before its base class.
_REASONS: tuple[tuple[type[Exception], str | Callable[..., str]], ...] = (
    (smtplib.SMTPAuthenticationError, _login),
    (smtplib.SMTPRecipientsRefused, _recipients),
    (smtplib.SMTPSenderRefused, lambda error: f"does not accept the sender: {_response(error)}"),
    (smtplib.SMTPDataError, lambda error: f"does not accept the e-mail: {_response(error)}"),
    (smtplib.SMTPConnectError, lambda error: f"does not accept a session: {_response(error)}"),
    (smtplib.SMTPHeloError, lambda error: f"does not accept the greeting: {_response(error)}"),
    (smtplib.SMTPResponseException, lambda error: f"refuses a command: {_response(error)}"),
    (
        smtplib.SMTPNotSupportedError,
        "does not support what the settings require; "
        "check MAIL_USE_TLS, MAIL_USE_SSL and MAIL_USERNAME",
    ),
    (smtplib.SMTPServerDisconnected, f"closed the connection; {CHECK_TLS}"),
    (
        ssl.SSLCertVerificationError,
        lambda error: f"has no trusted certificate: {make_printable(error.verify_message)}",
    ),
    (ssl.SSLError, f"does not speak TLS; {CHECK_TLS}"),
    (TimeoutError, f"took too long; {CHECK_ADDRESS}"),
    (smtplib.SMTPException, lambda error: f"reports an error ({type(error).__name__})"),
    (OSError, _system),
    (
        UnicodeError,
        "accepts only ASCII; use only ASCII characters in MAIL_SERVER, MAIL_USERNAME and "
        "MAIL_PASSWORD",
    ),
)

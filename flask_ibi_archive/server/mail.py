"""Write e-mails, and send them through a mail server.

An Archive requests its registration by e-mail, and a resolver confirms the registration.
"""

from __future__ import annotations

import smtplib
import ssl
from collections.abc import Iterator
from contextlib import contextmanager, suppress
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
    """Compose an e-mail of an Archive or a resolver. Replies go to the administrator.

    :param mail: the settings for e-mail; None if no mail server is configured.
    :param admin: ``(key, value)`` of the setting that contains the e-mail address of the
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
    domain = ""
    with suppress(ValueError, IndexError):
        message["From"] = sender
        [mailbox] = message["From"].addresses
        domain = mailbox.domain
    if not domain:
        raise ConfigError("MAIL_DEFAULT_SENDER", sender, expected)
    message["To"] = to
    if address not in (None, sender):
        message["Reply-To"] = address
    message["Subject"] = subject
    message["Date"] = formatdate()
    message["Message-ID"] = make_msgid(domain=domain)
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
    reason = run_within(seconds, lambda: _send(settings, message, min(STEP_TIMEOUT, seconds)))
    if reason is None:
        reason = "took too long; the e-mail may have been sent nevertheless"
    if reason:
        # The error is not raised in an except clause. Otherwise the context of the error could
        # contain data that was sent to the server.
        raise MailError(f"{settings.server}:{settings.port}", reason)


def _send(settings: MailSettings, message: EmailMessage, step: float) -> str:
    """Send an e-mail, and return "" or the reason why it was not sent; see :class:`MailError`.

    :param step: the timeout in seconds for each step with the mail server.
    """
    try:
        with _connect(settings, step) as server:
            server.send_message(message)
    except Exception as error:  # noqa: BLE001 - the text of any exception may contain a secret
        reason = _explain(error)
        for secret in (settings.password, settings.username):
            reason = reason.replace(secret, "***") if secret else reason
        return reason
    return ""


@contextmanager
def _connect(settings: MailSettings, step: float) -> Iterator[smtplib.SMTP]:
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
        yield server
    finally:
        # Errors are ignored here, because the result of the delivery is known already.
        with suppress(smtplib.SMTPException, OSError):
            server.quit()
        server.close()


#: The advice if the server was reached in a wrong way, or not at all.
ADVICE = "check MAIL_SERVER, MAIL_PORT, MAIL_USE_TLS, MAIL_USE_SSL and MAIL_USERNAME"


def _explain(error: Exception) -> str:
    """Return the reason for a failure. The text may contain a secret."""
    match error:
        case smtplib.SMTPAuthenticationError():
            status = f"(status {error.smtp_code}); correct these settings"
            return f"does not accept MAIL_USERNAME and MAIL_PASSWORD {status}"
        case smtplib.SMTPRecipientsRefused():
            replies = [f"{to}: {_reply(*reply)}" for to, reply in error.recipients.items()]
            return f"does not accept the recipient: {'; '.join(replies)}"
        case smtplib.SMTPResponseException():
            return f"refuses the e-mail: {_reply(error.smtp_code, error.smtp_error)}"
        case TimeoutError():
            return f"took too long; {ADVICE}"
        case OSError(strerror=str(text)):
            return f"can't be reached ({make_printable(text)}); {ADVICE}"
    return f"can't be used ({type(error).__name__}); {ADVICE}"


def _reply(code: int, text: bytes | str) -> str:
    reply = text.decode(errors="replace") if isinstance(text, bytes) else text
    return f"{code} {make_printable(reply)}".strip()

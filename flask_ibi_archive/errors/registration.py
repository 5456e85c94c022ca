"""Errors between an Archive and a resolver."""

from __future__ import annotations

from flask_ibi_archive.errors.base import IBIError


class RegistrationError(IBIError):
    """The resolver did not take the Archive in, or did not give it up."""


class ArchiveMoved(RegistrationError):
    """The Archive's address or IP is another than the one that the resolver was told: a clone, perhaps.

    :param key: the setting that differs.
    :param found: its value.
    :param registered: the value that the resolver was told last.
    """

    def __init__(self, key: str, found: str, registered: str) -> None:
        self.key = key
        self.found = found
        self.registered = registered
        super().__init__(
            f"{key} is {found}, but the Archive is registered at {registered}; if it has really moved, "
            "say so with --moved; if this is a copy of its database, leave the resolver alone"
        )


class ResolverError(RegistrationError):
    """The resolver gave no status.

    :param url: its URL.
    :param reason: what it did, to be read behind the URL.
    :param advice: what to do about it.
    """

    def __init__(self, url: str, reason: str, advice: str) -> None:
        self.url = url
        self.reason = reason
        self.advice = advice
        super().__init__(f"the resolver {url} {reason}; {advice}")


class ResolverRefused(ResolverError):
    """The resolver says no: it knows the Archive not, or by another key."""


class ResolverFailed(ResolverError):
    """The resolver can't be reached, or does not answer as it should.

    :param passing: whether it may pass by itself.
    :param retry_after: seconds that it wants to be left alone, where it said so.
    """

    def __init__(
        self,
        url: str,
        reason: str,
        advice: str,
        *,
        passing: bool = False,
        retry_after: float | None = None,
    ) -> None:
        self.passing = passing
        self.retry_after = retry_after
        super().__init__(url, reason, advice)


class AlreadyRegistered(RegistrationError):
    """An Archive is registered with this resolver already, by another key.

    :param service_ibi: the IBI of the Archive's service.
    """

    def __init__(self, service_ibi: str) -> None:
        self.service_ibi = service_ibi
        super().__init__(
            f"the Archive {service_ibi} is registered already, by another key; if this one should take its "
            "place, say so with --replace"
        )


class RegistrationRefused(RegistrationError):
    """A resolver does not take an inclusion or exclusion request.

    Whether the Archive is unknown or the key is another one, it is told the same.

    :param service_ibi: the IBI of the Archive's service.
    """

    #: The status of the answer.
    status = 403

    def __init__(self, service_ibi: str, reason: str = "") -> None:
        self.service_ibi = service_ibi
        super().__init__(
            reason or f"no Archive with the service {service_ibi} is registered by this key"
        )


class InternalArchive(RegistrationRefused):
    """An Archive asks to be included with an internal address, which no setting of the resolver allows.

    :param address: its archiveaddress.
    """

    status = 400

    def __init__(self, service_ibi: str, address: str) -> None:
        super().__init__(
            service_ibi,
            f"archiveaddress: {address} has an internal IP address, which this resolver's setting "
            "IBI_RESOLVER_INNER_HOSTS does not allow",
        )


class TooManyWrongKeys(RegistrationRefused):
    """Too many wrong keys came from a sender or for an Archive: no key is looked at for a while.

    :param retry_after: seconds until the next one is.
    """

    status = 429

    def __init__(self, service_ibi: str, retry_after: int) -> None:
        self.retry_after = retry_after
        super().__init__(
            service_ibi,
            f"too many wrong registration keys came from this address or for the Archive {service_ibi}; "
            f"try again in {retry_after} s",
        )


class RegistrationOvertaken(RegistrationRefused):
    """An inclusion came to nothing, since another request of the Archive came while it was called back."""

    status = 409

    def __init__(self, service_ibi: str) -> None:
        super().__init__(
            service_ibi,
            f"another request of the Archive {service_ibi} came meanwhile and counts; if this one should, "
            "ask again",
        )

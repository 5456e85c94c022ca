"""Every error that this package raises on purpose.

::

    IBIError
      ConfigError                 a setting is missing or wrong
      IdentifierError             a text is no identifier (also a ValueError)
      MintingError                no identifier can be given now
        ClockError                its date lies too far ahead of the clock
      ProtocolError
        LocalProtocolError        we would have sent something illegal (also a ValueError)
        PeerProtocolError         the peer sent something illegal
          MissingParameter
          RepeatedParameter
          BadParameter
          UnknownSubject
          MalformedPersistentUrl
      TransportError              another server can't be asked, or breaks off
      RegistrationError           the resolver did not take or give up the Archive
        ArchiveMoved              another address or IP is registered: this may be a copy
        ResolverError             the resolver gave no status
          ResolverRefused         it says no
          ResolverFailed          it can't be reached, or does not answer as it should
        AlreadyRegistered         a resolver has the Archive registered by another key
        RegistrationRefused       a resolver takes no inclusion or exclusion by this key
          InternalArchive         its address is an internal one
          RegistrationOvertaken   another request of the Archive came meanwhile
          TooManyWrongKeys        the rate limit of wrong keys is reached
      MailError                   an e-mail can't be handed over
      StorageError
        NotReady                  the database is away, empty or of another revision
        UnknownItem
        UnknownArchive            a resolver has no such Archive registered
        RuleBroken                one of the rules of the storage model
        ForbiddenMove             an item's state does not allow it
        RecordError               a record of an import file is wrong
        BackupError               a file is no backup, or not what it was

Each message is one line that says what is wrong, where, and what would be right; the facts in it are
attributes as well, so that nobody has to take a message apart.
"""

from __future__ import annotations

from flask_ibi_archive.errors.base import IBIError
from flask_ibi_archive.errors.messages import (
    BadParameter,
    LocalProtocolError,
    MailError,
    MalformedPersistentUrl,
    MissingParameter,
    PeerProtocolError,
    ProtocolError,
    RepeatedParameter,
    TransportError,
    UnknownSubject,
)
from flask_ibi_archive.errors.registration import (
    AlreadyRegistered,
    ArchiveMoved,
    InternalArchive,
    RegistrationError,
    RegistrationOvertaken,
    RegistrationRefused,
    ResolverError,
    ResolverFailed,
    ResolverRefused,
    TooManyWrongKeys,
)
from flask_ibi_archive.errors.settings import (
    ClockError,
    ConfigError,
    IdentifierError,
    MintingError,
)
from flask_ibi_archive.errors.storage import (
    BackupError,
    ForbiddenMove,
    NotReady,
    RecordError,
    RuleBroken,
    StorageError,
    UnknownArchive,
    UnknownItem,
)

__all__ = [
    "AlreadyRegistered",
    "ArchiveMoved",
    "BackupError",
    "BadParameter",
    "ClockError",
    "ConfigError",
    "ForbiddenMove",
    "IBIError",
    "IdentifierError",
    "InternalArchive",
    "LocalProtocolError",
    "MailError",
    "MalformedPersistentUrl",
    "MintingError",
    "MissingParameter",
    "NotReady",
    "PeerProtocolError",
    "ProtocolError",
    "RecordError",
    "RegistrationError",
    "RegistrationOvertaken",
    "RegistrationRefused",
    "RepeatedParameter",
    "ResolverError",
    "ResolverFailed",
    "ResolverRefused",
    "RuleBroken",
    "StorageError",
    "TooManyWrongKeys",
    "TransportError",
    "UnknownArchive",
    "UnknownItem",
    "UnknownSubject",
]

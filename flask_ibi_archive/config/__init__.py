"""The settings: read once, checked at the start, each error names the key."""

from flask_ibi_archive.config.archive import ArchiveConfig, find_unknown_keys
from flask_ibi_archive.config.mail import MailSettings
from flask_ibi_archive.config.resolver import ResolverConfig
from flask_ibi_archive.config.values import Network
from flask_ibi_archive.protocol.archive_address import host_of

__all__ = [
    "ArchiveConfig",
    "MailSettings",
    "Network",
    "ResolverConfig",
    "find_unknown_keys",
    "host_of",
]

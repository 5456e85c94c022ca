"""The grammar, the generation and the decoding of identifiers.

An identifier (IBI) has two forms. One form is a repository name such as
``sid.inpe.br/mtc-m18@80/2009/02.16.17.46``. The other form is a short code (IBIp) such as
``8JMKD3MGP8W/34PGRBS``. In both forms, the prefix names the server that assigns the identifier. The
suffix is the date of the assignment.

All other packages use this package. The functions of this package need neither a clock nor a
network.

Source: [G], chapters 5 to 7.
"""

from __future__ import annotations

from flask_ibi_archive.core.identifiers.dates import format_date, format_decimal, parse_decimal
from flask_ibi_archive.core.identifiers.grammar import MAX_LENGTH, Form, Identifier
from flask_ibi_archive.core.identifiers.ibip import (
    build_ibip,
    build_ibip_prefix,
    build_ibip_suffix,
    convert_from_decimal,
    convert_to_decimal,
)
from flask_ibi_archive.core.identifiers.parse import (
    Decoded,
    decode_identifier,
    parse_ibip,
    parse_identifier,
    parse_repository_name,
    suggest_identifier,
)
from flask_ibi_archive.core.identifiers.repository_names import (
    build_repository_name,
    build_repository_prefix,
    build_repository_suffix,
    canonical_address,
    check_host,
    is_private_address,
)
from flask_ibi_archive.core.identifiers.temporal_distributor import (
    find_creation_date,
    find_granularity,
    next_suffix_date,
    next_suffix_dates,
    parse_granularity,
    wait_until,
)

__all__ = [
    "MAX_LENGTH",
    "Decoded",
    "Form",
    "Identifier",
    "build_ibip",
    "build_ibip_prefix",
    "build_ibip_suffix",
    "build_repository_name",
    "build_repository_prefix",
    "build_repository_suffix",
    "canonical_address",
    "check_host",
    "convert_from_decimal",
    "convert_to_decimal",
    "decode_identifier",
    "find_creation_date",
    "find_granularity",
    "format_date",
    "format_decimal",
    "is_private_address",
    "next_suffix_date",
    "next_suffix_dates",
    "parse_decimal",
    "parse_granularity",
    "parse_ibip",
    "parse_identifier",
    "parse_repository_name",
    "suggest_identifier",
    "wait_until",
]

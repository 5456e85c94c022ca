"""Simulates a full disk with files that the kernel refuses to write."""

from __future__ import annotations

from pathlib import Path
from typing import Any, BinaryIO

import pytest

needs_full_disk = pytest.mark.skipif(
    not Path("/dev/full").exists(), reason="there is no /dev/full to write to"
)


def full_file(*arguments: Any, **options: Any) -> BinaryIO:
    """Return a file on a full disk; the parameters are those of tempfile.TemporaryFile."""
    return Path("/dev/full").open("w+b")

"""A process that deposits a file and ends abruptly at a step of the deposit."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

from support.archives import archive_of, make_app

from flask_ibi_archive import ItemRecord
from flask_ibi_archive.archive.items import files as staging
from flask_ibi_archive.archive.items.files import Staging


def main(uri: str, folder: Path, step: str) -> None:
    """Deposit a file, and end the process at a step."""
    move, copy = Staging.move_to_store, staging.copy_and_measure

    def copying(stream: Any, target: Any) -> Any:
        target.write(stream.read(1000))
        os._exit(9)

    def moving(staging: Staging, content: Any) -> None:
        if step == "before the store":
            os._exit(9)
        move(staging, content)
        if step == "before the commit":
            os._exit(9)

    Staging.move_to_store = moving
    staging.copy_and_measure = copying if step == "copying" else copy
    archive_of(make_app(uri, folder)).deposit(ItemRecord(), [folder / "big.bin"])


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), sys.argv[3])

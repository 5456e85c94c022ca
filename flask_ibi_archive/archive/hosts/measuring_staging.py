"""A staging folder for comparisons and dry runs, which write no files."""

from __future__ import annotations

from flask_ibi_archive.archive.items.files import (
    Content,
    Readable,
    Staging,
    copy_and_measure,
)


class MeasuringStaging(Staging):
    """A staging folder that only reads the files."""

    def add_stream(self, stream: Readable) -> Content:
        """Return the checksum and the size of a stream.

        :raises OSError: if the stream cannot be read.
        """
        return copy_and_measure(stream, None)

    def move_to_store(self, content: Content) -> None:
        """Do nothing."""

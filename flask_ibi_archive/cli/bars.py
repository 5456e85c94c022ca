"""Progress bars on a terminal, for commands that work in several stages."""

from __future__ import annotations

import sys
from contextlib import ExitStack
from types import TracebackType
from typing import Any

import click


class Bars:
    """Shows a progress bar for each stage on standard error, if that is a terminal.

    :param labels: the label of each stage, by the name of the stage.
    :ivar shown: whether the bars are shown.
    """

    def __init__(self, **labels: str) -> None:
        self._labels = labels
        self._stage = ""
        self._bar: Any = None
        self._done = 0
        self._open = ExitStack()
        self.shown = sys.stderr.isatty()

    def __enter__(self) -> Bars:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._open.close()

    def show(self, stage: str, done: int, total: int) -> None:
        """Update the bar of a stage; a new stage ends the previous bar.

        :param done: the number of units of work that are done, of ``total`` units.
        """
        if not self.shown:
            return
        if stage != self._stage:
            self._open.close()
            self._stage, self._done = stage, 0
            bar = click.progressbar(length=total, label=self._labels[stage], file=sys.stderr)
            self._bar = self._open.enter_context(bar)
        self._bar.length = total
        self._bar.update(done - self._done)
        self._done = done

    def clear(self) -> None:
        """Clear the line of the bar, so that a message can be written."""
        if self._bar is not None:
            click.echo("\r\033[K", nl=False, file=sys.stderr)

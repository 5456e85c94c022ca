"""Random walks over the rows of a host, each on a new database.

IBI_STATEFUL_EXAMPLES sets the number of walks.
"""

from __future__ import annotations

import os
import tempfile
from contextlib import ExitStack
from pathlib import Path
from typing import ClassVar

from hypothesis import settings
from hypothesis.stateful import RuleBasedStateMachine, run_state_machine_as_test

from support.databases import new_database
from support.host_app import Host


class HostMachine(RuleBasedStateMachine):
    """A host with a model. A subclass closes ``open`` in its teardown."""

    backend: ClassVar[str]

    def __init__(self) -> None:
        super().__init__()
        with ExitStack() as opened:
            folder = Path(opened.enter_context(tempfile.TemporaryDirectory()))
            uri = opened.enter_context(new_database(self.backend, folder, ready=True))
            self.host = Host(uri, folder)
            opened.callback(self.host.close)
            self.open = opened.pop_all()
        self.session = self.host.session()

    @classmethod
    def run_on(cls, backend: str, steps: int) -> None:
        """Walk on databases of one kind."""
        machine = type(cls.__name__, (cls,), {"backend": backend})
        examples = int(os.environ.get("IBI_STATEFUL_EXAMPLES", 6))
        run_state_machine_as_test(
            machine, settings=settings(max_examples=examples, stateful_step_count=steps)
        )

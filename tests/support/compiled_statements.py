"""Lets all engines of the tests share their compiled SQL."""

from __future__ import annotations

from typing import Any
from weakref import WeakKeyDictionary

from sqlalchemy import Connection, Dialect, Engine, event
from sqlalchemy.util import LRUCache

#: What differs in each database, but not in its SQL.
_NAMES = {"default_schema_name", "_type_memos", "identifier_preparer"}


class CompiledStatements(LRUCache[tuple[Any, ...], Any]):
    """Keeps compiled statements by what a dialect is, instead of by its object."""

    def __init__(self) -> None:
        super().__init__(2000)
        self.kinds: WeakKeyDictionary[Dialect, tuple[Any, ...]] = WeakKeyDictionary()

    def _key(self, key: tuple[Any, ...]) -> tuple[Any, ...]:
        dialect, *rest = key
        kind = self.kinds.get(dialect)
        if kind is None:
            values = {name: str(value) for name, value in vars(dialect).items()}
            kind = self.kinds[dialect] = (
                type(dialect),
                *sorted(
                    (name, value)
                    for name, value in values.items()
                    if name not in _NAMES and " object at 0x" not in value
                ),
            )
        return (kind, *rest)

    def get(self, key: tuple[Any, ...], default: Any = None) -> Any:
        """Return a compiled statement."""
        return super().get(self._key(key), default)

    def __setitem__(self, key: tuple[Any, ...], value: Any) -> None:
        super().__setitem__(self._key(key), value)


def share_compiled_statements() -> None:
    """Let the engines use one cache of compiled statements, as those of one process do."""
    shared = CompiledStatements()

    @event.listens_for(Engine, "engine_connect")
    def use(connection: Connection) -> None:
        connection.execution_options(compiled_cache=shared)

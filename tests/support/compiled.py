"""Lets all apps and engines of the tests share what a process compiles once."""

from __future__ import annotations

from typing import Any
from weakref import WeakKeyDictionary

from flask import Flask
from jinja2 import BytecodeCache, Environment
from jinja2.bccache import Bucket
from sqlalchemy import Connection, Dialect, Engine, event
from sqlalchemy.util import LRUCache
from werkzeug.routing import Rule

#: What differs in each database, but not in its SQL.
_NAMES = {"default_schema_name", "_type_memos", "identifier_preparer"}
_functions: dict[tuple[Any, ...], Any] = {}


class _Rule(Rule):
    """A rule whose functions are compiled once for all rules with the same path."""

    def _compile_builder(self, append_unknown: bool = True) -> Any:
        # the values of defaults, as their converters write them, are part of the function
        converters = {name: type(one) for name, one in self._converters.items()}
        defaults = repr((self.defaults, converters)) if self.defaults else ""
        key = (self.rule, defaults, *self._trace, append_unknown)
        if key not in _functions:
            _functions[key] = super()._compile_builder(append_unknown)
        return _functions[key]


class _Templates(BytecodeCache):
    """Keeps compiled templates in memory, by all that the compilation of a template depends on."""

    def __init__(self) -> None:
        self.compiled: dict[str, Any] = {}

    def get_bucket(
        self, environment: Environment, name: str, filename: str | None, source: str
    ) -> Bucket:
        """Return the place of a template; apps may have other extensions and functions."""
        kinds = ("extensions", "globals", "filters", "tests")
        options = [sorted(getattr(environment, kind)) for kind in kinds]
        escape = getattr(environment.autoescape, "__qualname__", environment.autoescape)
        key = self.get_cache_key(f"{name} {options} {escape}", filename)
        bucket = Bucket(environment, key, self.get_source_checksum(source))
        self.load_bytecode(bucket)
        return bucket

    def load_bytecode(self, bucket: Bucket) -> None:
        """Find the code of a template that has not changed since it was compiled."""
        bucket.code = self.compiled.get(bucket.key + bucket.checksum)

    def dump_bytecode(self, bucket: Bucket) -> None:
        """Keep the code of a template."""
        self.compiled[bucket.key + bucket.checksum] = bucket.code


class _Statements(LRUCache[tuple[Any, ...], Any]):
    """Keeps compiled statements by what a dialect is, instead of by its object."""

    def __init__(self) -> None:
        super().__init__(2000)
        self.kinds: WeakKeyDictionary[Dialect, tuple[Any, ...]] = WeakKeyDictionary()

    def _key(self, key: tuple[Any, ...]) -> tuple[Any, ...]:
        dialect, *rest = key
        if dialect not in self.kinds:
            values = {name: str(value) for name, value in vars(dialect).items()}
            same = (each for each in values.items() if each[0] not in _NAMES)
            kind = sorted((name, text) for name, text in same if " object at 0x" not in text)
            self.kinds[dialect] = (type(dialect), *kind)
        return (self.kinds[dialect], *rest)

    def get(self, key: tuple[Any, ...], default: Any = None) -> Any:
        """Return a compiled statement."""
        return super().get(self._key(key), default)

    def __setitem__(self, key: tuple[Any, ...], value: Any) -> None:
        super().__setitem__(self._key(key), value)


def share_compiled() -> None:
    """Let the apps and engines that are created from now on share what they compile."""
    Flask.url_rule_class = _Rule
    Flask.jinja_options = {**Flask.jinja_options, "bytecode_cache": _Templates()}
    statements = _Statements()

    @event.listens_for(Engine, "engine_connect")
    def use(connection: Connection) -> None:
        connection.execution_options(compiled_cache=statements)

"""Lets all apps of the tests share the compiled templates."""

from __future__ import annotations

from typing import Any

from flask import Flask
from jinja2 import BytecodeCache, Environment
from jinja2.bccache import Bucket


class CompiledTemplates(BytecodeCache):
    """Keeps compiled templates in memory, by all that the compilation of a template depends on."""

    def __init__(self) -> None:
        self.compiled: dict[str, Any] = {}

    def get_bucket(
        self, environment: Environment, name: str, filename: str | None, source: str
    ) -> Bucket:
        """Return the place of a template; apps may have other extensions and functions."""
        options = (
            sorted(environment.extensions),
            # the package renames some functions in a template, unless the host has them
            sorted(environment.globals),
            sorted(environment.filters),
            sorted(environment.tests),
            getattr(environment.autoescape, "__qualname__", environment.autoescape),
            getattr(environment.finalize, "__qualname__", environment.finalize),
            getattr(environment.undefined, "__qualname__", environment.undefined),
            environment.trim_blocks,
            environment.lstrip_blocks,
            environment.optimized,
        )
        key = self.get_cache_key(f"{name} {options}", filename)
        bucket = Bucket(environment, key, self.get_source_checksum(source))
        self.load_bytecode(bucket)
        return bucket

    def load_bytecode(self, bucket: Bucket) -> None:
        """Find the code of a template that has not changed since it was compiled."""
        bucket.code = self.compiled.get(bucket.key + bucket.checksum)

    def dump_bytecode(self, bucket: Bucket) -> None:
        """Keep the code of a template."""
        self.compiled[bucket.key + bucket.checksum] = bucket.code


def share_compiled_templates() -> None:
    """Let all apps that are created from now on share their compiled templates."""
    Flask.jinja_options = {**Flask.jinja_options, "bytecode_cache": CompiledTemplates()}

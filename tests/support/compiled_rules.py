"""Lets all apps of the tests share the functions with which werkzeug builds URLs."""

from __future__ import annotations

from typing import Any

from flask import Flask
from werkzeug.routing import Rule

_functions: dict[tuple[Any, ...], Any] = {}


class SharedRule(Rule):
    """A rule whose functions are compiled once for all rules with the same path."""

    def _compile_builder(self, append_unknown: bool = True) -> Any:
        # the values of defaults, as their converters write them, are part of the function
        converters = {name: type(one) for name, one in self._converters.items()}
        defaults = repr((self.defaults, converters)) if self.defaults else ""
        key = (self.rule, defaults, *self._trace, append_unknown)
        if key not in _functions:
            _functions[key] = super()._compile_builder(append_unknown)
        return _functions[key]


def share_compiled_rules() -> None:
    """Let the apps that are created from now on share the functions of their rules."""
    Flask.url_rule_class = SharedRule

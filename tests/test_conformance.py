"""Each rule of the documents has a test."""

from __future__ import annotations

from rules import find_tests, read_rules


def test_each_rule_has_a_test_and_each_mark_names_a_rule() -> None:
    rules = read_rules()
    assert len(rules) > 100
    assert find_tests().keys() == rules.keys()

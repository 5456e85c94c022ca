"""Robots: told by what a reader's program says of itself (the COUNTER Code of Practice 5.1, 7.8)."""

from __future__ import annotations

#: Characters of a User-Agent that are looked at: programs name themselves at its beginning.
MAX_AGENT = 1024


def is_robots_access(agent: str | None, reader_agent: str | None) -> bool:
    """Tell whether a robot, or another program, reads what an acknowledgment is about.

    :param agent: the User-Agent of the request: the resolver's own program as a rule. That it is a
        machine says nothing about the reader; a robot it is only where it says so.
    :param reader_agent: the reader's User-Agent, where the resolver passes it on.
    """
    # the lists are read and compiled when they are first needed
    from counter_robots import is_machine, is_robot, is_robot_or_machine

    if reader_agent:
        return bool(is_robot_or_machine(reader_agent[:MAX_AGENT]))
    agent = agent and agent[:MAX_AGENT]
    return bool(agent and is_robot(agent) and not is_machine(agent))

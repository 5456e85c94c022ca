"""Robots: find accesses of robots and other programs by their User-Agent header.

The lists of User-Agents are those of the COUNTER Code of Practice.
"""

from __future__ import annotations

#: Characters of a User-Agent that are examined: programs name themselves at its beginning.
MAX_AGENT = 1024


def is_robots_access(agent: str | None, reader_agent: str | None) -> bool:
    """Return whether a robot or another program made an access (COUNTER Code of Practice 5.1, 7.8).

    :param agent: the User-Agent of the acknowledgment, usually that of the resolver. A resolver
        is a program too; so only the User-Agent of a robot counts here, not of another program.
    :param reader_agent: the User-Agent of the reader's browser, if the resolver sends it.
    """
    # imported here, because the import reads and compiles long lists
    from counter_robots import is_machine, is_robot, is_robot_or_machine

    if reader_agent:
        return bool(is_robot_or_machine(reader_agent[:MAX_AGENT]))
    agent = agent and agent[:MAX_AGENT]
    return bool(agent and is_robot(agent) and not is_machine(agent))

"""Robots: recognise accesses by robots and other programs by their User-Agent header.

The COUNTER Code of Practice publishes the lists of User-Agents that are used.
"""

from __future__ import annotations

#: The number of characters of a User-Agent that are examined.
#: Programs name themselves at the beginning of the User-Agent.
MAX_AGENT = 1024


def is_robot_access(agent: str | None, reader_agent: str | None) -> bool:
    """Return whether a robot or another program made an access (COUNTER Code of Practice 5.1, 7.8).

    :param agent: the User-Agent of the program that sent the acknowledgment, usually the resolver.
        This User-Agent is examined only if ``reader_agent`` is unknown. Because a resolver is a
        program, only robots are then recognised, and other programs are not.
    :param reader_agent: the User-Agent of the reader's browser, if the resolver sends it.
    """
    # imported only here, because the import reads and compiles long lists
    from counter_robots import is_machine, is_robot, is_robot_or_machine

    if reader_agent:
        return bool(is_robot_or_machine(reader_agent[:MAX_AGENT]))
    agent = agent and agent[:MAX_AGENT]
    return bool(agent and is_robot(agent) and not is_machine(agent))

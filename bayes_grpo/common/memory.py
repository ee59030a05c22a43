"""What a process that has grown lets go of: programs that this package compiled, and nothing else.

The process may be a user's. What it compiled itself, and what JAX keeps for it, is not ours to clear.
"""

from __future__ import annotations

import sys

from bayes_grpo.common.machine import give_back, resident

LARGE_PROCESS = 1200.0
"""Memory from which on a process is made small again between tasks, MB; a task adds up to a quarter to it."""


def lighten(most: float = LARGE_PROCESS) -> bool:
    """Hands back freed memory, and where that is not enough our compiled programs, which the cache on disk has.

    Args:
        most: Memory above which programs are let go, MB.

    Returns:
        Whether they were.
    """
    give_back()
    if resident() <= most or "jax" not in sys.modules:
        return False
    from bayes_grpo.common.programs import forget_programs

    forget_programs()
    give_back()
    return True

"""How long work tells its caller where it stands."""

from __future__ import annotations

from collections.abc import Callable

Progress = Callable[[str], None]
"""Called with a short phrase at the start of every stage."""

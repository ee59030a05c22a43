"""The paper's predictions on a network: GRPO on a small transformer at interior fixed points of a KL penalty.

    python benchmarks/lab_dynamics.py [--only a b …] [--quick]

a  stability thresholds in the refresh interval, b  onset of oscillation, c  group size, d  slow starts, e  recovery of
stiffness, damping and fixed point by `fit`. The curvature is that of the exact mean update, never of a reward curve.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from typing import Any

from benchmarks.common import RESULTS, keep, say
from benchmarks.lab_cases import make_cases
from benchmarks.lab_fits import section_d, section_e
from benchmarks.lab_groups import section_c
from benchmarks.lab_thresholds import section_a, section_b

SECTIONS = {"a": section_a, "b": section_b, "c": section_c, "d": section_d, "e": section_e}


def main(arguments: Sequence[str] | None = None) -> dict[str, Any]:
    """Runs the sections and keeps what they found; sections that were not asked for keep their last result."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", nargs="+", choices=list(SECTIONS), default=list(SECTIONS))
    parser.add_argument("--quick", action="store_true", help="tiny networks and short runs; keeps nothing")
    options = parser.parse_args(arguments)
    cases = make_cases(options.quick, ("early",) if options.quick else ("early", "late"))
    found: dict[str, Any] = {}
    for name in options.only:
        say(f"section {name}")
        found[name] = SECTIONS[name](cases, options.quick)
    if not options.quick:
        path = RESULTS / "lab_dynamics.json"
        before = json.loads(path.read_text(encoding="utf-8"))["result"] if path.exists() else {}
        keep("lab_dynamics", before | found)
    return found


if __name__ == "__main__":
    main()

"""The paper's predictions on a network: GRPO on a small transformer at interior fixed points of a KL penalty.

    python -m benchmarks.lab.studies.dynamics [--only a b …] [--quick] [--plot FOLDER]

a  stability thresholds in the refresh interval, adam  the same under Adam, b  onset of oscillation, c  group size,
d  slow starts, e  recovery of stiffness, damping and fixed point by `fit`. Thresholds rest on the curvature of the
exact mean update, never on a reward curve. ``--plot`` draws the stored result and runs nothing.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.common import RESULTS, keep, say
from benchmarks.lab.studies.adam import section_adam
from benchmarks.lab.studies.cases import make_cases
from benchmarks.lab.studies.fits import section_e
from benchmarks.lab.studies.groups import section_c
from benchmarks.lab.studies.pictures import write_pictures
from benchmarks.lab.studies.slow import section_d
from benchmarks.lab.studies.thresholds import section_a, section_b

SECTIONS = {"a": section_a, "adam": section_adam, "b": section_b, "c": section_c, "d": section_d, "e": section_e}


def main(arguments: Sequence[str] | None = None) -> dict[str, Any]:
    """Runs the sections and keeps what they found; sections that were not asked for keep their last result."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", nargs="+", choices=list(SECTIONS), default=list(SECTIONS))
    parser.add_argument("--quick", action="store_true", help="tiny networks and short runs; keeps nothing")
    parser.add_argument("--plot", type=Path, help="folder for pictures of the stored result; nothing is run")
    options = parser.parse_args(arguments)
    path = RESULTS / "lab_dynamics.json"
    if options.plot:
        stored = json.loads(path.read_text(encoding="utf-8"))["result"]
        say(f"drawn: {', '.join(str(x) for x in write_pictures(stored, options.plot))}")
        return stored
    cases = make_cases(options.quick, ("early",) if options.quick else ("early", "late"))
    found: dict[str, Any] = {}
    for name in options.only:
        say(f"section {name}")
        found[name] = SECTIONS[name](cases, options.quick)
    if not options.quick:
        before = json.loads(path.read_text(encoding="utf-8"))["result"] if path.exists() else {}
        keep("lab_dynamics", before | found)
    return found


if __name__ == "__main__":
    main()

"""The top line judged: failing or failed against fine, watch or done, on labelled public logs and in the laboratory.

    python -m benchmarks.top_line benchmarks/episodes.csv --runs FOLDER ... --lab-learned FOLDER ... [--keep]

Every public log is judged by chains that were learned without the repositories of its fold. Beside the top line stands
what the probabilities alone would sound an alarm for (`AnswerProbabilities.alarming`).
"""

from __future__ import annotations

import argparse
import warnings
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from bayes_grpo.common.errors import BayesGrpoWarning
from bayes_grpo.diagnosis.classes import MODES
from bayes_grpo.diagnosis.diagnose import diagnose
from benchmarks.lab.learners.episode_cases import lab_episodes, public_episodes
from benchmarks.lab.learners.episodes import learn_chains
from benchmarks.lab.learners.public_logs import labelled_logs
from benchmarks.lab.learners.record import keep, say

ALARM = 0.5


def judged(rows: list[Mapping[str, Any]]) -> dict[str, Any]:
    """Recall and alarms of the top line and of the probabilities alone."""
    bad, good = ([r for r in rows if r["failed"] is failed] for failed in (True, False))
    by_label: dict[str, dict[str, int]] = {}
    for row in rows:
        by_label.setdefault(row["label"], Counter())[row["status"]] += 1
    out: dict[str, Any] = {"failed": len(bad), "good": len(good), "by label": {k: dict(v) for k, v in by_label.items()}}
    for name in ("top", "probabilities"):
        out[f"recall of {name}"] = sum(r[name] for r in bad) / max(len(bad), 1)
        out[f"alarms of {name}"] = sum(r[name] for r in good) / max(len(good), 1)
    return out


def main() -> None:
    """The program; its options are told by ``--help``."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("labels", type=Path)
    parser.add_argument("--runs", type=Path, nargs="+", required=True)
    parser.add_argument("--lab-learned", type=Path, nargs="+", required=True)
    parser.add_argument("--leave-out", nargs="*", default=["rec_"], help="logs whose names begin so: out of domain")
    parser.add_argument("--folds", type=int, default=6, help="groups of repositories that are left out together")
    parser.add_argument("--keep", action="store_true", help="keep the result among the stored ones")
    asked = parser.parse_args()
    warnings.simplefilter("ignore", BayesGrpoWarning)
    logs = [
        x for x in labelled_logs([f / "index.csv" for f in asked.runs]) if not x.name.startswith(tuple(asked.leave_out))
    ]
    cases = [*public_episodes(asked.labels, asked.runs), *lab_episodes(asked.lab_learned)]
    rows = []
    repositories = sorted({x.repository for x in logs})
    for fold in (repositories[i :: asked.folds] for i in range(asked.folds)):
        chains = learn_chains([c for c in cases if c.author not in fold], lambda _: None)
        for log in (x for x in logs if x.repository in fold):
            d = diagnose(log.run, chains=chains)
            row = {"log": log.name, "label": log.label, "failed": log.label in MODES, "status": d.top.status}
            row |= {"top": d.top.alarming, "probabilities": bool(d.alarming(ALARM))}
            rows.append(row)
            if row["top"] != row["failed"]:
                say(f"{log.name} ({log.label}): {d.top.sentence}")
    result = judged(rows) | {"repositories": len({x.repository for x in logs})}
    print(result)
    if asked.keep:
        keep("top_line", result)


if __name__ == "__main__":
    main()

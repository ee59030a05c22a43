"""Makes `hacking_loophole.json`: the log of a small transformer in training whose verifier has a loophole.

The verifier rewards a completion in which the answer occurs anywhere. The share of completions that are nothing but the
answer, which no trainer logs, stands next to the log as ``gold``.

    python notebooks/data/make_deep_log.py
"""

import json
import tempfile
from pathlib import Path

from bayes_grpo import write_runs
from bayes_grpo.simulate.trainer_log import write_json
from benchmarks.lab.runs import simulate_deep
from benchmarks.lab.settings import REWARDS

TARGET = Path(__file__).with_name("hacking_loophole.json")


def main() -> None:
    """Trains the network and writes its log."""
    run = simulate_deep("hacking_loophole", 1, seed=3)[0]
    with tempfile.TemporaryDirectory() as folder:
        (written,) = write_runs([run], Path(folder, "runs"))
        state = json.loads((written / "trainer_state.json").read_text(encoding="utf-8"))
    gold = run.trajectory.components[:, REWARDS.index("right")]
    write_json(TARGET, state | {"gold": [round(float(x), 4) for x in gold]})
    print(f"{TARGET}: {run.truth}")


if __name__ == "__main__":
    main()

"""An entrant in one file: the last rows go on as they stand, the less surely the further ahead."""

import numpy as np

NAME = "drift"


def forecast(step, y, ahead):
    """Mean of the last ten rows; its error grows as that of a random walk whose steps the rows tell."""
    last = y[-10:]
    wander = np.std(np.diff(y)) / np.sqrt(8.0 * len(last))
    gone = (ahead - step[-1]) / np.median(np.diff(step))
    return np.full(len(ahead), last.mean()), np.sqrt(np.var(last, ddof=1) + wander**2 * gone + 1e-12)


def alarms(run):
    """An alarm where the last tenth of the reward lies below the first tenth."""
    y, step = (x[np.isfinite(run.reward)] for x in (run.reward, run.step))
    k = max(1, len(y) // 10)
    return {"dynamical_instability": float(step[-1])} if len(y) and y[-k:].mean() < y[:k].mean() else {}

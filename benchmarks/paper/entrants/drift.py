"""An entrant in one file: the last rows go on as they stand, the less surely the further ahead."""

import numpy as np

NAME = "drift"


def forecast(step, y, ahead):
    """Mean of the last ten rows; its error grows as that of a random walk whose steps the rows tell."""
    last = y[-10:]
    wander = np.std(np.diff(y)) / np.sqrt(8.0 * len(last))
    gone = (ahead - step[-1]) / np.median(np.diff(step))
    return np.full(len(ahead), last.mean()), np.sqrt(np.var(last, ddof=1) + wander**2 * gone + 1e-12)

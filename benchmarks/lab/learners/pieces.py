"""What a pool of laws and level is learned from: how each did at an origin, and how far they are apart.

The CRPS of a linear pool is known from its parts: with weights w of laws and level,

    CRPS = (1 − w) CRPS_laws + w CRPS_level − w (1 − w) ∫ (F_laws − F_level)² dx

so that any weight is scored without another forecast.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from bayes_grpo.backtesting import crps, log_score
from bayes_grpo.common.sampling import seed_of
from bayes_grpo.forecasting.events import shipped_event_rates
from bayes_grpo.forecasting.level import LEVEL_NAME
from benchmarks.forecast.backtest_parts import Origin, Predicted, averaged, with_hazard


class Piece(NamedTuple):
    """An origin of a log, for every weight of the pool.

    Attributes:
        log: Name of the run.
        origin: Share of the rows that was seen.
        features: `bayes_grpo.forecasting.pool.pool_features`.
        laws: Mean CRPS of the averaged laws over the standard deviation of the whole curve.
        level: Mean CRPS of the level, likewise.
        apart: Mean of ∫ (F_laws − F_level)² dx, likewise.
        below_laws: Share of the laws' draws below every row that came, shape (h,).
        below_level: Share of the level's draws below it, shape (h,).
        log_laws: Log score of the laws at every row plus the log of that standard deviation, shape (h,).
        log_level: Log score of the level, likewise.
    """

    log: str
    origin: float
    features: tuple[float, ...]
    laws: float
    level: float
    apart: float
    below_laws: tuple[float, ...]
    below_level: tuple[float, ...]
    log_laws: tuple[float, ...]
    log_level: tuple[float, ...]

    def crps(self, share: float) -> float:
        """Mean CRPS where the level has a share."""
        return (1.0 - share) * self.laws + share * self.level - share * (1.0 - share) * self.apart

    def below(self, share: float) -> np.ndarray:
        """Probability integral transform of the rows, shape (h,)."""
        return (1.0 - share) * np.array(self.below_laws) + share * np.array(self.below_level)

    def log_score(self, share: float) -> float:
        """Mean log score of the rows."""
        laws, level = np.array(self.log_laws) + np.log1p(-share), np.array(self.log_level) + np.log(share)
        return float(np.logaddexp(laws, level).mean())


def piece_at(origin: Origin, found: Predicted, seed: int) -> Piece | None:
    """The piece of a forecast from an earlier step of a log; None where the level has no share in it.

    Args:
        origin: Where the log was forecast from.
        found: The forecast.
        seed: Seed of the origin.
    """
    if found.features is None:
        return None
    own = {k: w for k, w in found.weights.items() if k != LEVEL_NAME}
    laws = averaged(found.paths, {k: w / sum(own.values()) for k, w in own.items()}, seed)
    # As the forecast itself, each counts with the events that no regime models.
    both = (laws, found.paths[LEVEL_NAME])
    laws, level = (with_hazard(origin, x, shipped_event_rates(), seed_of(seed, "events")) for x in both)
    return piece_of(origin.inputs.name, origin.share, found.features, laws, level, origin.y, origin.scale)


def piece_of(
    log: str, origin: float, features: np.ndarray, laws: np.ndarray, level: np.ndarray, y: np.ndarray, scale: float
) -> Piece:
    """A piece from predictive draws.

    Args:
        log: Name of the run.
        origin: Share of the rows that was seen.
        features: Features of the rows seen.
        laws: Draws of the averaged laws, shape (m, h).
        level: Draws of the level, shape (m, h).
        y: What came, shape (h,).
        scale: Standard deviation of the whole curve.
    """

    def below(draws: np.ndarray) -> tuple[float, ...]:
        # A row that ties with draws, as at the end of a reward's range, lies in their middle.
        found = np.mean(draws < y, axis=0) + 0.5 * np.mean(draws == y, axis=0)
        return tuple(np.round(found, 4).tolist())

    def density(draws: np.ndarray) -> tuple[float, ...]:
        return tuple(np.round(log_score(draws, y) + np.log(scale), 4).tolist())

    return Piece(
        log=log,
        origin=origin,
        features=tuple(features.tolist()),
        laws=float(crps(laws, y).mean()) / scale,
        level=float(crps(level, y).mean()) / scale,
        apart=float(apart(laws, level).mean()) / scale,
        below_laws=below(laws),
        below_level=below(level),
        log_laws=density(laws),
        log_level=density(level),
    )


def apart(one: np.ndarray, other: np.ndarray) -> np.ndarray:
    """∫ (F − G)² dx of the distribution functions of draws, shape (m, h) each; shape (h,)."""
    x = np.concatenate([one, other])
    mass = np.concatenate([np.full(len(one), 1.0 / len(one)), np.full(len(other), -1.0 / len(other))])
    order = np.argsort(x, axis=0)
    difference = np.cumsum(mass[order], axis=0)[:-1]
    return np.sum(difference**2 * np.diff(np.take_along_axis(x, order, axis=0), axis=0), axis=0)

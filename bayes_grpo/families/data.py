"""A family's draws as a DataTree, as ArviZ reads one."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from bayes_grpo.families.members import FamilyMember
from bayes_grpo.families.posterior import FamilyPosterior, Together
from bayes_grpo.families.shrink import RunDraws

if TYPE_CHECKING:
    from xarray import DataTree


def data_of(
    together: Together,
    members: Sequence[FamilyMember],
    vary: Sequence[str],
    found: FamilyPosterior,
    shrunk: Sequence[RunDraws],
    exponents: Mapping[str, np.ndarray],
) -> DataTree:
    """The DataTree of a family.

    Args:
        together: The runs as the model saw them.
        members: The runs.
        vary: Varied settings.
        found: The posterior.
        shrunk: Draws of every run.
        exponents: "quantity on setting" → draws, shape (chains, draws).

    Returns:
        Groups

        - `posterior`: ``mean``, ``slopes``, ``spread`` and ``between`` of the traits with dimensions (chain, draw,
          setting, trait); ``exponent`` with (chain, draw, effect);
        - `runs`: parameters of every run given the family, (chain, draw, run), evenly spread draws;
        - `observed_data`: ``step`` and ``reward`` of every run, (run, row), NaN after its last;
        - `constant_data`: ``settings`` (run, setting) and ``study`` (run).
    """
    from xarray import Dataset, DataTree

    traits = [p.name for p in together.regime.parameters]
    names = [m.run.name for m in members]
    at = {"trait": traits}
    draws = found.draws
    posterior = Dataset(
        {
            "mean": (("chain", "draw", "trait"), draws.mean),
            "slopes": (("chain", "draw", "setting", "trait"), draws.slopes),
            "spread": (("chain", "draw", "trait"), draws.spread),
            "between": (("chain", "draw", "trait"), draws.between),
            "exponent": (("chain", "draw", "effect"), np.stack(list(exponents.values()), axis=-1)),
        },
        at | {"setting": list(vary), "effect": list(exponents)},
    )
    parameters = {
        name: (("chain", "draw", "run"), np.stack([d.values[name] for d in shrunk], axis=-1)[None]) for name in traits
    }
    longest = max(len(t.y) for t in together.tables)

    def column(values: Sequence[np.ndarray]) -> np.ndarray:
        return np.stack([np.pad(v.astype(float), (0, longest - len(v)), constant_values=np.nan) for v in values])

    observed = {
        "step": (("run", "row"), column([t.step for t in together.tables])),
        "reward": (("run", "row"), column([t.y for t in together.tables])),
    }
    settings = np.array([[m.settings[name] for name in vary] for m in members])
    tree = DataTree.from_dict(
        {
            "posterior": posterior,
            "runs": Dataset(parameters, {"run": names}),
            "observed_data": Dataset(observed, {"run": names}),
            "constant_data": Dataset(
                {"settings": (("run", "setting"), settings), "study": ("run", [m.study for m in members])},
                {"run": names, "setting": list(vary)},
            ),
        }
    )
    tree.attrs.update(
        regime=together.regime.name, origin=together.scale.origin, unit=together.scale.unit, vary=json.dumps(list(vary))
    )
    return tree

"""Logs side by side in one batch, as one process does them on an accelerator: the numbers of each alone."""

import numpy as np
import pytest

from bayes_grpo import SamplerSettings
from bayes_grpo.common import programs
from bayes_grpo.common.together import together
from bayes_grpo.dynamics import likelihood
from bayes_grpo.fitting.sampling import nuts
from bayes_grpo.fitting.sampling.importance import fast_posterior
from bayes_grpo.fitting.sampling.sample import sample_posterior
from bayes_grpo.fitting.sampling.target import target_of
from bayes_grpo.fitting.sampling.weighted import WeightDiagnostics
from bayes_grpo.regimes import get_regime
from bayes_grpo.rows.prepared import prepare_rows
from bayes_grpo.rows.rows_of import rows_of
from tests.helpers.runs import make_run

SHORT = SamplerSettings(chains=2, warmup=50, draws=100)


def table(seed: int, rows: int = 24):
    noise = np.random.default_rng(seed).standard_normal(rows)
    return prepare_rows(rows_of(make_run(np.arange(1.0, rows + 1), 0.5 + 0.05 * noise)), many=True)


def points(seed: int):
    return fast_posterior(target_of(get_regime("exponential"), table(seed)), seed=seed, fallback=False)


def chains(seed: int):
    rows = prepare_rows(table(seed).table)
    return sample_posterior(target_of(get_regime("exponential"), rows), seed=seed, sampler=SHORT, retry=False).draws


@pytest.mark.thorough
def test_fast_posteriors():
    ours = sorted(together(points, range(3)))
    for seed, outcome in enumerate(ours):
        alone, found = points(seed), outcome.value
        np.testing.assert_allclose(found.z, alone.z, rtol=1e-9)
        assert found.log_evidence == pytest.approx(alone.log_evidence, rel=1e-12)
        assert isinstance(found.diagnostics, WeightDiagnostics)
        assert isinstance(alone.diagnostics, WeightDiagnostics)
        assert found.diagnostics.rounds == alone.diagnostics.rounds
        levels = (x.with_levels(1).flat("fixed_point") for x in (found, alone))
        np.testing.assert_allclose(*levels, rtol=1e-7)


@pytest.mark.slow
def test_chains_of_nuts(monkeypatch):
    programs.forget_programs()
    monkeypatch.setattr(likelihood, "accelerated", lambda: True)
    monkeypatch.setattr(nuts, "accelerated", lambda: True)
    ours = sorted(together(chains, range(3)))
    alone = [chains(seed) for seed in range(3)]
    programs.forget_programs()
    for found, one in zip(ours, alone, strict=True):
        assert one.chains is not None
        assert found.value.chains.num_steps.tolist() == one.chains.num_steps.tolist()
        np.testing.assert_allclose(found.value.z, one.z, atol=1e-6)
        np.testing.assert_allclose(found.value.values["relaxation_time"], one.values["relaxation_time"], rtol=1e-6)

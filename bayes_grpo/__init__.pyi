"""The public names, each stated once; `__init__` imports them from here on first use."""

from .backtesting.backtest import backtest as backtest
from .backtesting.many import backtest_logs as backtest_logs
from .backtesting.plot import plot_backtest as plot_backtest
from .backtesting.render import render_backtest as render_backtest
from .backtesting.result import Backtest as Backtest
from .backtesting.result import merge_backtests as merge_backtests
from .checking.check import check as check
from .checking.plot import plot_check as plot_check
from .checking.render import render_check as render_check
from .checking.result import Check as Check
from .common.errors import BayesGrpoError as BayesGrpoError
from .common.errors import BayesGrpoWarning as BayesGrpoWarning
from .common.picture import save_plot as save_plot
from .comparison.compare import compare as compare
from .comparison.loo import leave_one_out as leave_one_out
from .comparison.plot import plot_comparison as plot_comparison
from .comparison.render import render_comparison as render_comparison
from .comparison.result import Comparison as Comparison
from .decision.budget import steps_for_gain as steps_for_gain
from .decision.decide import decide as decide
from .decision.plot import mark_stop as mark_stop
from .decision.plot import plot_decision as plot_decision
from .decision.question import Question as Question
from .decision.render import render_decision as render_decision
from .decision.result import Decision as Decision
from .decision.result import Stopping as Stopping
from .diagnosis.classes import MODES as MODES
from .diagnosis.diagnose import diagnose as diagnose
from .diagnosis.plot import plot_diagnosis as plot_diagnosis
from .diagnosis.render import render_diagnosis as render_diagnosis
from .diagnosis.result import Diagnosis as Diagnosis
from .families.compare_runs import compare_runs as compare_runs
from .families.compared import Compared as Compared
from .families.family import family as family
from .families.plot import plot_compare_runs as plot_compare_runs
from .families.plot import plot_family as plot_family
from .families.render import render_compare_runs as render_compare_runs
from .families.render import render_family as render_family
from .families.result import Family as Family
from .fitting.file import load_fit as load_fit
from .fitting.file import save_fit as save_fit
from .fitting.fit import fit as fit
from .fitting.loo_view import loo_view as loo_view
from .fitting.plot import plot_curve as plot_curve
from .fitting.plot import plot_fit as plot_fit
from .fitting.plot import plot_quantity as plot_quantity
from .fitting.render import render_fit as render_fit
from .fitting.result import Fit as Fit
from .fitting.sampling.nuts import SamplerSettings as SamplerSettings
from .fitting.summary import Summary as Summary
from .fitting.summary import summarize as summarize
from .forecasting.fits import FORECAST_REGIMES as FORECAST_REGIMES
from .forecasting.forecast import forecast as forecast
from .forecasting.plot import plot_forecast as plot_forecast
from .forecasting.priors import forecast_priors as forecast_priors
from .forecasting.priors import priors_named as priors_named
from .forecasting.reach import Reach as Reach
from .forecasting.reach import reach_of as reach_of
from .forecasting.render import render_forecast as render_forecast
from .forecasting.result import Forecast as Forecast
from .forecasting.summary import ForecastSummary as ForecastSummary
from .forecasting.summary import summarize_forecast as summarize_forecast
from .learning.learn import corpus_priors as corpus_priors
from .learning.learn import learn as learn
from .learning.learn_prior import learn_prior as learn_prior
from .learning.render import render_prior_table as render_prior_table
from .learning.table import (
    PriorTable as PriorTable,
)
from .learning.table import (
    load_prior_table as load_prior_table,
)
from .learning.table import (
    save_prior_table as save_prior_table,
)
from .live.fleet import fleet as fleet
from .live.plot import plot_fleet as plot_fleet
from .live.render import render_fleet as render_fleet
from .live.result import Fleet as Fleet
from .logs.plot import plot_run as plot_run
from .logs.reading import read_log as read_log
from .logs.render import render_run as render_run
from .logs.run import Provenance as Provenance
from .logs.run import Run as Run
from .logs.run import Setting as Setting
from .logs.run import Settings as Settings
from .logs.summary import RunSummary as RunSummary
from .logs.summary import describe_run as describe_run
from .planning.curvature import curvature_of as curvature_of
from .planning.render import render_group_sizes as render_group_sizes
from .planning.render import render_stability as render_stability
from .planning.result import GroupSizePlan as GroupSizePlan
from .planning.result import StabilityReport as StabilityReport
from .planning.result import group_sizes_frame as group_sizes_frame
from .planning.stability import plan_group_sizes as plan_group_sizes
from .planning.stability import stability as stability
from .regimes.base import Regime as Regime
from .regimes.parameters import Parameter as Parameter
from .regimes.parameters import Prior as Prior
from .regimes.parameters import Quantity as Quantity
from .regimes.registry import REGIMES as REGIMES
from .regimes.registry import get_regime as get_regime
from .rows.padding import Rows as Rows
from .rows.padding import padded as padded
from .rows.padding import stacked as stacked
from .rows.rows_of import rows_of as rows_of
from .rows.table import RowTable as RowTable
from .simulate.dataset import write_runs as write_runs
from .simulate.deep.families import deep_families as deep_families
from .simulate.deep.render import render_deep as render_deep
from .simulate.deep.runs import simulate_deep as simulate_deep
from .simulate.render import render_simulated as render_simulated
from .simulate.scenarios import scenario_names as scenario_names
from .simulate.scenarios import simulate_scenario as simulate_scenario

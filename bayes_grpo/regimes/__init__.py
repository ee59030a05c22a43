"""Regimes: models of the reward curve, one file each; and the public parts of which other packages build theirs."""

from bayes_grpo.dynamics.state_space import StateSpace as StateSpace
from bayes_grpo.regimes.base import POSITIVE as POSITIVE
from bayes_grpo.regimes.base import REAL as REAL
from bayes_grpo.regimes.base import SIGNED as SIGNED
from bayes_grpo.regimes.base import UNIT as UNIT
from bayes_grpo.regimes.base import Parameter as Parameter
from bayes_grpo.regimes.base import Prior as Prior
from bayes_grpo.regimes.base import Quantity as Quantity
from bayes_grpo.regimes.base import Regime as Regime
from bayes_grpo.regimes.common import FLUCTUATION as FLUCTUATION
from bayes_grpo.regimes.common import LEVELS as LEVELS
from bayes_grpo.regimes.common import NOISES as NOISES
from bayes_grpo.regimes.common import TrendRegime as TrendRegime
from bayes_grpo.regimes.common import first_order_row as first_order_row
from bayes_grpo.regimes.common import fluctuation_rows as fluctuation_rows
from bayes_grpo.regimes.common import initial_levels as initial_levels
from bayes_grpo.regimes.common import measurement_var as measurement_var
from bayes_grpo.regimes.common import row_times as row_times
from bayes_grpo.regimes.common import trend_space as trend_space
from bayes_grpo.regimes.common import window_mean as window_mean
from bayes_grpo.regimes.common import with_level as with_level
from bayes_grpo.regimes.registry import REGIMES as REGIMES
from bayes_grpo.regimes.registry import get_regime as get_regime

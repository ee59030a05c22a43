"""What the command line calls besides the public names, each once; `internal` imports them from here on first use."""

from .diagnosis.status import MODES as MODES
from .logs.options import sidecar_reference_runs as sidecar_reference_runs
from .passing.passing import passing as passing
from .planning.outcomes import run_failed as run_failed
from .planning.stability import curvature_of as curvature_of
from .probing.course import StiffnessCourse as StiffnessCourse
from .probing.course import pooled_probes as pooled_probes
from .probing.course import stiffness_course as stiffness_course
from .probing.estimate import Probe as Probe
from .probing.file import load_probes as load_probes
from .probing.predict import limits_of as limits_of
from .references.gather import NearbyRuns as NearbyRuns
from .rollouts.paired import compare_by_prompt as compare_by_prompt
from .rollouts.summary import describe_rollouts as describe_rollouts
from .views.plots.rollouts import plot_rollouts as plot_rollouts
from .views.plots.runs import plot_compare_runs as plot_compare_runs
from .views.plots.runs import plot_plan as plot_plan
from .views.plots.runs import plot_sweep as plot_sweep
from .views.simulate import WrittenRuns as WrittenRuns
from .views.terminal import printed as printed
from .watching.result import Watching as Watching
from .watching.watch import Patience as Patience

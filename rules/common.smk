# What the rules share: the study, its plan, and what only Snakemake can say.
import sys
from functools import cache
from pathlib import Path

from snakemake.exceptions import WorkflowError
from snakemake.settings.types import RerunTrigger

PROJECT = Path(str(workflow.current_basedir)).parent
sys.path.insert(0, str(PROJECT / "pkg"))  # a checkout works without installation

try:
    from pwfl import entrance, scenario
    from pwfl.workflow import jobs, reports
    from pwfl.workflow.plan import device, gpus, plan
except ModuleNotFoundError as error:
    if (error.name or "").partition(".")[0] in ("", "pwfl"):
        raise
    raise WorkflowError(
        f"Snakemake runs in an environment without the package {error.name}, which this workflow needs, as other "
        f"packages: install them by `{sys.executable} -m pip install {PROJECT}`; or run `make setup` in {PROJECT}, and "
        "use the Snakemake of its .venv"
    ) from None

jobs.give_path(PROJECT / "pkg")
is_main = workflow.modifier.is_main_snakefile()  # not a module of another workflow
decides = workflow.is_main_process  # jobs take what was decided
try:
    configs = workflow.configfiles or ["config/config.yaml"]  # also under `--config` alone
    arguments = workflow.config_settings.config_args or []
    files = scenario.read(configs, arguments) if decides and is_main else None
    if is_main and not workflow.configfiles:
        workflow.configfile(*configs)
    source = ", ".join(map(str, configs)) if is_main else "the module's config"
    study = scenario.load(config, source, files)
    if decides:
        scenario.check_surroundings(study)
    planned = plan(study)
    report_jobs = reports.plan(planned, PROJECT / "report")
except Exception as error:
    raise WorkflowError(entrance.message(error)) from None
RESULTS = f"results/{study.name}"
# In a storage, records cannot be read now: there Snakemake's memory of params decides.
by_records = not getattr(workflow.storage_settings, "default_storage_provider", None)
lies = workflow.modifier.path_modifier.replace_prefix  # also as a module
stale = {path: lies(f"{RESULTS}/{path}") for path in report_jobs}
if decides and by_records:
    stale = reports.stale(report_jobs, stale)


@cache
def let_content_decide():
    """Run what is missing and what is of another plan, whatever files' times and the command line say.

    Called between Snakemake's settings and its decision. Files appear whole: its marks of killed jobs say nothing.
    """
    if decides:
        workflow.dag_settings.rerun_triggers = {RerunTrigger.PARAMS}
        if by_records:
            workflow.dag.forcefiles.update(stale.values())
            workflow.dag.ignore_incomplete = True


def due(name, wildcards):
    """The plan's job of a rule: of the report by its name, of a stage by its address."""
    try:
        if name:
            return reports.find(report_jobs, study, name, wildcards.get("scenario"))
        return planned.job(wildcards.address, wildcards.get("shard", "all"))
    except scenario.ScenarioError as error:
        raise WorkflowError(str(error)) from None


def depends(name=None):
    return lambda wildcards: due(name, wildcards).description


def inputs(name=None):
    """Inputs of a rule: `ancient`, as addresses and records say what a file is of, but for those of a stale report."""

    def found(wildcards):
        let_content_decide()
        job = due(name, wildcards)
        fresh = name and reports.record(name, wildcards.get("scenario")) not in stale
        reported = {key: ancient(paths) if fresh else paths for key, paths in job.reports.items()}
        outside = {key: ancient(local(paths)) for key, paths in job.outside.items()}
        return reported | outside | {key: ancient(paths) for key, paths in job.inputs.items()}

    return found

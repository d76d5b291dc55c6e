"""Snakemake's logger plugin `pwfl` (`snakemake --logger pwfl`): a line for each job, with its reason, and progress."""

import logging
import re
import sys
from pathlib import Path

from snakemake_interface_logger_plugins.base import LogHandlerBase
from snakemake_interface_logger_plugins.common import LogEvent

# What Snakemake says besides and nobody misses, unless --verbose asks for it.
LEFT_OUT = re.compile(
    r"Select jobs to execute|Execute \d+ jobs|Building DAG|Assuming unrestricted|Using shell|Provided (cores|res)|"
    r"Rules claiming more|Conda environments: ignored|Touching output|host: |"
    r"Reasons:|This was a dry-run|\s*\(check individual|Elapsed time|"
    r"\d+ jobs? ha(s|ve) missing provenance|Rules with missing metadata"
)
ONLY_ALL = re.compile(r"Job stats:\njob +count\n[- ]+\nall +1\n")  # the rule that computes nothing
# The job of a part prints itself which items failed, and the run at its end.
OF_PART = re.compile(r"RuleException:\nCalledProcessError in file .*\n.*\.part\.py'")
WILDCARDS = "Target rules may not contain wildcards"
# An error of the workflow's files says what is wrong; where they raise it is nobody's concern.
RAISED = re.compile(
    r'\AWorkflowError in file "[^"\n]+"(?:, line \d+)?:\n(.*?)(?:\n  File "[^"\n]+", line \d+, in .+)*\Z', re.S
)
NOTHING = "Nothing to be done"
STATS = "Job stats:"
EVENTS = {LogEvent.ERROR, LogEvent.JOB_ERROR, LogEvent.GROUP_ERROR, LogEvent.RUN_INFO, None}


class LogHandler(LogHandlerBase):
    """Writes a line for each part that starts, and one every few seconds on how far all are; errors as they come."""

    writes_to_stream = has_filter = True  # in place of Snakemake's own handler; it selects records by itself
    writes_to_file = has_formatter = needs_rulegraph = False

    def __post_init__(self) -> None:
        self.progress = None
        self.has_counted = False  # whether a dry run's jobs were counted

    def emit(self, record: logging.LogRecord) -> None:
        """Write what a record says, if it is worth it."""
        event, text, settings = getattr(record, "event", None), str(record.msg or ""), self.common_settings
        interrupts = sys.modules.get("pwfl.process.interrupts")  # the workflow imports it, as the package that it uses
        if interrupts is not None and interrupts.status() and not settings.verbose:
            return  # what Ctrl-C means was said; jobs that end are no errors
        mark = None  # of the part that a record of a job is about, if any
        if event in (LogEvent.JOB_INFO, LogEvent.JOB_ERROR):
            mark = next((Path(path) for path in vars(record).get("output", ()) if str(path).endswith(".done")), None)
        if event == LogEvent.JOB_INFO:
            if mark and not settings.dryrun:
                # Snakemake imports this plugin before the workflow, which says whose pwfl is used: a checkout's own.
                from pwfl.workflow.progress import Progress

                self.progress = self.progress or Progress()
                self.progress.started(mark)
            if mark:  # else of publication and the like
                self._write(vars(record)["rule_msg"])
            return
        if OF_PART.match(text):
            return
        if settings.dryrun and ONLY_ALL.match(text) and not self.has_counted:
            self.has_counted = True
            self._write(f"{NOTHING}.")
        if event == LogEvent.JOB_ERROR and mark:
            if self.progress:
                self.progress.failed(mark)
            if mark.with_suffix(".failed").exists():
                return
        if settings.verbose or record.levelno >= logging.WARNING or self._is_told(event, text):
            self._write(RAISED.sub(r"\1", self.format(record)))
        if WILDCARDS in text:
            self._write("For all parts of a stage, and what they need: snakemake STAGE_all, or snakemake --until STAGE")
        if text.startswith(NOTHING) and not settings.dryrun:
            from pwfl.workflow import progress

            if progress.complete:
                self._write(progress.result(progress.complete))

    def _is_told(self, event: LogEvent | None, text: str) -> bool:
        if event == LogEvent.RUN_INFO and not self.common_settings.dryrun:
            return False
        if text.startswith(STATS):  # which Snakemake says before a dry run's jobs, and again after them
            if self.has_counted:
                return False
            self.has_counted = True
        return event in EVENTS and bool(text) and not LEFT_OUT.match(text)

    def _write(self, text: str) -> None:
        print(text, file=sys.stdout if self.common_settings.stdout else sys.stderr, flush=True)

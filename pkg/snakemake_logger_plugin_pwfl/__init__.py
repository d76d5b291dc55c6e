"""Snakemake's logger plugin `pwfl` (`snakemake --logger pwfl`): a line for each job, with its reason, and progress."""

import logging
import re
import sys
from pathlib import Path

from snakemake_interface_logger_plugins.base import LogHandlerBase
from snakemake_interface_logger_plugins.common import LogEvent

# Snakemake's messages that are printed only with --verbose.
LEFT_OUT = re.compile(
    r"Select jobs to execute|Execute \d+ jobs|Building DAG|Assuming unrestricted|Using shell|Provided (cores|res)|"
    r"Rules claiming more|Conda environments: ignored|Touching output|host: |"
    r"Reasons:|This was a dry-run|\s*\(check individual|Elapsed time|"
    r"\d+ jobs? ha(s|ve) missing provenance|Rules with missing metadata"
)
ONLY_ALL = re.compile(r"Job stats:\njob +count\n[- ]+\nall +1\n")  # the rule that computes nothing
# A part's job prints its failed items, and the run prints them again at its end.
OF_PART = re.compile(r"RuleException:\nCalledProcessError in file .*\n.*\.part\.py'")
WILDCARDS = "Target rules may not contain wildcards"
# The message of an error in the workflow's files suffices; the lines that raised it are removed.
RAISED = re.compile(
    r'\AWorkflowError in file "[^"\n]+"(?:, line \d+)?:\n(.*?)(?:\n  File "[^"\n]+", line \d+, in .+)*\Z', re.S
)
NOTHING = "Nothing to be done"
STATS = "Job stats:"
EVENTS = {LogEvent.ERROR, LogEvent.JOB_ERROR, LogEvent.GROUP_ERROR, LogEvent.RUN_INFO, None}


class LogHandler(LogHandlerBase):
    """Prints a line for each part that starts, the progress of all at intervals, and errors as they occur."""

    writes_to_stream = has_filter = True  # replaces Snakemake's handler; it selects records by itself
    writes_to_file = has_formatter = needs_rulegraph = False

    def __post_init__(self) -> None:
        self.progress = None
        self.has_counted = False  # whether a dry run's jobs were counted

    def emit(self, record: logging.LogRecord) -> None:
        """Print a record's message, if it is relevant."""
        event, text, settings = getattr(record, "event", None), str(record.msg or ""), self.common_settings
        interrupts = sys.modules.get("pwfl.process.interrupts")  # the workflow imports it, from the pwfl that it uses
        if interrupts is not None and interrupts.status() and not settings.verbose:
            return  # the message about Ctrl-C was printed; jobs that end are no errors
        mark = None  # of the part that a record of a job is about, if any
        if event in (LogEvent.JOB_INFO, LogEvent.JOB_ERROR):
            mark = next((Path(path) for path in vars(record).get("output", ()) if str(path).endswith(".done")), None)
        if event == LogEvent.JOB_INFO:
            if mark and not settings.dryrun:
                # Snakemake imports this plugin before the workflow, which selects the pwfl to use: the checkout's.
                from pwfl.workflow.progress import Progress

                self.progress = self.progress or Progress()
                self.progress.started(mark)
            if mark:  # otherwise it is of publication, for example
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
        if text.startswith(STATS):  # Snakemake prints it before a dry run's jobs, and again after them
            if self.has_counted:
                return False
            self.has_counted = True
        return event in EVENTS and bool(text) and not LEFT_OUT.match(text)

    def _write(self, text: str) -> None:
        print(text, file=sys.stdout if self.common_settings.stdout else sys.stderr, flush=True)

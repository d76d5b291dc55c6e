"""Jobs end with the Snakemake that started them, and their workers with them, whatever they are doing.

A process of the test stands in for Snakemake.
"""

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import contextmanager

import psutil
import pytest

from conftest import ROOT, environment, python

SECONDS = 5.0  # after which a job must be gone once its workflow is
ENDING = 2.0  # and once it is told to end
WORKFLOW = """
import subprocess, sys
from pwfl.process import supervisor
supervisor.hand_over()
sys.exit(subprocess.run(sys.argv[1:]).returncode)
"""
JOB = """
import os, sys, time
from pathlib import Path
from pwfl.process import supervisor

def say(*words):
    os.write(1, (" ".join(map(str, words)) + "\\n").encode())

def work(failed, reporter):
    reporter.begin(["it"])
    say(os.getppid(), os.getpid())
    {doing}
    return True

def cleanup():
    say("cleanup")

print(supervisor.supervise(work, cleanup), flush=True)
"""
DOING = {
    "sleeps": "time.sleep(60)",
    "holds the interpreter's lock": "import ctypes; ctypes.PyDLL(None).sleep(60)",
    "ignores signals": "import signal; [signal.signal(number, signal.SIG_IGN) for number in (1, 2, 15)]; time.sleep(60)",
    "runs in a session of its own": "os.setsid(); time.sleep(60)",
    "works in a process apart": "supervisor.run_apart(lambda: (say(os.getpid()), time.sleep(60)))",
}


@contextmanager
def workflow(*command: str):
    """A process that stands in for Snakemake, which runs a command; killed at the end."""
    call = [sys.executable, "-c", WORKFLOW, *command]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
    run = subprocess.Popen(call, env=environment(), **pipes)
    try:
        yield run
    finally:
        run.kill()
        run.wait()
        run.stdout.close()


def job(doing: str) -> str:
    return JOB.replace("{doing}", doing).replace("\\\\n", "\\n")


@contextmanager
def working(doing: str, *shell: str):
    """Such a process that runs a job, and the numbers of the job's processes: supervisor, worker, and one apart."""
    with workflow(*shell, sys.executable, "-c", job(doing)) as run:
        processes = [int(number) for number in run.stdout.readline().split()]
        if "apart" in doing:
            processes.append(int(run.stdout.readline()))
        yield run, processes


def gone(processes: list[int], seconds: float = SECONDS) -> bool:
    """Whether no process is left, or soon, but for what its new parent has not seen off."""
    end = time.monotonic() + seconds
    while left := [process for process in processes if alive(process)]:
        if time.monotonic() > end:
            for process in left:
                os.kill(process, signal.SIGKILL)
            return False
        time.sleep(0.05)
    return True


def alive(process: int) -> bool:
    try:
        return psutil.Process(process).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


@pytest.mark.parametrize("doing", DOING)
@pytest.mark.parametrize("victim", ["workflow", "supervisor"])
def test_a_worker_ends_with_its_workflow_and_with_its_supervisor(doing, victim):
    with working(DOING[doing]) as (run, processes):
        if victim == "workflow":
            run.kill()
            run.wait()
        else:
            os.kill(processes[0], signal.SIGKILL)
        assert gone(processes)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
@pytest.mark.parametrize("doing", DOING)
def test_a_job_that_is_told_to_end_does_so_at_once_and_cleans_up(doing, number):
    with working(DOING[doing]) as (run, processes):
        os.kill(processes[0], number)
        assert gone(processes, ENDING)
        assert run.stdout.read() == "cleanup\n"
        assert run.wait() == 128 + number


@pytest.mark.parametrize("victim", ["workflow", "shell"])
def test_a_job_under_a_shell_ends_with_its_workflow_or_its_shell(tmp_path, victim):
    (tmp_path / "job.py").write_text(job(DOING["sleeps"]))
    with workflow("bash", "-c", f"{sys.executable} {tmp_path / 'job.py'}; true") as run:
        processes = [int(number) for number in run.stdout.readline().split()]
        if victim == "shell":
            psutil.Process(processes[0]).parent().kill()
        else:
            run.kill()
            run.wait()
        assert gone(processes)


def supervised(body: str, setup: str = "", **env: str) -> subprocess.CompletedProcess:
    """A job whose `work(failed, reporter)` has a body, in a process that no workflow started."""
    lines = "\n".join(f"    {line}" for line in body.splitlines())
    code = f"import json, os, sys, signal\nfrom pwfl.process import supervisor\ndef work(failed, reporter):\n{lines}\n"
    code += f"{setup}\n"
    code += "print(json.dumps(supervisor.supervise(work)))"
    return python("-c", code, env=environment() | env, check=False, timeout=40)


def test_what_fails_is_told_and_the_rest_is_done():
    body = """
reporter.begin(["a"])
reporter.failed(["a"], "no\\nway")
reporter.begin(["b"])
return True
"""
    result = supervised(body)
    assert json.loads(result.stdout) == {"a": "no\nway"}


ENDS = {
    "os._exit(0)": "exit status 0",
    "os._exit(3)": "exit status 3",
    "os.kill(os.getpid(), 9)": r"SIGKILL (out of memory?)",
    "os.abort()": "SIGABRT",
    "sys.exit(4)": "exit status 1",
}


@pytest.mark.parametrize("end", ENDS)
def test_a_worker_that_ends_fails_what_it_was_at_and_another_one_goes_on(end):
    body = f"""
for task in ("a", "b", "c"):
    if task not in failed and not os.path.exists(os.environ["DONE"] + task):
        reporter.begin([task])
        if task == "b":
            {end}
        open(os.environ["DONE"] + task, "w").close()
return True
"""
    with tempfile.TemporaryDirectory() as folder:
        result = supervised(body, DONE=f"{folder}/")
        assert json.loads(result.stdout) == {"b": f"its process ended with {ENDS[end]}"}
        assert sorted(os.listdir(folder)) == ["a", "c"]


def test_of_several_tasks_that_a_worker_is_at_when_it_ends_the_first_one_failed():
    body = """
left = [task for task in ("a", "b", "c") if task not in failed]
reporter.begin(left)
if "b" in left:
    os._exit(3)
return True
"""
    why = "its process ended with exit status 3"
    assert json.loads(supervised(body).stdout) == {"a": why, "b": why}


def test_a_worker_that_is_at_nothing_when_it_ends_is_an_error():
    result = supervised("os._exit(3)")
    assert result.returncode == 1
    assert "ChildProcessError: a worker process ended with exit status 3 before it began" in result.stderr


def test_another_worker_goes_on_where_the_first_one_says_so(tmp_path):
    body = """
with open(os.environ["DONE"], "a") as file:
    file.write(f"{os.getpid()}\\n")
return len(open(os.environ["DONE"]).readlines()) == 3
"""
    result = supervised(body, DONE=str(tmp_path / "done"))
    assert json.loads(result.stdout) == {}
    assert len(set((tmp_path / "done").read_text().split())) == 3


@pytest.mark.parametrize("end", ["return True", "os._exit(3)", "os.kill(os.getpid(), 9)"])
def test_a_worker_s_temporary_files_go_with_it(tmp_path, end):
    body = "import tempfile\nif failed:\n    return True\nreporter.begin(['a'])\ntempfile.mkstemp()\n"
    result = supervised(f"{body}assert len(os.listdir(tempfile.gettempdir())) == 1\n{end}", TMPDIR=str(tmp_path))
    assert result.returncode == 0
    assert "AssertionError" not in result.stderr
    assert os.listdir(tmp_path) == []


def test_what_runs_apart_leaves_nothing_behind():
    code = (
        "import os\nfrom pwfl.process import supervisor\n"
        "def change():\n    os.chdir('/'); os.environ['HOME'] = 'x'; import numpy; numpy.pi = 3\n"
        "import numpy\nbefore = os.getcwd(), os.environ['HOME'], numpy.pi\n"
        "supervisor.run_apart(change)\nassert (os.getcwd(), os.environ['HOME'], numpy.pi) == before\n"
        "for end in (lambda: os._exit(0), lambda: os._exit(7), lambda: 1 / 0):\n"
        "    try:\n        supervisor.run_apart(end)\n    except ChildProcessError as error:\n        print(error)\n"
    )
    said = python("-c", code, check=True).stdout.splitlines()
    assert said[0] == "its process ended with exit status 0"
    assert said[1] == "its process ended with exit status 7"
    assert said[2].startswith("ZeroDivisionError: division by zero")


LEAVES = """
import concurrent.futures, multiprocessing, os, signal, subprocess, threading, time

def stays(ignores=False):
    if ignores:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    with open(os.environ["LEFT"], "a") as file:
        file.write(f"{os.getpid()}\\n")
    time.sleep(60)

def fork(ignores=False):
    if not (child := os.fork()):
        stays(ignores)
        os._exit(0)
    return child

def daemon():
    if not (child := os.fork()):
        os.setsid()
        fork(ignores=True)
        os._exit(0)
    os.waitpid(child, 0)

def pool():
    global executor
    executor = concurrent.futures.ProcessPoolExecutor(2, multiprocessing.get_context("fork"))
    for _ in range(2):
        executor.submit(time.sleep, 60)
    with open(os.environ["LEFT"], "a") as file:
        file.write("".join(f"{process}\\n" for process in executor._processes))

def program():
    subprocess.Popen(["sh", "-c", 'echo $$ >> "$LEFT"; sleep 60; :'], start_new_session=True)

def thread():
    threading.Thread(target=stays).start()

def returns():  # and goes on with what its parent does
    if not os.fork():
        reporter.begin(["another"])
        reporter.failed(["another"], "another process did")
        stays()
"""
WAYS = {"fork": 1, "daemon": 1, "pool": 2, "program": 1, "thread": 1, "returns": 1}


def left_in(file) -> list[int]:
    return [int(number) for number in file.read_text().split()] if file.exists() else []


def leaving(way: str, left) -> str:
    """What a worker does that leaves something behind, and waits until that runs."""
    wait = f"while not os.path.exists({str(left)!r}) or open({str(left)!r}).read().count(chr(10)) < {WAYS[way]}: time.sleep(0.01)"
    return f"{LEAVES}\n{way}()\n{wait}\n"


@pytest.mark.parametrize("way", WAYS)
def test_a_job_ends_with_its_worker_and_what_the_worker_left_ends_too(way, tmp_path):
    left = tmp_path / "left"
    body = f"reporter.begin(['it'])\n{leaving(way, left)}\nreporter.failed(['it'], 'in the end')\nreturn True"
    result = supervised(body, LEFT=str(left))
    assert json.loads(result.stdout) == {"it": "in the end"}, result.stderr
    assert len(left_in(left)) == WAYS[way]
    assert [process for process in left_in(left) if alive(process)] == []


@pytest.mark.parametrize("end", ["os._exit(3)", "os.kill(os.getpid(), 9)", "1 / 0"])
def test_so_does_a_job_whose_worker_ends_early(end, tmp_path):
    left = tmp_path / "left"
    body = f"if failed:\n    return True\nreporter.begin(['it'])\n{leaving('daemon', left)}\n{end}"
    result = supervised(body, LEFT=str(left))
    assert json.loads(result.stdout)["it"].startswith("its process ended with ")
    assert [process for process in left_in(left) if alive(process)] == []


def test_what_ran_before_a_worker_goes_on_and_messages_are_read_to_the_last(tmp_path):
    """Of the process's own children, and of what these start meanwhile, none is ended; nor is a stranger."""
    left, many = tmp_path / "left", 5000
    code = (
        "import json, os, subprocess, sys, time\nfrom pwfl.process import supervisor\n"
        "stranger = int(sys.argv[1])\n"
        "earlier = subprocess.Popen(['sh', '-c', 'sleep 1; sleep 60 & echo $!; wait'], stdout=subprocess.PIPE, text=True)\n"
        "def work(failed, reporter):\n"
        + "".join(f"    {line}\n" for line in leaving("daemon", left).splitlines())
        + f"    time.sleep(1.5)\n    for k in range({many}): reporter.failed([str(k)], 'x' * 100)\n    return True\n"
        "failed = supervisor.supervise(work)\n"
        "later = int(earlier.stdout.readline())\n"
        "import psutil\n"
        "print(len(failed), *(psutil.Process(each).status() != 'zombie' for each in (earlier.pid, later, stranger)))\n"
        "os.kill(later, 9); earlier.kill()\n"
    )
    with subprocess.Popen(["sleep", "60"]) as stranger:
        result = python("-c", code, str(stranger.pid), env=environment() | {"LEFT": str(left)}, check=True, timeout=40)
        stranger.kill()
    assert result.stdout.split() == [str(many), "True", "True", "True"]
    assert [process for process in left_in(left) if alive(process)] == []


@pytest.mark.parametrize("told", [signal.SIGKILL, signal.SIGTERM])
def test_what_a_worker_left_ends_with_the_workflow_and_when_the_job_is_told_to_end(told, tmp_path, monkeypatch):
    monkeypatch.setenv("LEFT", str(tmp_path / "left"))
    code = tmp_path / "code.py"
    code.write_text(leaving("daemon", tmp_path / "left"))
    leaves = f"exec(open({str(code)!r}).read(), globals())"
    with working(f"supervisor.run_apart(lambda: ({leaves}, say(os.getpid()), time.sleep(60)))") as (run, processes):
        left = left_in(tmp_path / "left")
        assert len(left) == 1
        if told == signal.SIGKILL:
            run.kill()
            run.wait()
        else:
            os.kill(processes[0], told)
        assert gone([*processes, *left])


def test_what_runs_apart_ends_with_its_process_and_so_does_what_it_left(tmp_path):
    left = tmp_path / "left"
    code = leaving("daemon", left)
    program = (
        f"import os\nfrom pwfl.process import supervisor\nsupervisor.run_apart(lambda: exec({code!r}, globals()))\n"
        "print('over')\n"
    )
    result = python("-c", program, env=environment() | {"LEFT": str(left)}, check=True, timeout=40)
    assert result.stdout == "over\n"
    assert [process for process in left_in(left) if alive(process)] == []


def test_where_no_system_finds_orphans_those_in_the_session_of_the_worker_end(tmp_path):
    """As on macOS."""
    left = tmp_path / "left"
    body = f"reporter.begin(['it'])\n{leaving('fork', left)}\nreturn True"
    result = supervised(body, setup="supervisor._adopt = lambda: False", LEFT=str(left))
    assert json.loads(result.stdout) == {}
    assert gone(left_in(left), 1.0)


def test_a_worker_that_closes_the_pipe_has_not_ended(tmp_path):
    body = "os.closerange(3, 100)\nimport time\ntime.sleep(1)\nopen(os.environ['DONE'], 'w').close()\nos._exit(3)"
    result = supervised(body, DONE=str(tmp_path / "done"))
    assert "a worker process ended with exit status 3 before it began" in result.stderr
    assert (tmp_path / "done").exists()


def test_a_supervisor_takes_next_to_nothing():
    with working(DOING["sleeps"]) as (_, (process, _)):
        before = sum(psutil.Process(process).cpu_times()[:2])
        time.sleep(3)
        assert sum(psutil.Process(process).cpu_times()[:2]) - before < 0.3


def test_a_job_s_first_imports_are_few():
    """So that it can be told to end, and notices the end of its workflow, from the first second on."""
    code = "import sys; from pwfl.workflow import jobs; print(*(m for m in sys.modules if m in ('polars', 'tensorflow', 'scipy')))"
    assert python("-c", code, check=True).stdout.strip() == ""
    for script in (ROOT / "scripts").glob("*.py"):
        assert script.read_text().startswith("from pwfl.workflow import jobs")


HOLDING = """
import signal, threading
from pwfl.process import supervisor
lock, told = threading.Lock(), threading.Event()
def end(*_):
    with lock:
        told.set()
signal.signal(signal.SIGTERM, end)
supervisor.answer_in_a_thread()
with lock:
    signal.raise_signal(signal.SIGTERM)
    print(told.is_set(), flush=True)
print(told.wait(10))
"""


def test_a_process_that_holds_the_lock_of_its_handler_still_ends():
    told = python("-c", HOLDING, timeout=10, check=True)
    assert told.stdout.split() == ["False", "True"]


INTERRUPTED = """
import signal, sys, time
from pwfl.process import interrupts
sys.argv = ["/bin/pwfl", "run", "a study.yaml"]
interrupts.answer(interrupts.ENDED)
interrupts.answer(interrupts.STOPPED)
print(interrupts.status())
for number in numbers:
    try:
        signal.raise_signal(number)
    except KeyboardInterrupt:
        print("interrupted", interrupts.status())
print("goes on", flush=True)
time.monotonic = lambda: 1e9
signal.raise_signal(signal.SIGINT)
print("never")
"""


def test_the_first_ctrl_c_interrupts_with_a_line_and_those_after_it_do_nothing_for_a_while():
    result = python("-c", INTERRUPTED.replace("numbers", "[signal.SIGINT] * 3"))
    assert result.stdout.splitlines() == ["0", "interrupted 130", "goes on"]
    assert result.returncode == 130
    assert result.stderr == (
        "\nInterrupted. What was computed is in the store; to go on with the rest: pwfl run 'a study.yaml'\n"
    )


WAITING = """
import os, signal, threading
from pwfl.process import interrupts
interrupts.answer(interrupts.ENDED)
import polars
interrupts.answer(interrupts.ENDED)
threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT)).start()
try:
    print("waited" if threading.Semaphore(0).acquire(timeout=5) else "too long")
except KeyboardInterrupt:
    print("interrupted")
"""


def test_ctrl_c_ends_a_wait_for_a_lock_where_polars_is_imported():
    assert python("-c", WAITING, check=True).stdout == "interrupted\n"


def test_ctrl_c_stays_ignored_in_the_background():
    code = (
        "import signal; signal.signal(signal.SIGINT, signal.SIG_IGN)\nfrom pwfl.process import interrupts\n"
        "interrupts.answer(interrupts.ENDED); signal.raise_signal(signal.SIGINT); print(interrupts.status())"
    )
    assert python("-c", code, check=True).stdout == "0\n"


TERMS = """
import signal, time
from pwfl.process import interrupts, supervisor
signal.signal(signal.SIGTERM, lambda *_: print("waits for jobs", flush=True))
supervisor.answer_in_a_thread()
signal.raise_signal(signal.SIGTERM)
time.sleep(0.3)
try:
    signal.raise_signal(signal.SIGTERM)
except KeyboardInterrupt:
    print("interrupted", interrupts.status())
"""


def test_a_second_term_interrupts():
    assert python("-c", TERMS, check=True).stdout.splitlines() == ["waits for jobs", "interrupted 143"]


COMMANDS = """
import signal, sys
from pwfl import cli, scenario
def interrupted(*_):
    try:
        signal.raise_signal(signal.SIGINT)
    finally:
        signal.raise_signal(signal.SIGINT)
scenario.load_files = interrupted
sys.argv = ["pwfl", *sys.argv[1:]]
cli.main()
"""


@pytest.mark.parametrize("command", ["run", "check"])
def test_ctrl_c_ends_a_command_with_one_line_that_says_how_to_go_on(command):
    result = python("-c", COMMANDS, command, "study.yaml")
    rest = "What was computed is in the store; to go on with the rest" if command == "run" else "To start again"
    assert result.returncode == 130
    assert result.stderr == f"\nInterrupted. {rest}: pwfl {command} study.yaml\n"

"""What is checked before a run starts: options, folders, Snakemake's notes, limits, and that the run is the only one."""

import errno
import os
import resource
import signal
import subprocess
import sys
from base64 import b64encode
from pathlib import Path

import pytest

from conftest import PWFL, ROOT, SMALL, environment, python, snakemake, write_config
from pwfl import errors
from pwfl.process import lock
from pwfl.store import sealed
from pwfl.workflow import options, startup

# A second run.

HOLD = "import sys; from pathlib import Path; from pwfl.process import lock; print(lock.take(Path(sys.argv[1])), flush=True)"


@pytest.fixture
def held():
    """A function that starts a process which takes the lock of a file, and has a child that outlives it."""
    processes = []

    def take(path) -> subprocess.Popen:
        code = f"{HOLD}; import subprocess; child = subprocess.Popen(['sleep', '30']); print(child.pid, flush=True); input()"
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
        process = subprocess.Popen([sys.executable, "-c", code, str(path)], env=environment(), **pipes)
        processes.append((process, process.stdout.readline(), int(process.stdout.readline())))
        assert processes[-1][1] == "None\n"
        return process

    yield take
    for process, _, child in processes:
        process.kill()
        process.wait()
        os.kill(child, signal.SIGKILL)


def test_a_lock_ends_with_its_process_however_that_ends(held, tmp_path):
    path = tmp_path / ".pwfl/small.lock"
    process = held(path)
    with pytest.raises(lock.HeldError, match=rf"process {process.pid} on .* since \d{{4}}-"):
        lock.take(path)
    assert lock.take(path.with_name("other.lock")) is None
    process.kill()
    process.wait()
    assert python("-c", HOLD, path).stdout == "None\n"  # whatever children it left


def test_where_there_are_no_locks_a_run_goes_on_with_a_warning(tmp_path, monkeypatch):
    def refuse(*_):
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    monkeypatch.setattr(lock.fcntl, "flock", refuse)
    said = startup.be_alone(tmp_path, "small")
    assert said.startswith(f"{tmp_path}/.pwfl/small.lock: cannot be locked: No locks available; do not run the study")


def test_a_second_run_of_a_study_in_a_folder_is_refused_and_the_first_ones_files_stay(held, own):
    (own / "results/small/claims.csv").unlink()  # so that there is something to do
    note = own / ".snakemake/incomplete" / b64encode(b"results/small/index.html").decode()  # of the first run's job
    note.parent.mkdir(parents=True, exist_ok=True)
    note.touch()
    before = sorted((own / "results").rglob("*"))
    process = held(own / ".pwfl/small.lock")
    result = snakemake(own, SMALL, "--nolock", "--logger", "pwfl")
    assert result.returncode == 1
    (said,) = (line for line in result.stderr.splitlines() if "another run" in line)
    assert said.startswith(f"results/small: another run of this study writes into it, process {process.pid} on ")
    assert "Traceback" not in result.stderr
    assert "WorkflowError" not in result.stderr
    assert sorted((own / "results").rglob("*")) == before
    assert snakemake(own, SMALL, "--dry-run").returncode == 0


# Folders.


@pytest.mark.parametrize("name", ["store", "results", "logs", ".pwfl", "results/small", "results/small/.published"])
def test_what_is_in_a_folders_place_is_named(tmp_path, name):
    startup.check_folders(tmp_path, "small")
    path = tmp_path / name
    path.parent.mkdir(parents=True, exist_ok=True)
    startup.check_folders(tmp_path, "small")
    path.touch()
    with pytest.raises(
        startup.StartError, match=rf"{path}: is not a folder, but a run writes into .*; rename or delete"
    ):
        startup.check(tmp_path, "small", is_dry=True)
    path.unlink()
    path.symlink_to("nowhere/at/all")
    with pytest.raises(startup.StartError, match=rf"{path}: a link to a folder that is not there, nowhere.*rm {path}$"):
        startup.check_folders(tmp_path, "small")
    path.unlink()
    (tmp_path / "elsewhere").mkdir()
    path.symlink_to(tmp_path / "elsewhere")
    startup.check_folders(tmp_path, "small")


def test_a_store_on_a_share_that_is_not_mounted_is_said_in_a_line(tmp_path):
    write_config(tmp_path, SMALL)
    (tmp_path / "store").symlink_to("nowhere/at/all")
    result = subprocess.run(
        [*PWFL, "run", "study.yaml"], capture_output=True, text=True, cwd=tmp_path, env=environment(), check=False
    )
    assert result.returncode == 1
    assert result.stderr.startswith("store: a link to a folder that is not there, nowhere/at/all; mount or create it")
    assert len(result.stderr.splitlines()) == 1
    assert sorted(path.name for path in tmp_path.iterdir()) == ["store", "study.yaml"]


def test_a_folder_that_cannot_be_written_is_named_with_the_reason(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "store").mkdir()
    startup.check_writable([tmp_path, *startup.folders(tmp_path, "small")])
    real = startup.tempfile.TemporaryFile

    def refuse(dir):
        if dir.name == "store":
            raise OSError(errno.EROFS, os.strerror(errno.EROFS))
        return real(dir=dir)

    monkeypatch.setattr(startup.tempfile, "TemporaryFile", refuse)
    with pytest.raises(startup.StartError, match=rf"{tmp_path}/store: cannot be written: Read-only file system; allow"):
        startup.check_writable([tmp_path, *startup.folders(tmp_path, "small")])


def test_a_cache_that_cannot_be_written_is_named_with_what_to_do(tmp_path, monkeypatch):
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    with pytest.raises(startup.StartError, match=r"file: cannot be written: Not a dir.*export XDG_CACHE_HOME=FOLDER"):
        startup.check(tmp_path, "small", is_dry=True)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "folder"))
    startup.check(tmp_path, "small", is_dry=True)


# What Snakemake noted.


def test_notes_of_a_studys_incomplete_outputs_are_deleted_where_snakemake_puts_them(tmp_path, monkeypatch):
    from snakemake.persistence.file import FilePersistence

    monkeypatch.chdir(tmp_path)
    theirs = FilePersistence(nolock=True)
    studies = ("small", "other")
    outputs = [f"results/{study}/{name}" for study in studies for name in ("claims.csv", 300 * "long" + ".csv")]
    outputs += [f".pwfl/{study}/train/1-abcdef.done" for study in studies] + ["theirs.txt"]
    notes = {output: Path(theirs._record_path(theirs._incomplete_path, output)) for output in outputs}
    for note in notes.values():
        note.parent.mkdir(parents=True, exist_ok=True)
        note.touch()
    Path(theirs._incomplete_path, "migration_underway").touch()  # another file that Snakemake may leave there
    startup.forget_incomplete(Path(), "small")
    assert [output for output, note in notes.items() if not note.exists()] == [
        each for each in outputs if "small" in each
    ]


def test_the_remedy_for_a_damaged_folder_deletes_folders(tmp_path):
    (tmp_path / "a.parquet").mkdir()
    with pytest.raises(
        sealed.DamagedError, match=r"a.parquet is corrupt: it cannot be read: Is a dir.*`rm -rf .*parquet`"
    ):
        sealed.read(str(tmp_path / "a.parquet"), {}, lambda file: file.read())
    os.mkfifo(tmp_path / "b.parquet")
    with pytest.raises(sealed.DamagedError, match=r"b.parquet is corrupt: .*not a regular file.*`rm -f .*parquet`"):
        sealed.read_bytes(tmp_path / "b.parquet")


# Limits.


def test_an_address_space_too_small_for_figures_is_named_where_some_are_drawn(monkeypatch):
    limits = resource.getrlimit(resource.RLIMIT_AS)
    for limit in (resource.RLIM_INFINITY, startup.ADDRESS_SPACE):
        monkeypatch.setattr(startup.resource, "getrlimit", lambda _, limit=limit: (limit, limits[1]))
        startup.check_address_space({"train", "report"})
    monkeypatch.setattr(startup.resource, "getrlimit", lambda _: (2**32, limits[1]))
    startup.check_address_space({"train", "publish"})
    with pytest.raises(startup.StartError, match=r"^ulimit -v: 4194304 KiB .*; type: ulimit -v unlimited$"):
        startup.check_address_space({"train", "report"})


def test_a_lack_of_memory_is_no_bug_of_the_program():
    assert errors.message(MemoryError("Unable to allocate 1 GiB")).startswith(
        "out of memory: Unable to allocate 1 GiB; free"
    )
    assert errors.describe(MemoryError()).startswith("out of memory; free memory, raise the limit (ulimit -v)")


# Options.


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("--config base.seed=2", "--config: base.seed: write base={seed: 2}"),
        ("--config base.privacy.delta=1e-4", "--config: base.privacy.delta: write base={privacy: {delta: 1e-4}}"),
        ("--config scenarios.one.seed=3", "--config: scenarios.one.seed: write scenarios={one: {seed: 3}}"),
        ("--config training.rounds=5", "--config: training.rounds: write base={training: {rounds: 5}}"),
        ("--config seed", "--config: seed: must be KEY=VALUE"),
        ("--config =2", "--config: =2: must be KEY=VALUE"),
        ("--config base={seed: 2}", "--config: 2}: must be KEY=VALUE; put a value with spaces in quotes"),
        ("--config b=1", "--config: b: unknown key; known: study, "),
        (
            "--cores four",
            "Snakemake cannot read the options: Error parsing number of cores (--cores, -c): must be integer",
        ),
        ("--cores", "--cores: expected one argument"),
        ("--retries x", "--retries: invalid int value: 'x'"),
        ("--resources gpu=x", "Snakemake cannot read the options: Resource 'gpu' was given value 'x', which is not an"),
        ("--set-threads trian=2", "--set-threads: there is no rule 'trian'; did you mean 'train'?"),
        ("--batch all", "--batch: invalid parse_batch value: 'all'"),
        ("--until tarin", "--until: there is no rule 'tarin'; did you mean 'train'?"),
        ("-R tarin", "--forcerun: there is no rule 'tarin'; did you mean 'train'?"),
        ("tarin", "there is no rule 'tarin'; did you mean 'train'?"),
        ("--dry-rn", "--dry-rn: unknown option; did you mean '--dry-run'?"),
        ("--executor nosuch", "--executor: invalid choice: 'nosuch'"),
        ("--profile nosuch", "--profile: there is no profile nosuch"),
        ("--workflow-profile nosuch", "--workflow-profile: there is no profile nosuch; use one of default, gpu, slurm"),
        (
            "--configfile x.yaml",
            "--configfile, --snakefile: not allowed: pwfl runs its own Snakefile with the config study",
        ),
        ("--snakefile x", "--configfile, --snakefile: not allowed"),
    ],
)
def test_a_mistyped_option_is_named_with_what_is_right(words, expected, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "file").touch()
    with pytest.raises(options.OptionError) as caught:
        options.parse(words.split(), "study.yaml")
    assert str(caught.value).startswith(expected)
    assert len(str(caught.value).splitlines()) == 1


def test_options_that_are_right_are_snakemakes(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    words = "train --cores all --jobs unlimited --until train results/x.csv --retries 0 --set-threads train=2 --config"
    words += " base={seed:2} wanted=store --resources gpu=1 --workflow-profile gpu --profile none --dry-run"
    given = options.parse(words.split(), "study.yaml")
    assert (given.targets, given.until, given.retries, given.dryrun) == (["train"], {"train", "results/x.csv"}, 0, True)
    assert given.config == ["base={seed:2}", "wanted=store"]
    assert (ROOT / "profiles" / given.workflow_profile).is_dir()


def test_the_command_ends_with_the_line_and_status_2(tmp_path):
    write_config(tmp_path, SMALL)
    call = [*PWFL, "run", "study.yaml", "--cores", "four"]
    result = subprocess.run(call, capture_output=True, text=True, cwd=tmp_path, env=environment(), check=False)
    assert result.returncode == 2
    assert result.stderr.splitlines()[-1].startswith(
        "Error: Snakemake cannot read the options: Error parsing number of"
    )


def test_snakemake_without_cores_is_refused_before_it_waits_for_ever(tmp_path):
    result = snakemake(tmp_path, SMALL, "--cores", "0")
    assert result.returncode == 1
    assert "--cores: must be a number from 1, or all, is 0" in result.stderr
    for numbers, expected in (((-1, None), "--cores"), ((None, 0), "--jobs")):
        with pytest.raises(startup.StartError, match=rf"^{expected}: must be a number from 1, or "):
            startup.check_counts(*numbers)
    startup.check_counts(1, 1)
    startup.check_counts(None, None)

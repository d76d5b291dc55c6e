"""Choose the device for training: the CPU, or a GPU where TensorFlow sees one.

Addresses do not include it. Each is held to the same bits whenever it computes the same, and the two differ in the
last ones; the table `history` says which kind it was.
"""

import logging
import os
import platform
import sys
from collections.abc import Generator
from contextlib import contextmanager, nullcontext
from glob import glob
from pathlib import Path
from typing import Any, NamedTuple

log = logging.getLogger(__name__)

CPU = "cpu"  # as the table `history` names it
WITH_GPU = ", with a GPU"  # after a processor's name
SHARE = 0.8  # of a GPU's memory that is planned for
VISIBLE, XLA = "CUDA_VISIBLE_DEVICES", "XLA_FLAGS"
SAME_KERNELS = "--xla_gpu_autotune_level=0"  # else XLA chooses products of matrices by the time that they take


class DeviceError(RuntimeError):
    """There is no such device here; the message says what to do."""


class Device(NamedTuple):
    """A processor.

    Attributes
    ----------
    name
        Its name in TensorFlow.
    kind
        What it is, as the table `history` has it.
    memory
        Bytes that trainings side by side may take; None: trainings follow each other.
    """

    name: str
    kind: str
    memory: int | None


ONLY_CPU = Device("/CPU:0", CPU, None)


def present() -> bool:
    """Whether this machine has a GPU that TensorFlow might see."""
    return bool(glob("/dev/nvidia[0-9]*") or glob("/dev/dxg"))


def has_gpu(asked: str | None) -> bool:
    """Whether what is asked for, `cpu`, `gpu`, `auto` or nothing, is trained on a GPU on this machine."""
    return asked == "gpu" or (asked == "auto" and present())


def processor(asked: str | None) -> str:
    """What kind of processor computes here where `cpu`, `gpu` or `auto` is asked for: others differ in last bits."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
        name = next(line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):  # of other systems
        name = platform.processor() or platform.machine()
    return name + WITH_GPU if has_gpu(asked) else name


def hide() -> None:
    """Keep TensorFlow from taking a GPU's memory in this process, where it has not been used yet."""
    os.environ[VISIBLE] = "-1"


def before_tensorflow() -> None:
    """Set in the environment what XLA reads when it is first used."""
    if present() and SAME_KERNELS not in (flags := os.environ.get(XLA, "")):
        os.environ[XLA] = f"{flags} {SAME_KERNELS}".strip()


def take(asked: str) -> Device:
    """The device to train on: `cpu`, `gpu`, or `auto`, a GPU where there is one.

    A GPU computes in float32, not in TF32, whose products would let gradients exceed the clipping norm, and by kernels
    that always add up in the same order. Raises DeviceError for `gpu` where TensorFlow sees none.
    """
    if asked == CPU:
        return ONLY_CPU
    gpus = []
    if present():  # else CUDA logs an error where it is asked
        from pwfl.process.tensorflow import tf

        gpus = tf.config.list_physical_devices("GPU")
    if not gpus and asked == "gpu":
        raise DeviceError(
            "training.device: gpu: TensorFlow finds no GPU; install pwfl with its extra `gpu` on a machine with an "
            "NVIDIA GPU and its driver, or use `cpu` or `auto`"
        )
    if not gpus:
        log.info("training.device: auto: TensorFlow finds no GPU; training on the CPU")
        return ONLY_CPU
    tf.config.experimental.enable_tensor_float_32_execution(False)
    tf.config.experimental.enable_op_determinism()
    kind = tf.config.experimental.get_device_details(gpus[0]).get("device_name", "GPU")
    memory = _memory()
    log.info("training.device: %s: training on %s with %.1f GiB of free memory", asked, kind, memory / 2**30)
    return Device("/GPU:0", kind, int(SHARE * memory))


@contextmanager
def used(device: Device) -> Generator[None]:
    """A context in which TensorFlow computes on a device, where it is imported."""
    tensorflow = sys.modules.get("tensorflow") if present() else None
    with tensorflow.device(device.name) if tensorflow else nullcontext():
        yield


def exhausted() -> tuple[Any, ...]:
    """The errors of a device that has too little memory."""
    return (sys.modules["tensorflow"].errors.ResourceExhaustedError,) if "tensorflow" in sys.modules else ()


def _memory() -> int:
    """Bytes that TensorFlow may take of the first GPU."""
    from tensorflow.python.client import device_lib  # nothing public tells

    return next(device.memory_limit for device in device_lib.list_local_devices() if device.device_type == "GPU")

"""Choose the device for training: the CPU, or a GPU if TensorFlow finds one.

Addresses do not include it. Each device reproduces its results bit by bit; those of CPU and GPU differ in the last
bits. The table `history` contains the kind of device.
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
SHARE = 0.8  # of a GPU's memory that may be used
VISIBLE, XLA = "CUDA_VISIBLE_DEVICES", "XLA_FLAGS"
SAME_KERNELS = "--xla_gpu_autotune_level=0"  # otherwise XLA chooses kernels by their measured time


class DeviceError(RuntimeError):
    """A device that this machine does not have; the message contains a remedy."""


class Device(NamedTuple):
    """A processor.

    Attributes
    ----------
    name
        Its name in TensorFlow.
    kind
        Its kind, as in the table `history`.
    memory
        Bytes that batched training runs may use; None: training runs are not batched.
    """

    name: str
    kind: str
    memory: int | None


ONLY_CPU = Device("/CPU:0", CPU, None)


def present() -> bool:
    """Return whether this machine has a GPU that TensorFlow might find."""
    return bool(glob("/dev/nvidia[0-9]*") or glob("/dev/dxg"))


def has_gpu(asked: str | None) -> bool:
    """Return whether the device asked for, `cpu`, `gpu`, `auto` or None, is a GPU on this machine."""
    return asked == "gpu" or (asked == "auto" and present())


def processor(asked: str | None) -> str:
    """Return the kind of processor that `cpu`, `gpu` or `auto` means here: results of others differ in last bits."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
        name = next(line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):  # other operating systems
        name = platform.processor() or platform.machine()
    return name + WITH_GPU if has_gpu(asked) else name


def hide() -> None:
    """Hide GPUs from TensorFlow, which would reserve their memory, if this process has not used it yet."""
    os.environ[VISIBLE] = "-1"


def before_tensorflow() -> None:
    """Set the environment variables that XLA reads when it is first used."""
    if present() and SAME_KERNELS not in (flags := os.environ.get(XLA, "")):
        os.environ[XLA] = f"{flags} {SAME_KERNELS}".strip()


def take(asked: str) -> Device:
    """Return the device to train on for `cpu`, `gpu`, or `auto`, a GPU if there is one.

    A GPU computes in float32, not in TF32, in which gradients could exceed the clipping norm. Its kernels always add up
    in the same order. Raises DeviceError for `gpu` if TensorFlow finds none.
    """
    if asked == CPU:
        return ONLY_CPU
    gpus = []
    if present():  # otherwise CUDA would log an error
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
    """Open a context in which TensorFlow, if it is imported, computes on a device."""
    tensorflow = sys.modules.get("tensorflow") if present() else None
    with tensorflow.device(device.name) if tensorflow else nullcontext():
        yield


def exhausted() -> tuple[Any, ...]:
    """Return the exception types for a device with too little memory."""
    return (sys.modules["tensorflow"].errors.ResourceExhaustedError,) if "tensorflow" in sys.modules else ()


def _memory() -> int:
    """Return the bytes of the first GPU's memory that TensorFlow may use."""
    from tensorflow.python.client import device_lib  # no public function returns them

    return next(device.memory_limit for device in device_lib.list_local_devices() if device.device_type == "GPU")

"""A replacement for nvidia-smi that prints the driver's numbers in the layout that line-counting programs expect."""

import sys

import pynvml as nvml

MIB = 1 << 20


def memory(handle):
    """Newer drivers tell what they keep for themselves apart, and nvidia-smi shows the rest."""
    try:
        sizes = nvml.nvmlDeviceGetMemoryInfo(handle, nvml.nvmlMemory_v2)
    except nvml.NVMLError:
        sizes = nvml.nvmlDeviceGetMemoryInfo(handle)
    return sizes.used // MIB, sizes.total // MIB


nvml.nvmlInit()
handles = [nvml.nvmlDeviceGetHandleByIndex(index) for index in range(nvml.nvmlDeviceGetCount())]
if sys.argv[1:] == ["-L"]:
    for index, handle in enumerate(handles):
        print(f"GPU {index}: {nvml.nvmlDeviceGetName(handle)} (UUID: {nvml.nvmlDeviceGetUUID(handle)})")
else:
    cuda = nvml.nvmlSystemGetCudaDriverVersion() // 1000
    print("Mon Jan  1 00:00:00 2024")
    print("+---+")
    print(f"| NVIDIA-SMI 1.0   Driver Version: {nvml.nvmlSystemGetDriverVersion()}   CUDA Version: {cuda}.0 |")
    print("|---+---+---|\n" * (4 if cuda < 11 else 5), end="")
    for index, handle in enumerate(handles):
        used, total = memory(handle)
        print(f"| {index} {nvml.nvmlDeviceGetName(handle)} | 00000000:01:00.0 Off | N/A |")
        print(f"| 30% 34C P8 22W / 300W | {used}MiB / {total}MiB | 0% Default |")
        print("|   |   | N/A |\n" * (0 if cuda < 11 else 1), end="")
        print("+---+---+---+")

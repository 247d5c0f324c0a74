"""An imitation of nvidia-smi: the queries that `gua verify` sends, answered with nvidia-ml-py from the library on
LD_LIBRARY_PATH. It shares no code with gua.

SMI_ANSWERS="power.draw=999" replaces the answer to a query, and SMI_UNKNOWN="memory.reserved" makes a query or an option invalid.
"""
import os
import sys

from pynvml import *


def on(value):
    return "Enabled" if value else "Disabled"


def ecc(kind):
    return lambda gpu: nvmlDeviceGetTotalEccErrors(gpu, kind, NVML_VOLATILE_ECC)


MODES = ["Default", "Exclusive_Thread", "Prohibited", "Exclusive_Process"]
QUERIES = {
    "uuid": nvmlDeviceGetUUID,
    "pci.bus_id": lambda gpu: nvmlDeviceGetPciInfo(gpu).busId,
    "utilization.gpu": lambda gpu: nvmlDeviceGetUtilizationRates(gpu).gpu,
    "utilization.memory": lambda gpu: nvmlDeviceGetUtilizationRates(gpu).memory,
    "memory.total": lambda gpu: memory(gpu).total >> 20,
    "memory.used": lambda gpu: memory(gpu).used >> 20,
    "memory.reserved": lambda gpu: memory(gpu).reserved >> 20,
    "temperature.gpu": lambda gpu: nvmlDeviceGetTemperature(gpu, NVML_TEMPERATURE_GPU),
    "power.draw": lambda gpu: "%.2f" % (nvmlDeviceGetPowerUsage(gpu) / 1000),
    "enforced.power.limit": lambda gpu: "%.2f" % (nvmlDeviceGetEnforcedPowerLimit(gpu) / 1000),
    "clocks.sm": lambda gpu: nvmlDeviceGetClockInfo(gpu, NVML_CLOCK_SM),
    "clocks.mem": lambda gpu: nvmlDeviceGetClockInfo(gpu, NVML_CLOCK_MEM),
    "fan.speed": nvmlDeviceGetFanSpeed,
    "pstate": lambda gpu: "P%d" % nvmlDeviceGetPerformanceState(gpu),
    "clocks_throttle_reasons.active": lambda gpu: "0x%016x" % nvmlDeviceGetCurrentClocksThrottleReasons(gpu),
    "ecc.mode.current": lambda gpu: on(nvmlDeviceGetEccMode(gpu)[0]),
    "ecc.errors.corrected.volatile.total": ecc(NVML_MEMORY_ERROR_TYPE_CORRECTED),
    "ecc.errors.uncorrected.volatile.total": ecc(NVML_MEMORY_ERROR_TYPE_UNCORRECTED),
    "mig.mode.current": lambda gpu: on(nvmlDeviceGetMigMode(gpu)[0]),
    "compute_mode": lambda gpu: MODES[nvmlDeviceGetComputeMode(gpu)],
    "persistence_mode": lambda gpu: on(nvmlDeviceGetPersistenceMode(gpu)),
    "retired_pages.pending": lambda gpu: "Yes" if nvmlDeviceGetRetiredPagesPendingStatus(gpu) else "No",
}
REMAPPED_ROWS = {
    "gpu_uuid": nvmlDeviceGetUUID,
    "remapped_rows.pending": lambda gpu: int(nvmlDeviceGetRemappedRows(gpu)[2]),
    "remapped_rows.failure": lambda gpu: int(nvmlDeviceGetRemappedRows(gpu)[3]),
}


def memory(gpu):
    return nvmlDeviceGetMemoryInfo(gpu, version=nvmlMemory_v2)


def answer(read, query, gpu):
    replaced = dict(pair.split("=") for pair in os.environ.get("SMI_ANSWERS", "").split(",") if pair)
    if query in replaced:
        return replaced[query]
    try:
        return str(read[query](gpu))
    except NVMLError:
        return "[N/A]"


def gpus():
    return [nvmlDeviceGetHandleByIndex(index) for index in range(nvmlDeviceGetCount())]


def main():
    assert sys.argv[2:] == ["--format=csv,noheader,nounits"], sys.argv
    option, queries = sys.argv[1].split("=")
    queries = queries.split(",")
    nvmlInit()
    unknown = os.environ.get("SMI_UNKNOWN", "").split(",")
    if option in unknown:
        print(f"Option {option} is not recognized. Please run 'nvidia-smi -h'.\n")
        sys.exit(2)
    read = {"--query-gpu": QUERIES, "--query-remapped-rows": REMAPPED_ROWS}.get(option)
    if read:
        for query in queries:
            if query not in read or query in unknown:
                print(f'Field "{query}" is not a valid field to query.\n')
                sys.exit(2)
        for gpu in gpus():
            print(", ".join(answer(read, query, gpu) for query in queries))
    elif option == "--query-compute-apps":
        for gpu in gpus():
            for process in nvmlDeviceGetComputeRunningProcesses(gpu):
                used = process.usedGpuMemory
                used = "[N/A]" if used is None else used >> 20
                print(f"{nvmlDeviceGetUUID(gpu)}, {process.pid}, {used}")


main()

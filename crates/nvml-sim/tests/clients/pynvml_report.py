"""Prints what nvidia-ml-py reads from the driver, as JSON."""

import json

import pynvml as nvml

MIB = 1 << 20


def ask(question):
    """The answer, or the name of the error in its place."""
    try:
        return question()
    except nvml.NVMLError as error:
        return type(error).__name__


def text(value):
    return value.decode() if isinstance(value, bytes) else value


def processes(function, handle):
    return [[process.pid, process.usedGpuMemory] for process in function(handle)]


def memory(handle):
    sizes = nvml.nvmlDeviceGetMemoryInfo(handle)
    return [sizes.total // MIB, sizes.free // MIB, sizes.used // MIB]


def memory_v2(handle):
    sizes = nvml.nvmlDeviceGetMemoryInfo(handle, nvml.nvmlMemory_v2)
    return [sizes.total // MIB, sizes.reserved // MIB, sizes.free // MIB, sizes.used // MIB]


def utilization(handle):
    rates = nvml.nvmlDeviceGetUtilizationRates(handle)
    return [rates.gpu, rates.memory]


def process_utilization(handle):
    samples = nvml.nvmlDeviceGetProcessUtilization(handle, 0)
    return sorted({(sample.pid, sample.smUtil) for sample in samples})


def process_utilization_info(handle):
    samples = nvml.nvmlDeviceGetProcessesUtilizationInfo(handle, 0)
    return sorted({(sample.pid, sample.smUtil) for sample in samples})


def fields(handle):
    wanted = [nvml.NVML_FI_DEV_MEMORY_TEMP, nvml.NVML_FI_DEV_TOTAL_ENERGY_CONSUMPTION, nvml.NVML_FI_DEV_NVLINK_GET_STATE]
    answers = nvml.nvmlDeviceGetFieldValues(handle, wanted)
    return [[answer.nvmlReturn, answer.value.ullVal if answer.nvmlReturn == 0 else None] for answer in answers]


def details(handle):
    try:
        found = nvml.nvmlDeviceGetRunningProcessDetailList(
            handle, nvml.nvmlProcessDetailList_v1, nvml.NVML_PROCESS_MODE_COMPUTE
        )
    except TypeError:
        # nvidia-ml-py 13 puts None into a C record when a process's memory is unknown.
        return "unknown memory"
    return [[process.pid, process.usedGpuMemory, process.usedGpuCcProtectedMemory] for process in found]


def utilization_samples(handle):
    _, samples = nvml.nvmlDeviceGetSamples(handle, nvml.NVML_GPU_UTILIZATION_SAMPLES, 0)
    return sorted({sample.sampleValue.uiVal for sample in samples})


def instance(handle):
    attributes = nvml.nvmlDeviceGetAttributes(handle)
    return {
        "name": text(nvml.nvmlDeviceGetName(handle)),
        "uuid": text(nvml.nvmlDeviceGetUUID(handle)),
        "ids": [nvml.nvmlDeviceGetGpuInstanceId(handle), nvml.nvmlDeviceGetComputeInstanceId(handle)],
        "slices": [attributes.gpuInstanceSliceCount, attributes.computeInstanceSliceCount],
        "memory": memory(handle),
        "compute": processes(nvml.nvmlDeviceGetComputeRunningProcesses, handle),
        "util": ask(lambda: utilization(handle)),
    }


def instances(handle):
    current, _ = nvml.nvmlDeviceGetMigMode(handle)
    if not current:
        return []
    found = []
    for index in range(nvml.nvmlDeviceGetMaxMigDeviceCount(handle)):
        try:
            found.append(instance(nvml.nvmlDeviceGetMigDeviceHandleByIndex(handle, index)))
        except nvml.NVMLError_NotFound:
            continue
    return found


def gpu(index):
    handle = nvml.nvmlDeviceGetHandleByIndex(index)
    return {
        "name": text(nvml.nvmlDeviceGetName(handle)),
        "uuid": text(nvml.nvmlDeviceGetUUID(handle)),
        "pci": text(nvml.nvmlDeviceGetPciInfo(handle).busId),
        "memory": ask(lambda: memory(handle)),
        "memory_v2": ask(lambda: memory_v2(handle)),
        "util": ask(lambda: utilization(handle)),
        "temperature": ask(lambda: nvml.nvmlDeviceGetTemperature(handle, nvml.NVML_TEMPERATURE_GPU)),
        "power_mw": ask(lambda: nvml.nvmlDeviceGetPowerUsage(handle)),
        "limit_mw": ask(lambda: nvml.nvmlDeviceGetEnforcedPowerLimit(handle)),
        "energy_mj": ask(lambda: nvml.nvmlDeviceGetTotalEnergyConsumption(handle)),
        "fan": ask(lambda: nvml.nvmlDeviceGetFanSpeed(handle)),
        "sm_mhz": ask(lambda: nvml.nvmlDeviceGetClockInfo(handle, nvml.NVML_CLOCK_SM)),
        "ecc": ask(
            lambda: nvml.nvmlDeviceGetTotalEccErrors(
                handle, nvml.NVML_MEMORY_ERROR_TYPE_UNCORRECTED, nvml.NVML_VOLATILE_ECC
            )
        ),
        "compute": ask(lambda: processes(nvml.nvmlDeviceGetComputeRunningProcesses, handle)),
        "graphics": ask(lambda: processes(nvml.nvmlDeviceGetGraphicsRunningProcesses, handle)),
        "process_util": ask(lambda: process_utilization(handle)),
        "process_util_info": ask(lambda: process_utilization_info(handle)),
        "fields": ask(lambda: fields(handle)),
        "details": ask(lambda: details(handle)),
        "util_samples": ask(lambda: utilization_samples(handle)),
        "mig": ask(lambda: instances(handle)),
    }


nvml.nvmlInit()
report = {
    "driver": text(nvml.nvmlSystemGetDriverVersion()),
    "cuda": nvml.nvmlSystemGetCudaDriverVersion(),
    "gpus": [ask(lambda: gpu(index)) for index in range(nvml.nvmlDeviceGetCount())],
}
nvml.nvmlShutdown()
print(json.dumps(report))

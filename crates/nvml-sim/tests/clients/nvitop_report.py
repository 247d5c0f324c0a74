"""Prints what nvitop's programming interface reads from the driver, as JSON."""

import json

from nvitop import Device

MIB = 1 << 20


def plain(value):
    """nvitop's word for a missing value is a string of its own type."""
    return str(value) if isinstance(value, str) else value


def mib(value):
    return value // MIB if isinstance(value, int) else plain(value)


def processes(device):
    found = device.processes().values()
    return sorted(
        [process.pid, process.type, plain(process.gpu_memory()), plain(process.gpu_sm_utilization())]
        for process in found
    )


def gpu(device):
    return {
        "name": plain(device.name()),
        "uuid": plain(device.uuid()),
        "total_mib": mib(device.memory_total()),
        "used_mib": mib(device.memory_used()),
        "util": plain(device.gpu_utilization()),
        "temperature": plain(device.temperature()),
        "power_mw": plain(device.power_usage()),
        "processes": processes(device),
        "instances": [gpu(part) for part in device.mig_devices()] if not device.is_mig_device() else [],
    }


print(json.dumps({"driver": plain(Device.driver_version()), "gpus": [gpu(device) for device in Device.all()]}))

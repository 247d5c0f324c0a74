//! Who a process is, from `/proc`, its cgroup and the passwd source.

//! Facts about the host that decide whether a reading can be trusted.

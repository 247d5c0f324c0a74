//! Our reports beside those of the real releases of gpu-usage-audit, on the same files.
#![cfg(test)]

mod action;
#[path = "../../../gua-compat/tests/gpu_usage_audit/tools.rs"]
mod tools;

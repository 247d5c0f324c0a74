//! The history file of one host.

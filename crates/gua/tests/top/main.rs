//! `gua top` in a real terminal: tmux types, looks and changes the size. The driver is the simulated one.
#![cfg(test)]

mod ending;
mod host;
mod looking;
mod stuck;

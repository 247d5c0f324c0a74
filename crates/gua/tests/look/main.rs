//! `gua list`, `gua available` and the names nvgpu and nvl as people and scripts run them, in front of simulated cards,
//! beside the programs that people use today.
#![cfg(test)]

mod available;
mod claim_formats;
mod claim_lives;
mod claims;
mod crowd;
mod formats;
mod host;
mod list;
mod peers;

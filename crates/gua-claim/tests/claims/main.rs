//! The shared directory as its users see it: claim lifetimes, the queue, planted files, a crowd of processes.
#![cfg(test)]

mod crowd;
mod events;
mod host;
mod lives;
mod offers;
mod planted;
mod queue;

//! The shared directory as its users meet it: claims that live and end, the queue, planted files, a crowd of processes.
#![cfg(test)]

mod crowd;
mod events;
mod host;
mod lives;
mod offers;
mod planted;
mod queue;

//! Histories of gpu-usage-audit: those that its real releases write, and unusual ones that it could have written.
#![cfg(test)]

mod check;
mod live;
mod odd;
mod own;
mod places;
mod releases;
mod round_trip;
mod rows;
mod seam;
mod stats;

//! What `list` and `available` share: what the history remembers of the cards, and who is on them in words.

pub mod people;
pub mod recorded;

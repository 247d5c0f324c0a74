//! Histories as short texts.

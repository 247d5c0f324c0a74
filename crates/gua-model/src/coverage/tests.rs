//! Cases are short texts.

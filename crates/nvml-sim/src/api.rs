//! The exported functions, grouped by subject. Each is declared once, with the macro of `call`. There is no unsafe
//! block here, only the unsafe attributes that the macro adds to exported names.

mod field;
mod find;
mod library;
mod mig;
mod process;
mod reading;
mod sample;
mod setting;

use crate::call::Function;

pub(crate) const ALL: &[&[Function]] = &[
    library::FUNCTIONS,
    find::FUNCTIONS,
    reading::FUNCTIONS,
    setting::FUNCTIONS,
    process::FUNCTIONS,
    sample::FUNCTIONS,
    mig::FUNCTIONS,
    field::FUNCTIONS,
];

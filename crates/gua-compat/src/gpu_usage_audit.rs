//! SQLite files of gpu-usage-audit 1.0.2 to 1.8.0, which are never modified, and its tables in a history of gua. Also the line
//! that it prints for each tick, in which `gua daemon` prints its own ticks.

mod adopt;
mod export;
mod fold;
mod import;
mod inside;
mod old_form;
mod open;
mod records;
mod rows;
pub mod tick_line;

pub use adopt::{Adopted, OldCollector, adopt};
pub use export::{AskPage, Exported, OldPage, OldPageQuestion, export, export_pages, old_page};
pub use gua_store::imported::{Imported, LegacyError, OnProgress, Progress, old_text};
pub use gua_wire::archive::Value as OldCell;
pub use import::import;
pub(crate) use import::import_open;
pub use inside::{import_inside, rows_inside};
pub use old_form::{Days, EachRow, OldForm, OldTables};
pub use open::OldFile;

//! SQLite files of gpu-usage-audit 1.0.2 to 1.8.0. They are never modified. Its tables in a history of gua are read too. Its
//! line about a tick is printed by `gua daemon`.

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

//! One export: the rows of a table, written to files.

use std::io::{self, BufWriter, Write};

use gua_model::Period;
use jiff::Timestamp;
use jiff::civil::Date;
use jiff::tz::TimeZone;
use serde::{Deserialize, Serialize};

use crate::batch::Batch;
use crate::column::Column;
use crate::error::ExportError;
use crate::names::Names;
use crate::rows::Rows;
use crate::tables::groups::GroupDay;
use crate::tables::{What, groups};
use crate::{csv, json_lines, parquet};

/// Selection of the rows.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Ask {
    pub what: What,
    pub format: Format,
    pub window: Period,
    /// Whether the end of the window was given; otherwise imported rows with future times count too, as in reports.
    pub ends: bool,
    pub edges: Edges,
    /// Time zone of the days by which rows are grouped.
    #[serde(with = "jiff::fmt::serde::tz::required")]
    pub zone: TimeZone,
}

gua_model::words! {
    /// File format, with the usual extension of its files.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
    pub enum Format {
        Csv = "csv",
        JsonLines = "jsonl",
        Parquet = "parquet",
    }
}

/// Treatment of time at an edge of the window.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Edges {
    /// Only the part inside the window counts, so that sums equal those of a report.
    Cut,
    /// Time belongs to the day in which its tick or session began, so that days exported one by one add up.
    Whole,
}

/// Destination of files.
pub trait Outlet: Send {
    /// Opens the file of a day, or the one file for all.
    fn open(&mut self, day: Option<Date>) -> io::Result<Box<dyn Write + Send>>;
    /// Completes the last opened file.
    fn close(&mut self, file: Box<dyn Write + Send>) -> io::Result<()>;
}

/// Summary of an export.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Exported {
    pub rows: u64,
    pub files: u64,
    /// Number of unreadable ticks, which have no rows.
    pub ticks_damaged: u64,
    /// Requested ticks before this time have been deleted by retention.
    pub kept_from: Option<Timestamp>,
    /// Quarter hours at an edge are whole, because their ticks have been deleted.
    pub widened: bool,
}

impl Exported {
    /// Adds the findings of another part of the same export.
    pub fn merge(&mut self, part: &Exported) {
        self.rows += part.rows;
        self.files += part.files;
        self.ticks_damaged += part.ticks_damaged;
        self.kept_from = self.kept_from.or(part.kept_from);
        self.widened |= part.widened;
    }
}

/// Writes the rows to files. `progress` is called with the completed fraction of the window.
pub fn run(
    rows: &dyn Rows,
    ask: &Ask,
    outlet: &mut dyn Outlet,
    progress: &mut dyn FnMut(f64),
) -> Result<Exported, ExportError> {
    let table = Table {
        name: ask.what.as_str(),
        columns: ask.what.columns(),
        format: ask.format,
    };
    let mut files = 0;
    let mut open: Option<(Option<Date>, Encoder)> = None;
    if ask.edges == Edges::Cut {
        open = Some((None, Encoder::open(outlet, table, None)?));
        files += 1;
    }
    let exported = rows.batches(ask, progress, &mut |date, batch| {
        let day = (ask.edges == Edges::Whole).then_some(date);
        if let Some((_, done)) = open.take_if(|(of, _)| *of != day) {
            done.close(outlet)?;
        }
        if open.is_none() {
            open = Some((day, Encoder::open(outlet, table, day)?));
            files += 1;
        }
        let (_, encoder) = open.as_mut().expect("it was opened just now");
        encoder.rows(&batch)
    })?;
    // An incomplete file is not renamed into place.
    if let Some((_, done)) = open {
        done.close(outlet)?;
    }
    Ok(Exported { files, ..exported })
}

/// Writes the sums of groups, which are in order of the days. With [`Edges::Whole`], each day has its own file.
pub fn write_groups(
    rows: &[GroupDay],
    (format, edges): (Format, Edges),
    outlet: &mut dyn Outlet,
) -> Result<Exported, ExportError> {
    let columns: &'static [Column] = &groups::GROUP_DAYS;
    let table = Table {
        name: groups::NAME,
        columns,
        format,
    };
    let mut exported = Exported::default();
    let parts: Vec<&[GroupDay]> = match edges {
        Edges::Cut => vec![rows],
        Edges::Whole => rows.chunk_by(|one, next| one.date == next.date).collect(),
    };
    for part in parts {
        let day = part.first().map(|row| row.date);
        let mut encoder = Encoder::open(outlet, table, day.filter(|_| edges == Edges::Whole))?;
        for day in part.chunk_by(|one, next| one.date == next.date) {
            let mut batch = Batch::new(columns, day.len());
            // A row of a group has its own host name and no GPU, so it uses no names.
            let names = Names::default();
            day.iter().for_each(|row| batch.push(&names, row));
            encoder.rows(&batch)?;
        }
        encoder.close(outlet)?;
        exported.rows += part.len() as u64;
        exported.files += 1;
    }
    Ok(exported)
}

#[derive(Clone, Copy)]
struct Table {
    name: &'static str,
    columns: &'static [Column],
    format: Format,
}

type Out = BufWriter<Box<dyn Write + Send>>;

/// A file that is being written, by format.
enum Encoder {
    Csv(Out),
    JsonLines(Out, &'static [Column]),
    Parquet(Box<parquet::Writer<Out>>),
}

impl Encoder {
    fn open(outlet: &mut dyn Outlet, table: Table, day: Option<Date>) -> Result<Self, ExportError> {
        let file = outlet.open(day).map_err(ExportError::Write)?;
        let mut out = BufWriter::with_capacity(1 << 17, file);
        Ok(match table.format {
            Format::Csv => {
                csv::head(&mut out, table.columns).map_err(ExportError::Write)?;
                Encoder::Csv(out)
            }
            Format::JsonLines => Encoder::JsonLines(out, table.columns),
            Format::Parquet => {
                let writer = parquet::Writer::new(out, table.name, table.columns);
                Encoder::Parquet(Box::new(writer.map_err(parquet_error)?))
            }
        })
    }

    fn rows(&mut self, batch: &Batch) -> Result<(), ExportError> {
        let written = match self {
            Encoder::Csv(out) => csv::rows(out, batch),
            Encoder::JsonLines(out, columns) => json_lines::rows(out, columns, batch),
            Encoder::Parquet(writer) => return writer.rows(batch).map_err(parquet_error),
        };
        written.map_err(ExportError::Write)
    }

    fn close(self, outlet: &mut dyn Outlet) -> Result<(), ExportError> {
        let out = match self {
            Encoder::Csv(out) | Encoder::JsonLines(out, _) => out,
            Encoder::Parquet(writer) => writer.finish().map_err(parquet_error)?,
        };
        let file = out
            .into_inner()
            .map_err(|error| ExportError::Write(error.into_error()))?;
        outlet.close(file).map_err(ExportError::Write)
    }
}

/// Reports a full disk as such, whatever the format.
fn parquet_error(error: ::parquet::errors::ParquetError) -> ExportError {
    match error {
        ::parquet::errors::ParquetError::External(source) => match source.downcast::<io::Error>() {
            Ok(error) => ExportError::Write(*error),
            Err(source) => ExportError::Parquet(::parquet::errors::ParquetError::External(source)),
        },
        error => ExportError::Parquet(error),
    }
}

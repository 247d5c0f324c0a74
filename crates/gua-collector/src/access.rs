//! Access to a history: the file itself, or the service's socket if the file is private to the service. Both answer the same
//! questions with the same functions. Questions that a board could answer too are those of [`gua_query::Source`].

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use gua_compat::gpu_stats::{PercentAnswer, PercentQuestion, percentages};
use gua_compat::gpu_usage_audit::{
    Exported, LegacyError, OldPage, OldPageQuestion, OnProgress, export, export_pages, old_page,
};
use gua_compat::open_records;
use gua_export::{OpenRecords, Page, PageQuestion, PagedRows, RecordRows, Rows, page};
use gua_files::Over;
use gua_model::{Outage, OwnerKey, Period};
use gua_query::{QueryError, RecordsError, RecordsSource, Source, protocol};
use gua_store::{Facts, History, Stats};
use serde::{Deserialize, Serialize};

use crate::socket::Service;

type Result<T> = std::result::Result<T, QueryError>;

/// A history that can be read.
#[derive(Clone, Debug)]
pub enum Access {
    File(PathBuf),
    Service(Service),
}

impl Access {
    fn ask(&self, request: Request) -> Result<Reply> {
        match self {
            Access::File(path) => answer(path, &|| open_records(path), &request, || false),
            Access::Service(service) => service.request(request),
        }
    }

    /// Source of queries.
    pub fn source(self) -> Box<dyn Source> {
        match self {
            Access::File(path) => Box::new(RecordsSource::new(move || open_records(&path))),
            Access::Service(service) => Box::new(service),
        }
    }

    /// Rows of its tables. A file is read directly, the service's history page by page.
    pub fn rows(&self) -> Box<dyn Rows> {
        let access = self.clone();
        match access {
            Access::File(path) => Box::new(RecordRows(move || open_records(&path))),
            Access::Service(_) => Box::new(PagedRows(move |question| access.page(question))),
        }
    }

    /// Writes the history to a new file in the format of gpu-usage-audit.
    pub fn export_old(
        &self,
        output: &Path,
        over: Over,
        on_progress: OnProgress<'_>,
    ) -> std::result::Result<Exported, LegacyError> {
        match self {
            Access::File(path) => {
                let history =
                    History::open(path).map_err(|error| QueryError::Open(Box::new(error)))?;
                export(&history, output, over, on_progress)
            }
            Access::Service(_) => {
                let ask = |question| self.old_page(question);
                export_pages(&self.facts(())?, &ask, output, over, on_progress)
            }
        }
    }
}

impl Source for Service {
    fn ask(&self, request: protocol::Request) -> Result<protocol::Reply> {
        match self.request(Request::Source(request))? {
            Reply::Source(reply) => Ok(reply),
            _ => Err(another_question()),
        }
    }
}

fn another_question() -> QueryError {
    QueryError::Open("the service answered a different question".into())
}

macro_rules! questions {
    ($( $(#[$about:meta])* $method:ident: $Variant:ident($Question:ty) -> $Answer:ty; )*) => {
        /// A question about a history.
        #[derive(Clone, Debug, Serialize, Deserialize)]
        pub enum Request {
            /// A question to a [`gua_query::Source`].
            Source(protocol::Request),
            $( $Variant($Question), )*
        }

        /// The answer to the request of the same name.
        #[derive(Debug, Serialize, Deserialize)]
        pub enum Reply {
            Source(protocol::Reply),
            $( $Variant(Box<$Answer>), )*
        }

        impl Access {
            $(
                $(#[$about])*
                pub fn $method(&self, question: $Question) -> Result<$Answer> {
                    match self.ask(Request::$Variant(question))? {
                        Reply::$Variant(answer) => Ok(*answer),
                        _ => Err(another_question()),
                    }
                }
            )*
        }
    };
}

questions! {
    /// A part of the rows of a table.
    page: Page(PageQuestion) -> Page;
    /// The percentages of gpu_stats.
    percentages: Percentages(PercentQuestion) -> PercentAnswer;
    /// Times that were not observed.
    outages: Outages(Period) -> Vec<Outage>;
    /// Facts about the history: its size, GPUs and collectors.
    facts: Facts(()) -> Facts;
    /// Size of each table.
    stats: Stats(()) -> Stats;
    /// One page of the history, for an export in the format of gpu-usage-audit.
    old_page: OldPage(OldPageQuestion) -> OldPage;
    /// Everyone who has used GPUs, as far as the requester may see their names.
    owners: Owners(()) -> BTreeSet<OwnerKey>;
}

/// Answers a request about the history at a path. `open` opens its records, limited to what the requester may see. Facts and sizes
/// contain no names. A page of rows ends early when `is_late` returns true.
pub(crate) fn answer(
    path: &Path,
    open: &OpenRecords<'_>,
    request: &Request,
    is_late: impl Fn() -> bool,
) -> Result<Reply> {
    let once = || {
        Ok(match request {
            Request::Source(request) => {
                Reply::Source(RecordsSource::new(open).ask(request.clone())?)
            }
            Request::Page(question) => Reply::Page(page(open, question, &is_late)?.into()),
            Request::Percentages(question) => {
                Reply::Percentages(percentages(open()?.as_ref(), question)?.into())
            }
            Request::Outages(window) => Reply::Outages(open()?.outages(*window)?.into()),
            Request::Facts(()) => Reply::Facts(of_file(path, History::facts)?.into()),
            Request::Stats(()) => Reply::Stats(of_file(path, History::stats)?.into()),
            Request::OldPage(question) => {
                Reply::OldPage(old_page(open()?.as_ref(), *question, &is_late)?.into())
            }
            Request::Owners(()) => Reply::Owners(open()?.owners()?.into()),
        })
    };
    match once() {
        // A collector began to write to a file that was opened as unchanging.
        Err(QueryError::Records(RecordsError::Changed)) => once(),
        other => other,
    }
}

fn of_file<T>(
    path: &Path,
    question: impl FnOnce(&History) -> std::result::Result<T, gua_store::ReadError>,
) -> Result<T> {
    let history = History::open(path).map_err(|error| QueryError::Open(Box::new(error)))?;
    Ok(question(&history).map_err(RecordsError::from)?)
}

//! Questions to a source, and their answers.
//!
//! The table of `questions!` declares each question once: the method of [`Source`], the variants of [`Request`] and [`Reply`] with
//! which a question reaches another process through the service's Unix socket, and how records answer it. How the messages are
//! transported is decided elsewhere: this module reads no socket.

use std::cell::RefCell;
use std::collections::{BTreeMap, VecDeque};
use std::fmt;

use gua_model::account::Accounts;
use gua_model::idle::IdleGpu;
use gua_model::pick::LastUse;
use gua_model::quota::Usage;
use gua_model::report::Report;
use gua_model::since::Since;
use gua_model::{GpuUuid, Tick};
use serde::{Deserialize, Serialize};

use crate::error::{QueryError, RecordsError};
use crate::explain::{Answer, explain, explain_sample};
use crate::idle::idle;
use crate::question::{
    AccountsQuestion, ExplainQuestion, IdleQuestion, LastUseQuestion, PersonQuestion, Question,
    RecordedRunsQuestion, SampleQuestion, SinceQuestion, StatementQuestion, TicksQuestion,
    UsageQuestion,
};
use crate::quota::usage;
use crate::records::{Records, WatchedRun};
use crate::report::{accounts, report, require_person};
use crate::since::{last_use, since};
use crate::statement::{MonthAnswer, statement};

/// Version of the messages as bytes. Raise it with every change to a type in them: both ends compare it before they decode
/// anything.
pub const VERSION: u32 = 8;

type Result<T> = std::result::Result<T, QueryError>;

macro_rules! questions {
    ($( $(#[$about:meta])* $method:ident: $Variant:ident($Question:ty) -> $Answer:ty = $answer:expr; )*) => {
        /// Answers questions about recorded GPU use: a history file ([`RecordsSource`]), or the service of this host through its
        /// socket. A board's API can answer the same questions.
        pub trait Source: fmt::Debug {
            /// Answers any question.
            fn ask(&self, request: Request) -> Result<Reply>;

            $(
                $(#[$about])*
                fn $method(&self, question: &$Question) -> Result<$Answer> {
                    match self.ask(Request::$Variant(question.clone()))? {
                        Reply::$Variant(answer) => Ok(*answer),
                        _ => Err(QueryError::Open("the service answered a different question".into())),
                    }
                }
            )*
        }

        /// A question to a source.
        #[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
        pub enum Request {
            $( $Variant($Question), )*
        }

        /// The answer to the request of the same name.
        #[derive(Debug, Serialize, Deserialize)]
        pub enum Reply {
            $( $Variant(Box<$Answer>), )*
        }

        /// Answers a request from records.
        fn answer(records: &dyn Records, request: &Request) -> Result<Reply> {
            Ok(match request {
                $( Request::$Variant(question) => {
                    let answer: fn(&dyn Records, &$Question) -> Result<$Answer> = $answer;
                    Reply::$Variant(Box::new(answer(records, question)?))
                } )*
            })
        }
    };
}

questions! {
    report: Report(Question) -> Report = report;
    /// The statement of a month, for one person or for all of them.
    statement: Statement(StatementQuestion) -> MonthAnswer = statement;
    /// People's use in the term of a limit.
    usage: Usage(UsageQuestion) -> Usage = usage;
    /// Explains the recorded state of a GPU at a moment of the past.
    explain: Explain(ExplainQuestion) -> Answer = explain;
    /// Explains the state of a GPU in a live sample, with its recorded history if there is one. A [`RecordsSource`] answers this
    /// even if its records cannot be opened.
    explain_sample: ExplainSample(SampleQuestion) -> Answer =
        |records, question| explain_sample(question, Some(records));
    since: Since(SinceQuestion) -> BTreeMap<GpuUuid, Since> =
        |records, question| Ok(since(records, question)?);
    /// For how long GPUs that are idle now, and their holders, have been idle. A GPU of which nothing is recorded is absent.
    idle: Idle(IdleQuestion) -> BTreeMap<GpuUuid, IdleGpu> =
        |records, question| Ok(idle(records, question)?);
    last_use: LastUse(LastUseQuestion) -> LastUse =
        |records, question| Ok(last_use(records, question)?);
    /// Watched runs, the latest first.
    recorded_runs: RecordedRuns(RecordedRunsQuestion) -> Vec<WatchedRun> =
        |records, question| Ok(match question {
            RecordedRunsQuestion::Window { window, limit } => records.runs(*window, *limit)?,
            RecordedRunsQuestion::Prefix(prefix) => records.runs_with_prefix(prefix)?,
        });
    /// Fails with [`QueryError::NoSuchPerson`] where no record names a person.
    require_person: RequirePerson(PersonQuestion) -> () =
        |records, question| require_person(records, &question.person);
    /// The last ticks of a window, in order of time.
    ticks: Ticks(TicksQuestion) -> Vec<Tick> = last_ticks;
    /// Returns the accounts of each GPU and each person over all recorded time.
    accounts: Accounts(AccountsQuestion) -> Accounts = accounts;
}

fn last_ticks(records: &dyn Records, question: &TicksQuestion) -> Result<Vec<Tick>> {
    let limit = usize::try_from(question.limit).unwrap_or(usize::MAX);
    let mut last = VecDeque::new();
    records.ticks(question.window, &mut |tick| {
        if last.len() >= limit {
            last.pop_front();
        }
        last.push_back(tick);
    })?;
    Ok(last.into())
}

/// Opens records for one question.
type OpenRecords<'a> = dyn Fn() -> Result<Box<dyn Records>> + 'a;

/// A source that opens the records at the first question and keeps them open. To see new records, make a new source.
pub struct RecordsSource<'a> {
    open: Box<OpenRecords<'a>>,
    opened: RefCell<Option<Box<dyn Records>>>,
}

impl fmt::Debug for RecordsSource<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RecordsSource").finish_non_exhaustive()
    }
}

impl<'a> RecordsSource<'a> {
    pub fn new(open: impl Fn() -> Result<Box<dyn Records>> + 'a) -> Self {
        Self {
            open: Box::new(open),
            opened: RefCell::new(None),
        }
    }
}

impl Source for RecordsSource<'_> {
    /// Answers a question; once more where a writer began to write to records that were opened as unchanging.
    fn ask(&self, request: Request) -> Result<Reply> {
        // A live sample can be explained without records. If there are any, they are opened again for each question.
        if let Request::ExplainSample(question) = &request {
            let records = (self.open)().ok();
            let answer = explain_sample(question, records.as_deref())?;
            return Ok(Reply::ExplainSample(Box::new(answer)));
        }
        let mut opened = self.opened.borrow_mut();
        let records = match opened.take() {
            Some(records) => records,
            None => (self.open)()?,
        };
        let reply = match answer(records.as_ref(), &request) {
            Err(QueryError::Records(RecordsError::Changed)) => {
                drop(records);
                let records = opened.insert((self.open)()?);
                return answer(records.as_ref(), &request);
            }
            other => other,
        };
        *opened = Some(records);
        reply
    }
}

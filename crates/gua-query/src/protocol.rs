//! Questions to a source, and their answers.
//!
//! The table of `questions!` declares each question once: the method of [`Source`], and the variants of [`Request`] and [`Reply`]
//! with which a source in another process is asked through the service's Unix socket. [`answer`] is the server's side and
//! [`Remote`] the client's. How the messages are transported is decided elsewhere: this module reads no socket.

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
    AccountsQuestion, Detail, ExplainQuestion, IdleQuestion, LastUseQuestion, PersonQuestion,
    Question, RecordedRunsQuestion, SampleQuestion, SinceQuestion, StatementQuestion,
    TicksQuestion, UsageQuestion,
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

/// Sends a request to a source in another process and waits for the reply.
pub trait Ask: fmt::Debug {
    fn ask(&self, request: Request) -> Result<Reply>;
}

/// A source in another process.
#[derive(Debug)]
pub struct Remote<A>(pub A);

macro_rules! questions {
    ($( $(#[$about:meta])* $method:ident: $Variant:ident($Question:ty) -> $Answer:ty; )*) => {
        /// Answers questions about recorded GPU use: a history file ([`RecordsSource`]), or the service of this host through its
        /// socket ([`Remote`]). A board's API can answer the same questions.
        pub trait Source: fmt::Debug {
            $( $(#[$about])* fn $method(&self, question: &$Question) -> Result<$Answer>; )*
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

        /// Answers a request from a source.
        pub fn answer(source: &dyn Source, request: &Request) -> Result<Reply> {
            Ok(match request {
                $( Request::$Variant(question) => Reply::$Variant(Box::new(source.$method(question)?)), )*
            })
        }

        impl<A: Ask> Source for Remote<A> {
            $(
                fn $method(&self, question: &$Question) -> Result<$Answer> {
                    match self.0.ask(Request::$Variant(question.clone()))? {
                        Reply::$Variant(answer) => Ok(*answer),
                        _ => Err(QueryError::Open("the service answered a different question".into())),
                    }
                }
            )*
        }
    };
}

questions! {
    report: Report(Question) -> Report;
    /// The statement of a month, for one person or for all of them.
    statement: Statement(StatementQuestion) -> MonthAnswer;
    /// People's use in the term of a limit.
    usage: Usage(UsageQuestion) -> Usage;
    /// Explains the recorded state of a GPU at a moment of the past.
    explain: Explain(ExplainQuestion) -> Answer;
    /// Explains the state of a GPU in a live sample, with what is recorded of it.
    explain_sample: ExplainSample(SampleQuestion) -> Answer;
    since: Since(SinceQuestion) -> BTreeMap<GpuUuid, Since>;
    /// For how long GPUs that are idle now, and their holders, have been idle. A GPU of which nothing is recorded is absent.
    idle: Idle(IdleQuestion) -> BTreeMap<GpuUuid, IdleGpu>;
    last_use: LastUse(LastUseQuestion) -> LastUse;
    /// Watched runs, the latest first.
    recorded_runs: RecordedRuns(RecordedRunsQuestion) -> Vec<WatchedRun>;
    /// Fails with [`QueryError::NoSuchPerson`] where no record names a person.
    require_person: RequirePerson(PersonQuestion) -> ();
    /// The last ticks of a window, in order of time.
    ticks: Ticks(TicksQuestion) -> Vec<Tick>;
    /// Returns the accounts of each GPU and each person over all recorded time.
    accounts: Accounts(AccountsQuestion) -> Accounts;
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

    /// Answers a question; once more where a writer began to write to records that were opened as unchanging.
    fn answer<T>(&self, question: impl Fn(&dyn Records) -> Result<T>) -> Result<T> {
        let mut opened = self.opened.borrow_mut();
        let records = match opened.take() {
            Some(records) => records,
            None => (self.open)()?,
        };
        let answer = match question(records.as_ref()) {
            Err(QueryError::Records(RecordsError::Changed)) => {
                drop(records);
                let records = opened.insert((self.open)()?);
                return question(records.as_ref());
            }
            other => other,
        };
        *opened = Some(records);
        answer
    }
}

impl Source for RecordsSource<'_> {
    fn report(&self, question: &Question) -> Result<Report> {
        self.answer(|records| report(records, question))
    }

    fn statement(&self, question: &StatementQuestion) -> Result<MonthAnswer> {
        self.answer(|records| statement(records, question))
    }

    fn usage(&self, question: &UsageQuestion) -> Result<Usage> {
        let UsageQuestion { period, now, .. } = *question;
        let of_term = Question {
            detail: Detail::Sums,
            ..Question::of_window(period, question.zone.clone(), now)
        };
        self.answer(|records| {
            let report = report(records, &of_term)?;
            Ok(usage(&report, period, now, records.only_person()?))
        })
    }

    fn explain(&self, question: &ExplainQuestion) -> Result<Answer> {
        self.answer(|records| explain(records, question))
    }

    fn explain_sample(&self, question: &SampleQuestion) -> Result<Answer> {
        let records = (self.open)().ok();
        explain_sample(question, records.as_deref())
    }

    fn since(&self, question: &SinceQuestion) -> Result<BTreeMap<GpuUuid, Since>> {
        self.answer(|records| Ok(since(records, question)?))
    }

    fn idle(&self, question: &IdleQuestion) -> Result<BTreeMap<GpuUuid, IdleGpu>> {
        self.answer(|records| Ok(idle(records, question)?))
    }

    fn last_use(&self, question: &LastUseQuestion) -> Result<LastUse> {
        self.answer(|records| Ok(last_use(records, question)?))
    }

    fn recorded_runs(&self, question: &RecordedRunsQuestion) -> Result<Vec<WatchedRun>> {
        self.answer(|records| {
            Ok(match question {
                RecordedRunsQuestion::Window { window, limit } => records.runs(*window, *limit)?,
                RecordedRunsQuestion::Prefix(prefix) => records.runs_with_prefix(prefix)?,
            })
        })
    }

    fn require_person(&self, question: &PersonQuestion) -> Result<()> {
        self.answer(|records| require_person(records, &question.person))
    }

    fn accounts(&self, question: &AccountsQuestion) -> Result<Accounts> {
        self.answer(|records| accounts(records, question))
    }

    fn ticks(&self, question: &TicksQuestion) -> Result<Vec<Tick>> {
        let limit = usize::try_from(question.limit).unwrap_or(usize::MAX);
        self.answer(|records| {
            let mut last = VecDeque::new();
            records.ticks(question.window, &mut |tick| {
                if last.len() >= limit {
                    last.pop_front();
                }
                last.push_back(tick);
            })?;
            Ok(last.into())
        })
    }
}

//! Questions to a source in another process, and their answers: the messages of the service's Unix socket.
//!
//! Each method of [`Source`] is one variant of [`Request`] and one of [`Reply`], with the same types. [`answer`] is the
//! server's side and [`Remote`] the client's. How the messages are transported is decided elsewhere: this module reads no
//! socket.

use std::collections::BTreeMap;

use gua_model::account::Accounts;
use gua_model::idle::IdleGpu;
use gua_model::pick::LastUse;
use gua_model::quota::Usage;
use gua_model::report::Report;
use gua_model::since::Since;
use gua_model::{GpuUuid, Tick};
use serde::{Deserialize, Serialize};

use crate::error::QueryError;
use crate::explain::Answer;
use crate::question::{
    AccountsQuestion, ExplainQuestion, IdleQuestion, LastUseQuestion, PersonQuestion, Question,
    RecordedRunsQuestion, SampleQuestion, SinceQuestion, StatementQuestion, TicksQuestion,
    UsageQuestion,
};
use crate::records::WatchedRun;
use crate::source::Source;
use crate::statement::MonthAnswer;

/// Version of the messages as bytes. Raise it with every change to a type in them: both ends compare it before they decode
/// anything.
pub const VERSION: u32 = 7;

type Result<T> = std::result::Result<T, QueryError>;

/// Sends a request to a source in another process and waits for the reply.
pub trait Ask: std::fmt::Debug {
    fn ask(&self, request: Request) -> Result<Reply>;
}

/// A source in another process.
#[derive(Debug)]
pub struct Remote<A>(pub A);

macro_rules! questions {
    ($( $method:ident: $Variant:ident($Question:ty) -> $Answer:ty; )*) => {
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
                        _ => Err(QueryError::Open("the service answered another question".into())),
                    }
                }
            )*
        }
    };
}

questions! {
    report: Report(Question) -> Report;
    statement: Statement(StatementQuestion) -> MonthAnswer;
    usage: Usage(UsageQuestion) -> Usage;
    explain: Explain(ExplainQuestion) -> Answer;
    explain_sample: ExplainSample(SampleQuestion) -> Answer;
    since: Since(SinceQuestion) -> BTreeMap<GpuUuid, Since>;
    idle: Idle(IdleQuestion) -> BTreeMap<GpuUuid, IdleGpu>;
    last_use: LastUse(LastUseQuestion) -> LastUse;
    recorded_runs: RecordedRuns(RecordedRunsQuestion) -> Vec<WatchedRun>;
    require_person: RequirePerson(PersonQuestion) -> ();
    ticks: Ticks(TicksQuestion) -> Vec<Tick>;
    accounts: Accounts(AccountsQuestion) -> Accounts;
}

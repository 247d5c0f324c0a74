//! `gua available --claim` and `--wait`, and `gua run --claim`: leases GPUs, at once or in turn, and records refusals for
//! the collector.

mod caller;
mod patience;

use std::time::Duration;

use gua_claim::{
    Answer, Claim, ClaimDir, ClaimError, Event, Grant, Kernel as _, Life, Observed, Offer, Outcome,
    Refusal, Refused, Request, Short,
};
use gua_collector::claims::{Claims, Names, moment};
use gua_collector::{alert, listing, location};
use gua_model::duration::written;
use gua_model::pick::{FreeRule, could_be_free};
use gua_model::{Gpu, Sample};
use gua_probe::reader::Reader;
use jiff::SignedDuration;
use signal_hook::iterator::Handle;

use self::caller::Caller;
use self::patience::{Next, Patience};
use super::Query;
use super::found::{Found, has_name};
use crate::commands::prelude::*;
use crate::context;

/// Lease of `--wait` without `--claim`: long enough for a program to start on its GPU, so that the next in the queue is not
/// sent to the same one.
const LEASE_OF_WAITERS: Duration = Duration::from_mins(1);

const MIN_LEASE: Duration = Duration::from_secs(1);

/// Number of attempts to lease GPUs that others take between two samples.
const MAX_TRIES: usize = 8;

pub(super) fn run(query: &Query<'_>) -> anyhow::Result<ExitCode> {
    Ok(match acquire(query)? {
        Acquired::Leased { .. } => ExitCode::SUCCESS,
        Acquired::Refused(code) => code,
    })
}

/// Result of asking for a lease.
pub(crate) enum Acquired {
    Leased {
        claim: Claim,
        /// Signals that were handled while waiting. Until it is closed they still end the process.
        signals: Option<Handle>,
    },
    /// The reason was printed.
    Refused(ExitCode),
}

/// Leases GPUs, at once or in turn, and prints what the query wants printed.
pub(crate) fn acquire(query: &Query<'_>) -> anyhow::Result<Acquired> {
    let caller = Caller::now(query.args.for_pid);
    let lease = lease(query)?;
    caller.check()?;
    let claims = Claims::open(query.context.settings())?;
    let mut reader = query.context.reader();
    let sample = context::sample(&mut reader)?;
    // One GPU, unless more are asked for. Leasing all GPUs of a host has to be explicit.
    let at_most = match query.args.limit {
        Some(0) => usize::MAX,
        limit => limit.unwrap_or(1),
    };
    let requester = Requester {
        request: Request {
            at_least: query.args.exactly().unwrap_or(1),
            at_most: query.args.exactly().unwrap_or(at_most),
            lease,
            for_process: caller.process(&claims.kernel)?,
            requester: caller::this_process(&claims.kernel)?,
        },
        query,
        claims,
        caller,
    };
    match query.args.waits() {
        None => requester.at_once(&mut reader, sample),
        Some(longest) => requester.in_turn(&mut reader, sample, longest),
    }
}

/// The length of the lease, if it is allowed.
fn lease(query: &Query<'_>) -> Result<Duration, Failure> {
    if query.args.rule == FreeRule::MemoryAlone {
        return Err(Failure::usage(
            "--rule nvgpu supports neither --claim nor --wait",
        ));
    }
    let longest = query.context.settings().claim.longest.value;
    let lease = query.args.claim.unwrap_or(LEASE_OF_WAITERS.min(longest));
    if lease < MIN_LEASE {
        return Err(Failure::usage("--claim must be at least 1s"));
    }
    if lease > longest {
        let (lease, longest) = (written(lease), written(longest));
        return Err(Failure::usage(format!(
            "--claim {lease}: {longest} is the longest lease here"
        ))
        .hint("the setting claim.longest limits leases"));
    }
    Ok(lease)
}

struct Requester<'a> {
    query: &'a Query<'a>,
    claims: Claims,
    caller: Caller,
    request: Request,
}

impl Requester<'_> {
    fn at_once(&self, reader: &mut Reader, mut sample: Sample) -> anyhow::Result<Acquired> {
        for _ in 0..MAX_TRIES {
            let mut found = Found::new(self.query, &sample);
            if self.is_impossible(&mut found)? {
                return Ok(Acquired::Refused(Exit::Nothing.into()));
            }
            self.check_wanted()?;
            let (dir, kernel) = (&self.claims.dir, &self.claims.kernel);
            let answer = dir.take(&self.request, &self.observed(&found), kernel);
            let offer = match answer.map_err(|error| self.claims.explained(&error))? {
                Answer::Offered(offer) => Some(offer),
                Answer::StaleSample => None,
                Answer::Short(short) => {
                    found.refuse(&short);
                    found.print(false, None)?;
                    self.query.eprint(|| found.obstacles());
                    self.print_shortage(&short, &found);
                    self.record(self.refusal(&found, &short));
                    return Ok(Acquired::Refused(Exit::Nothing.into()));
                }
            };
            let next = context::sample(reader)?;
            if let Some(grant) = offer.and_then(|offer| self.confirm(offer, &next)) {
                return self.answer(grant, &next, None);
            }
            sample = next;
        }
        let message = "free GPUs were taken by others before they could be leased";
        Err(Failure::new(Exit::Nothing, message).into())
    }

    /// Joins the queue and waits for the turn, the timeout or a signal.
    fn in_turn(
        &self,
        reader: &mut Reader,
        mut sample: Sample,
        longest: Option<Duration>,
    ) -> anyhow::Result<Acquired> {
        let mut waiting = Patience::new(self.query, longest)?;
        let mut ticket = None;
        let mut refusal: Option<Refusal> = None;
        let (dir, kernel) = (&self.claims.dir, &self.claims.kernel);
        loop {
            let mut found = Found::new(self.query, &sample);
            if self.is_impossible(&mut found)? {
                return Ok(Acquired::Refused(Exit::Nothing.into()));
            }
            let observed = self.observed(&found);
            self.check_wanted()?;
            let joined = match ticket.take() {
                Some(ticket) => Ok(ticket),
                None => dir.join(&self.request, &observed, kernel),
            };
            let answer = joined.and_then(|joined| {
                dir.advance(ticket.insert(joined), &self.request, &observed, kernel)
            });
            if answer.is_ok() {
                waiting.line.trouble_is_over();
            }
            // `None` if the directory is locked or the driver did not answer: then no waiter is known to be ahead.
            let short = match answer {
                Err(error) => {
                    let explained = self.claims.explained(&error);
                    if !matches!(error, ClaimError::Busy { .. }) {
                        return Err(explained.into());
                    }
                    // A process that holds the lock must not end a wait that has time left.
                    waiting.line.trouble(&explained);
                    None
                }
                Ok(Answer::Short(short)) => Some(short),
                Ok(Answer::StaleSample) => None,
                Ok(Answer::Offered(offer)) => match context::sample(reader) {
                    Ok(next) => {
                        let Some(grant) = self.confirm(offer, &next) else {
                            sample = next;
                            continue;
                        };
                        waiting.line.clear();
                        self.record_end(refusal, Outcome::Granted, waiting.waited());
                        return self.answer(grant, &next, Some(waiting.handle()));
                    }
                    // The GPUs are released; the place in the queue is kept.
                    Err(fault) => {
                        drop(offer);
                        waiting.line.trouble(&fault);
                        None
                    }
                },
            };
            let is_answer = short.is_some();
            let short = short.unwrap_or_default();
            if !is_answer {
                found.free.clear();
            }
            found.refuse(&short);
            if is_answer && refusal.is_none() {
                refusal = Some(self.refusal(&found, &short));
                self.query.eprint(|| found.obstacles());
            }
            let end = match self.next_sample(reader, &short, &mut waiting)? {
                Ok(next) => {
                    sample = next;
                    continue;
                }
                Err(end) => end,
            };
            waiting.line.clear();
            // Leave the queue before anything is printed.
            drop(ticket);
            self.record_end(refusal, Outcome::GaveUp, waiting.waited());
            if let Next::Signal(signal) = end {
                return Ok(Acquired::Refused(patience::end_by(signal)));
            }
            found.print(false, None)?;
            self.print_shortage(&short, &found);
            return Ok(Acquired::Refused(Exit::Nothing.into()));
        }
    }

    /// Pauses and reads the GPUs again, until the driver answers. The error is the reason for which waiting ends.
    fn next_sample(
        &self,
        reader: &mut Reader,
        short: &Short,
        waiting: &mut Patience,
    ) -> anyhow::Result<Result<Sample, Next>> {
        loop {
            let waited = waiting.waited();
            waiting.line.show(&self.request, short, waited);
            let pause = ClaimDir::pause(short.ahead.len());
            match waiting.pause(pause) {
                Next::Again => {}
                end => return Ok(Err(end)),
            }
            // A driver that does not answer must not keep a request alive whose caller has ended.
            self.check_wanted()?;
            match context::sample(reader) {
                Ok(next) => return Ok(Ok(next)),
                Err(fault) => waiting.line.trouble(&fault),
            }
        }
    }

    /// The facts of a sample by which claims are judged.
    fn observed(&self, found: &Found<'_>) -> Observed {
        let (boot, thresholds) = (self.claims.kernel.boot, &found.criteria.thresholds);
        Observed {
            free: found.free_uuids(),
            acceptable: found.acceptable(),
            ..Observed::new(found.sample, boot, thresholds)
        }
    }

    /// Confirms the offer if the GPUs are free in a sample taken after it.
    fn confirm(&self, offer: Offer, sample: &Sample) -> Option<Grant> {
        let observed = self.observed(&Found::new(self.query, sample));
        offer.confirm(&self.claims.dir, &observed, &self.claims.kernel)
    }

    /// Fails if the caller, or the process that the claim is for, has ended.
    fn check_wanted(&self) -> Result<(), Failure> {
        self.caller.check()?;
        match self.claims.kernel.standing(&self.request.for_process) {
            Life::Ended => Err(Failure::failed(format!(
                "the process that the claim would be for (pid {}) has ended",
                self.request.for_process.pid
            ))),
            _ => Ok(()),
        }
    }

    /// Refuses a request at once that no waiting can fulfil.
    fn is_impossible(&self, found: &mut Found<'_>) -> anyhow::Result<bool> {
        let could = |gpu: &&Gpu| has_name(gpu, self.query) && could_be_free(gpu, &found.criteria);
        let possible = found.sample.gpus.iter().filter(could).count();
        if possible >= self.request.at_least {
            return Ok(false);
        }
        found.free.clear();
        found.print(false, None)?;
        let wanted = self.request.at_least;
        self.query.eprint(|| match found.is_without_model() {
            true => found.shortage(0, None),
            false => {
                let why =
                    format!("{wanted} wanted, but only {possible} on this host can ever be free");
                self.query.line(why) + &found.hidden_instances()
            }
        });
        Ok(true)
    }

    /// Prints the lease, and then hands it over: GPUs that were not printed are released, also if this process is
    /// killed in between.
    fn answer(
        &self,
        grant: Grant,
        sample: &Sample,
        signals: Option<Handle>,
    ) -> anyhow::Result<Acquired> {
        let mut found = Found::new(self.query, sample);
        found.grant(grant.claim());
        found.print(true, Some(grant.claim()))?;
        let claim = grant.hand_over(&self.claims.dir, &self.claims.kernel)?;
        let left = claim.deadline.saturating_sub(sample.since_boot);
        let until = moment(sample.at.checked_add(left).unwrap_or(sample.at), sample.at);
        let indexes: Vec<String> = found.free.iter().map(|gpu| gpu.index.to_string()).collect();
        let gpus = indexes.join(",");
        self.query.eprint(|| {
            let id = &claim.id;
            let process = Names::default().process(claim.for_process.pid);
            self.query.line(format!(
                "claim {id}: gpu {gpus} until {until}, or until {process} ends"
            ))
        });
        if self.query.args.notify {
            output::bell();
            for error in alert::notify_free(&self.query.context.loaded, &gpus, &until) {
                output::eprint(&self.query.line(error));
            }
        }
        Ok(Acquired::Leased { claim, signals })
    }

    fn print_shortage(&self, short: &Short, found: &Found<'_>) {
        self.query
            .eprint(|| found.shortage(short.left.len(), self.query.args.exactly()));
    }

    fn refusal(&self, found: &Found<'_>, short: &Short) -> Refusal {
        let refused = Refused {
            sample: found.sample,
            criteria: &found.criteria,
            others: &found.others,
            claims: &short.claims,
            wanted: self.request.at_least,
            left: short.left.len(),
        };
        let loaded = &self.query.context.loaded;
        refused.refusal(|gpus| {
            let source = location::source(loaded);
            let thresholds = loaded.settings.thresholds();
            listing::since(source.as_ref(), gpus, thresholds, found.sample.at)
        })
    }

    fn record_end(&self, refusal: Option<Refusal>, outcome: Outcome, waited: Duration) {
        if let Some(refusal) = refusal {
            self.record(Refusal {
                outcome,
                waited: SignedDuration::try_from(waited).unwrap_or(SignedDuration::MAX),
                ..refusal
            });
        }
    }

    /// Records a refusal for the collector. A failure to do so is only a message.
    fn record(&self, refusal: Refusal) {
        let event = Event::Refusal(refusal);
        if let Err(error) = self.claims.dir.record(&event, clock::now()) {
            let error = self.claims.explained(&error);
            self.query.eprint(|| {
                self.query
                    .line(format!("cannot record the refusal: {error}"))
            });
        }
    }
}

//! `gua available --claim` and `--wait`, and `gua run --claim`: leases GPUs, at once or in turn, and records refusals for
//! the collector.

mod caller;
mod patience;

use std::process::ExitCode;
use std::time::Duration;

use gua_claim::{
    Answer, Claim, ClaimDir, ClaimError, Event, Grant, Kernel as _, Look, Offer, Outcome, Refusal,
    Refused, Request, Short, Standing,
};
use gua_collector::claims::{Claims, Names, moment};
use gua_collector::listing;
use gua_model::duration::written;
use gua_model::pick::{Wish, could_be_free};
use gua_model::{GpuUuid, Sample};
use gua_probe::clock;
use gua_probe::reader::Reader;
use jiff::SignedDuration;
use signal_hook::iterator::Handle;

use self::caller::Caller;
use self::patience::{Line, Next, Patience};
use super::page::Page;
use super::query::Query;
use super::{Found, has_name, wish};
use crate::cli::RuleName;
use crate::context::{self, Context};
use crate::failure::{Exit, Failure};
use crate::output;

/// Lease of `--wait` without `--claim`: long enough for a program to start on its GPU, so that the next in the queue is not
/// sent to the same one.
const LEASE_OF_WAITERS: Duration = Duration::from_mins(1);

const SHORTEST_LEASE: Duration = Duration::from_secs(1);

/// Number of attempts to lease GPUs that others take between two samples.
const MOST_TRIES: usize = 8;

pub(super) fn run(query: &Query<'_>, context: &Context) -> anyhow::Result<ExitCode> {
    Ok(match acquire(query, context)? {
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
pub(crate) fn acquire(query: &Query<'_>, context: &Context) -> anyhow::Result<Acquired> {
    let caller = Caller::now(query.args.for_pid);
    let lease = lease(query, context)?;
    caller.check()?;
    let claims = Claims::open(context.settings())?;
    let mut reader = context.reader();
    let sample = context::sample(&mut reader)?;
    let wanted = Wanted::of(query);
    let requester = Requester {
        request: Request {
            at_least: wanted.at_least,
            at_most: wanted.at_most,
            lease,
            for_process: caller.process(&claims.kernel)?,
            requester: caller::this_process(&claims.kernel)?,
        },
        query,
        context,
        claims,
        caller,
    };
    let end = match query.args.wait {
        None => requester.at_once(&mut reader, sample)?,
        Some(longest) => requester.in_turn(&mut reader, sample, longest)?,
    };
    match end {
        End::Granted {
            grant,
            sample,
            signals,
        } => Ok(Acquired::Leased {
            claim: requester.answer(*grant, &sample)?,
            signals,
        }),
        End::Without(code) => Ok(Acquired::Refused(code)),
    }
}

/// End of a request.
enum End {
    /// GPUs were granted, and free at this sample. Nothing was printed yet.
    Granted {
        grant: Box<Grant>,
        sample: Box<Sample>,
        signals: Option<Handle>,
    },
    /// No GPUs; the reason was printed.
    Without(ExitCode),
}

/// The state of a request that waits in the queue.
struct Waiting<'a> {
    /// When it joined, on the monotonic clock.
    began: Duration,
    patience: &'a mut Patience,
    line: &'a mut Line,
}

impl End {
    fn granted(grant: Grant, sample: Sample, signals: Option<Handle>) -> Self {
        Self::Granted {
            grant: Box::new(grant),
            sample: Box::new(sample),
            signals,
        }
    }
}

/// The length of the lease, if it is allowed.
fn lease(query: &Query<'_>, context: &Context) -> Result<Duration, Failure> {
    if query.args.rule == RuleName::Nvgpu {
        return Err(Failure::usage(
            "--rule nvgpu supports neither --claim nor --wait",
        ));
    }
    let longest = context.settings().claim.longest.value;
    let lease = query.args.claim.unwrap_or(LEASE_OF_WAITERS.min(longest));
    if lease < SHORTEST_LEASE {
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

/// Number of GPUs to lease: one, unless more were asked for. Leasing all GPUs of a host has to be explicit.
struct Wanted {
    at_least: usize,
    at_most: usize,
}

impl Wanted {
    fn of(query: &Query<'_>) -> Self {
        let number = |count: u32| usize::try_from(count).unwrap_or(usize::MAX);
        match (query.args.count.map(number), query.args.limit) {
            (Some(count), _) => Self {
                at_least: count,
                at_most: count,
            },
            (None, limit) => Self {
                at_least: 1,
                at_most: match limit {
                    Some(0) => usize::MAX,
                    limit => limit.unwrap_or(1),
                },
            },
        }
    }
}

struct Requester<'a> {
    query: &'a Query<'a>,
    context: &'a Context,
    claims: Claims,
    caller: Caller,
    request: Request,
}

impl Requester<'_> {
    fn at_once(&self, reader: &mut Reader, mut sample: Sample) -> anyhow::Result<End> {
        for _ in 0..MOST_TRIES {
            let wish = wish(self.query, self.context, &sample);
            let mut found = Found::new(self.query, self.context, &sample, &wish);
            if let Some(end) = self.impossible(&sample, &wish, &mut found)? {
                return Ok(End::Without(end));
            }
            self.check_wanted()?;
            let look = self.look(&sample, &found);
            let answer = self
                .claims
                .dir
                .take(&self.request, &look, &self.claims.kernel)
                .map_err(|error| self.claims.explained(&error))?;
            let offer = match answer {
                Answer::Offered(offer) => Some(offer),
                Answer::LookAgain => None,
                Answer::Short(short) => {
                    let page = refused(&short, &sample, &wish, self.query, &mut found);
                    page.print(false)?;
                    self.print_obstacles(&page);
                    self.print_shortage(&short, &page);
                    self.record(&self.refusal(&page, &short));
                    return Ok(End::Without(Exit::Nothing.into()));
                }
            };
            let next = context::sample(reader)?;
            if let Some(grant) = offer.and_then(|offer| self.confirm(offer, &next)) {
                return Ok(End::granted(grant, next, None));
            }
            sample = next;
        }
        Err(Failure::new(
            Exit::Nothing,
            "free GPUs were taken by others before they could be leased",
        )
        .into())
    }

    /// Joins the queue and waits for the turn, the timeout or a signal.
    fn in_turn(
        &self,
        reader: &mut Reader,
        mut sample: Sample,
        longest: Option<Duration>,
    ) -> anyhow::Result<End> {
        let began = clock::monotonic();
        let mut patience = Patience::new(began, longest)?;
        let mut line = Line::new(self.query);
        let mut ticket = None;
        let mut refusal: Option<Refusal> = None;
        let kernel = &self.claims.kernel;
        loop {
            let wish = wish(self.query, self.context, &sample);
            let mut found = Found::new(self.query, self.context, &sample, &wish);
            if let Some(end) = self.impossible(&sample, &wish, &mut found)? {
                return Ok(End::Without(end));
            }
            let look = self.look(&sample, &found);
            let fail = |error: ClaimError| self.claims.explained(&error);
            self.check_wanted()?;
            let place = match &mut ticket {
                Some(ticket) => ticket,
                none => {
                    let joined = self.claims.dir.join(&self.request, &look, kernel);
                    none.insert(joined.map_err(fail)?)
                }
            };
            let answer = self
                .claims
                .dir
                .advance(place, &self.request, &look, kernel)
                .map_err(fail)?;
            // `None` if the driver did not answer: then no waiter is known to be ahead.
            let short = match answer {
                Answer::Short(short) => Some(short),
                Answer::LookAgain => None,
                Answer::Offered(offer) => match context::sample(reader) {
                    Ok(next) => {
                        let Some(grant) = self.confirm(offer, &next) else {
                            sample = next;
                            continue;
                        };
                        line.clear();
                        let waited = clock::monotonic().saturating_sub(began);
                        self.record_end(refusal, Outcome::Granted, waited);
                        return Ok(End::granted(grant, next, Some(patience.handle())));
                    }
                    // The GPUs are released; the place in the queue is kept.
                    Err(fault) => {
                        drop(offer);
                        line.trouble(&fault);
                        None
                    }
                },
            };
            let is_answer = short.is_some();
            let short = short.unwrap_or_default();
            if !is_answer {
                found.free.clear();
            }
            let page = refused(&short, &sample, &wish, self.query, &mut found);
            if is_answer && refusal.is_none() {
                refusal = Some(self.refusal(&page, &short));
                self.print_obstacles(&page);
            }
            let mut waiting = Waiting {
                began,
                patience: &mut patience,
                line: &mut line,
            };
            let next = self.next_sample(reader, &short, &mut waiting)?;
            match next {
                Ok(next) => sample = next,
                Err(end) => {
                    line.clear();
                    // Leave the queue before anything is printed.
                    drop(ticket);
                    let waited = clock::monotonic().saturating_sub(began);
                    self.record_end(refusal, Outcome::GaveUp, waited);
                    if let Next::Signal(signal) = end {
                        return Ok(End::Without(patience::end_by(signal)));
                    }
                    page.print(false)?;
                    self.print_shortage(&short, &page);
                    return Ok(End::Without(Exit::Nothing.into()));
                }
            }
        }
    }

    /// Pauses and reads the GPUs again, until the driver answers. The error is the reason for which waiting ends.
    fn next_sample(
        &self,
        reader: &mut Reader,
        short: &Short,
        waiting: &mut Waiting<'_>,
    ) -> anyhow::Result<Result<Sample, Next>> {
        loop {
            let waited = clock::monotonic().saturating_sub(waiting.began);
            waiting.line.show(&self.request, short, waited);
            let pause = ClaimDir::pause(short.ahead.len());
            match waiting.patience.pause(pause) {
                Next::Again => {}
                end => return Ok(Err(end)),
            }
            // A driver that does not answer must not keep a request alive whose caller has ended.
            self.check_wanted()?;
            match context::sample(reader) {
                Ok(next) => {
                    waiting.line.trouble_is_over();
                    return Ok(Ok(next));
                }
                Err(fault) => waiting.line.trouble(&fault),
            }
        }
    }

    /// The facts of a sample by which claims are judged.
    fn look(&self, sample: &Sample, found: &Found<'_>) -> Look {
        let thresholds = self.context.settings().thresholds();
        Look::new(sample, self.claims.kernel.boot, &thresholds, found.choice())
    }

    /// Confirms the offer if the GPUs are free at a sample taken after it.
    fn confirm(&self, offer: Offer, sample: &Sample) -> Option<Grant> {
        let wish = wish(self.query, self.context, sample);
        let found = Found::new(self.query, self.context, sample, &wish);
        let look = self.look(sample, &found);
        offer.confirm(&self.claims.dir, &look, &self.claims.kernel)
    }

    /// Fails if the caller, or the process that the claim is for, has ended.
    fn check_wanted(&self) -> Result<(), Failure> {
        self.caller.check()?;
        match self.claims.kernel.standing(&self.request.for_process) {
            Standing::Ended => Err(Failure::failed(format!(
                "the process that the claim would be for (pid {}) has ended",
                self.request.for_process.pid
            ))),
            _ => Ok(()),
        }
    }
}

impl Requester<'_> {
    /// Ends a request at once that no waiting can fulfil.
    fn impossible<'a>(
        &self,
        sample: &'a Sample,
        wish: &Wish,
        found: &mut Found<'a>,
    ) -> anyhow::Result<Option<ExitCode>> {
        let could = |gpu: &&gua_model::Gpu| has_name(gpu, self.query) && could_be_free(gpu, wish);
        let could_be_had = sample.gpus.iter().filter(could).count();
        if could_be_had >= self.request.at_least {
            return Ok(None);
        }
        found.free.clear();
        let page = Page {
            sample,
            wish,
            query: self.query,
            found,
            claims: &[],
            granted: None,
        };
        page.print(false)?;
        if !self.query.args.quiet {
            let (prefix, wanted) = (self.query.prefix, self.request.at_least);
            let why = match found.is_without_model(wish) {
                true => found.shortage(self.query, wish, 0, None),
                false => format!(
                    "{prefix}: {wanted} wanted, but only {could_be_had} on this host can ever be free\n"
                ),
            };
            output::eprint(&format!("{why}{}", found.hidden_instances(self.query)));
        }
        Ok(Some(Exit::Nothing.into()))
    }

    /// Prints the lease, and then hands it over: GPUs that were not printed are released, also if this process is
    /// killed in between.
    fn answer(&self, grant: Grant, sample: &Sample) -> anyhow::Result<Claim> {
        let wish = wish(self.query, self.context, sample);
        let mut found = Found::new(self.query, self.context, sample, &wish);
        // A granted lease is printed regardless of what a history says by now.
        let gpu_of = |uuid: &GpuUuid| sample.gpus.iter().find(|gpu| gpu.uuid == *uuid);
        found.free = grant.claim().gpus.iter().filter_map(gpu_of).collect();
        found
            .others
            .retain(|(gpu, _)| !grant.claim().gpus.contains(&gpu.uuid));
        Page {
            sample,
            wish: &wish,
            query: self.query,
            found: &found,
            claims: &[],
            granted: Some(grant.claim()),
        }
        .print(true)?;
        let claim = grant.hand_over(&self.claims.dir, &self.claims.kernel)?;
        if !self.query.args.quiet {
            let left = claim.deadline.saturating_sub(sample.since_boot);
            let until = sample.at.checked_add(left).unwrap_or(sample.at);
            let indexes: Vec<String> = found.free.iter().map(|gpu| gpu.index.to_string()).collect();
            let process = Names::default().process(claim.for_process.pid);
            output::eprint(&format!(
                "{}: claim {}: gpu {} until {}, or until {process} ends\n",
                self.query.prefix,
                claim.id,
                indexes.join(","),
                moment(until, sample.at)
            ));
        }
        Ok(claim)
    }

    fn print_obstacles(&self, page: &Page<'_>) {
        if !self.query.args.quiet {
            output::eprint(&page.obstacles());
        }
    }

    fn print_shortage(&self, short: &Short, page: &Page<'_>) {
        if self.query.args.quiet {
            return;
        }
        let wanted = self.query.args.count.map(|_| self.request.at_least);
        let mut text = page.found.hidden_instances(self.query);
        let found = page.found;
        text.push_str(&found.shortage(self.query, page.wish, short.left.len(), wanted));
        output::eprint(&text);
    }

    fn refusal(&self, page: &Page<'_>, short: &Short) -> Refusal {
        let refused = Refused {
            sample: page.sample,
            wish: page.wish,
            others: &page.found.others,
            claims: &short.claims,
            wanted: self.request.at_least,
            left: short.left.len(),
        };
        refused.refusal(|gpus| listing::since(&self.context.loaded, gpus, page.sample.at))
    }

    fn record_end(&self, refusal: Option<Refusal>, outcome: Outcome, waited: Duration) {
        if let Some(refusal) = refusal {
            self.record(&Refusal {
                outcome,
                waited: SignedDuration::try_from(waited).unwrap_or(SignedDuration::MAX),
                ..refusal
            });
        }
    }

    /// Records a refusal for the collector. A failure to do so is only a message.
    fn record(&self, refusal: &Refusal) {
        let event = Event::Refusal(refusal.clone());
        if let Err(error) = self.claims.dir.record(&event, clock::now())
            && !self.query.args.quiet
        {
            let error = self.claims.explained(&error);
            let prefix = self.query.prefix;
            output::eprint(&format!("{prefix}: cannot record the refusal: {error}\n"));
        }
    }
}

/// The page of a refusal, with claims and reservations of waiters among the reasons.
fn refused<'a>(
    short: &'a Short,
    sample: &'a Sample,
    wish: &'a Wish,
    query: &'a Query<'a>,
    found: &'a mut Found<'a>,
) -> Page<'a> {
    found.against(&short.claims, |gpu| !short.left.contains(gpu));
    found.free.clear();
    Page {
        sample,
        wish,
        query,
        found,
        claims: &short.claims,
        granted: None,
    }
}

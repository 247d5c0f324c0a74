//! `gua available --claim` and `--wait`: leases cards, at once or when the turn comes, and tells the collector when
//! somebody did not get what they asked for.

mod patience;

use std::process::ExitCode;
use std::time::Duration;

use gua_claim::{
    Answer, ClaimDir, ClaimError, Event, Grant, Kernel as _, Look, Offer, Outcome, Refusal,
    Request, Short, Standing,
};
use gua_model::pick::{Wish, could_be_free};
use gua_model::{GpuUuid, Sample};
use gua_probe::clock;
use gua_probe::reader::Reader;
use jiff::SignedDuration;

use super::page::Page;
use super::{Found, has_name, wish};
use crate::claims::refusal::Asked;
use crate::claims::words::{Names, moment};
use crate::claims::{Caller, Claims, look};
use crate::cli::{AvailableArgs, RuleName};
use crate::config::Loaded;
use crate::duration::written;
use crate::failure::{Exit, Failure};
use crate::{driver, output};
use patience::{Line, Next, Patience};

/// The lease of those who only wait: as long as a program needs to come onto its card, so that the next in the queue is
/// not sent to the same one.
const LEASE_OF_WAITERS: Duration = Duration::from_mins(1);

const SHORTEST_LEASE: Duration = Duration::from_secs(1);

/// How often cards that are free at one look may be taken by the next, before it is told that there are none.
const MOST_TRIES: usize = 8;

pub(super) fn run(args: &AvailableArgs, loaded: &Loaded) -> anyhow::Result<ExitCode> {
    let caller = Caller::now(args.for_pid);
    let lease = lease(args, loaded)?;
    caller.check()?;
    let claims = Claims::open(&loaded.settings)?;
    let mut reader = driver::reader(&loaded.settings);
    let sample = driver::sample(&mut reader)?;
    let wanted = Wanted::of(args);
    let asker = Asker {
        request: Request {
            at_least: wanted.at_least,
            at_most: wanted.at_most,
            lease,
            for_process: claims.for_process(&caller)?,
            asker: claims.this_process()?,
        },
        args,
        loaded,
        claims,
        caller,
    };
    let end = match args.wait {
        None => asker.at_once(&mut reader, sample)?,
        Some(longest) => asker.in_turn(&mut reader, sample, longest)?,
    };
    match end {
        End::Granted { grant, sample } => asker.answer(*grant, &sample),
        End::Without(exit) => Ok(exit),
    }
}

/// How asking ended.
enum End {
    /// With cards, and the sample at which they were still free. Nobody was told yet.
    Granted { grant: Box<Grant>, sample: Sample },
    /// Without; what there is to say was said.
    Without(ExitCode),
}

impl End {
    fn granted(grant: Grant, sample: Sample) -> Self {
        Self::Granted {
            grant: Box::new(grant),
            sample,
        }
    }
}

/// How long the lease is to be, if it may be asked for.
fn lease(args: &AvailableArgs, loaded: &Loaded) -> Result<Duration, Failure> {
    if args.rule == RuleName::Nvgpu {
        return Err(Failure::usage(
            "nvgpu's rule knows no claims and no waiting",
        ));
    }
    let longest = loaded.settings.claim.longest.value;
    let lease = args.claim.unwrap_or(LEASE_OF_WAITERS.min(longest));
    if lease < SHORTEST_LEASE {
        return Err(Failure::usage("--claim needs 1s or more"));
    }
    if lease > longest {
        let (lease, longest) = (written(lease), written(longest));
        return Err(Failure::usage(format!(
            "--claim {lease}: {longest} is the longest lease here"
        ))
        .hint("claim.longest in the configuration says so"));
    }
    Ok(lease)
}

/// One card, unless more were asked for: whoever leases all cards of a host should have to say so.
struct Wanted {
    at_least: usize,
    at_most: usize,
}

impl Wanted {
    fn of(args: &AvailableArgs) -> Self {
        let number = |count: u32| usize::try_from(count).unwrap_or(usize::MAX);
        match (args.count.map(number), args.limit) {
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

struct Asker<'a> {
    args: &'a AvailableArgs,
    loaded: &'a Loaded,
    claims: Claims,
    caller: Caller,
    request: Request,
}

impl Asker<'_> {
    fn at_once(&self, reader: &mut Reader, mut sample: Sample) -> anyhow::Result<End> {
        for _ in 0..MOST_TRIES {
            let wish = wish(self.args, self.loaded, &sample);
            let mut found = Found::new(self.args, self.loaded, &sample, &wish);
            if let Some(end) = self.impossible(&sample, &wish, &mut found)? {
                return Ok(End::Without(end));
            }
            self.check_wanted()?;
            let look = self.look(&sample, &found);
            let answer = self
                .claims
                .dir
                .take(&self.request, &look, &self.claims.kernel)
                .map_err(|error| self.claims.explained(error))?;
            let offer = match answer {
                Answer::Offered(offer) => Some(offer),
                Answer::LookAgain => None,
                Answer::Short(short) => {
                    let page = refused(&short, &sample, &wish, self.args, &mut found);
                    page.print(false)?;
                    self.tell(&page);
                    self.tell_shortage(&short, &page);
                    self.record(&self.refusal(&page, &short));
                    return Ok(End::Without(Exit::Nothing.into()));
                }
            };
            let next = driver::sample(reader)?;
            if let Some(grant) = offer.and_then(|offer| self.confirm(offer, &next)) {
                return Ok(End::granted(grant, next));
            }
            sample = next;
        }
        Err(Failure {
            exit: Exit::Nothing,
            message: "cards were free, and were taken by others before they could be leased"
                .to_owned(),
            hint: None,
        }
        .into())
    }

    /// Takes a place in the queue and keeps it until its turn, the end of patience or a signal.
    fn in_turn(
        &self,
        reader: &mut Reader,
        mut sample: Sample,
        longest: Option<Duration>,
    ) -> anyhow::Result<End> {
        let began = clock::monotonic();
        let mut patience = Patience::new(began, longest)?;
        let mut line = Line::new(self.args);
        let mut ticket = None;
        let mut refusal: Option<Refusal> = None;
        let kernel = &self.claims.kernel;
        loop {
            let wish = wish(self.args, self.loaded, &sample);
            let mut found = Found::new(self.args, self.loaded, &sample, &wish);
            if let Some(end) = self.impossible(&sample, &wish, &mut found)? {
                return Ok(End::Without(end));
            }
            let look = self.look(&sample, &found);
            let fail = |error: ClaimError| self.claims.explained(error);
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
            // `None` where nothing was answered: then nobody is known to have stood in the way.
            let short = match answer {
                Answer::Short(short) => Some(short),
                Answer::LookAgain => None,
                Answer::Offered(offer) => match driver::sample(reader) {
                    Ok(next) => {
                        let Some(grant) = self.confirm(offer, &next) else {
                            sample = next;
                            continue;
                        };
                        line.clear();
                        let waited = clock::monotonic().saturating_sub(began);
                        self.record_end(refusal, Outcome::Granted, waited);
                        return Ok(End::granted(grant, next));
                    }
                    // The cards are given back, the place in the queue is kept.
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
            let page = refused(&short, &sample, &wish, self.args, &mut found);
            if is_answer && refusal.is_none() {
                refusal = Some(self.refusal(&page, &short));
                self.tell(&page);
            }
            let next = loop {
                line.show(
                    &self.request,
                    &short,
                    clock::monotonic().saturating_sub(began),
                );
                match patience.pause(ClaimDir::pause(short.ahead.len())) {
                    Next::Again => {}
                    end => break Err(end),
                }
                // A driver that does not answer keeps nobody here for whom nobody waits any more.
                self.check_wanted()?;
                match driver::sample(reader) {
                    Ok(next) => {
                        line.trouble_is_over();
                        break Ok(next);
                    }
                    Err(fault) => line.trouble(&fault),
                }
            };
            match next {
                Ok(next) => sample = next,
                Err(end) => {
                    line.clear();
                    // The place in the queue is given up before anything else is told.
                    drop(ticket);
                    let waited = clock::monotonic().saturating_sub(began);
                    self.record_end(refusal, Outcome::GaveUp, waited);
                    if let Next::Signal(signal) = end {
                        return Ok(End::Without(patience::end_by(signal)));
                    }
                    page.print(false)?;
                    self.tell_shortage(&short, &page);
                    return Ok(End::Without(Exit::Nothing.into()));
                }
            }
        }
    }

    /// What a sample says to those who judge claims.
    fn look(&self, sample: &Sample, found: &Found<'_>) -> Look {
        let thresholds = self.loaded.settings.thresholds();
        look(sample, self.claims.kernel.boot, &thresholds, found.choice())
    }

    /// Makes sure that the cards are free at a sample from after the offer.
    fn confirm(&self, offer: Offer, sample: &Sample) -> Option<Grant> {
        let wish = wish(self.args, self.loaded, sample);
        let found = Found::new(self.args, self.loaded, sample, &wish);
        let look = self.look(sample, &found);
        offer.confirm(&self.claims.dir, &look, &self.claims.kernel)
    }

    /// Refuses to go on when the caller, or the process that the claim is for, has ended.
    fn check_wanted(&self) -> Result<(), Failure> {
        self.caller.check()?;
        match self.claims.kernel.standing(&self.request.for_process) {
            Standing::Ended => Err(Failure {
                exit: Exit::Failed,
                message: format!(
                    "the process that the claim would be for (pid {}) has ended",
                    self.request.for_process.pid
                ),
                hint: None,
            }),
            _ => Ok(()),
        }
    }
}

impl Asker<'_> {
    /// A wish that no waiting fulfils ends at once.
    fn impossible<'a>(
        &self,
        sample: &'a Sample,
        wish: &Wish,
        found: &mut Found<'a>,
    ) -> anyhow::Result<Option<ExitCode>> {
        let could = |gpu: &&gua_model::Gpu| has_name(gpu, self.args) && could_be_free(gpu, wish);
        let could_be_had = sample.gpus.iter().filter(could).count();
        if could_be_had >= self.request.at_least {
            return Ok(None);
        }
        found.free.clear();
        let page = Page {
            sample,
            wish,
            args: self.args,
            found,
            claims: &[],
            granted: None,
        };
        page.print(false)?;
        if !self.args.quiet {
            let (speaker, wanted) = (self.args.speaker(), self.request.at_least);
            let why = match found.is_without_model(wish) {
                true => found.shortage(self.args, wish, 0, None),
                false => format!(
                    "{speaker}: {wanted} wanted, and this host has {could_be_had} that could ever be had\n"
                ),
            };
            output::talk(&format!("{why}{}", found.hidden_instances(self.args)));
        }
        Ok(Some(Exit::Nothing.into()))
    }

    /// Prints what was leased, and then hands it over: cards that nobody was told of are given back, also when this
    /// process is killed on the way.
    fn answer(&self, grant: Grant, sample: &Sample) -> anyhow::Result<ExitCode> {
        let wish = wish(self.args, self.loaded, sample);
        let mut found = Found::new(self.args, self.loaded, sample, &wish);
        // What is leased is told, whatever a history says by now.
        let card = |uuid: &GpuUuid| sample.gpus.iter().find(|gpu| gpu.uuid == *uuid);
        found.free = grant.claim().cards.iter().filter_map(card).collect();
        found
            .others
            .retain(|(gpu, _)| !grant.claim().cards.contains(&gpu.uuid));
        Page {
            sample,
            wish: &wish,
            args: self.args,
            found: &found,
            claims: &[],
            granted: Some(grant.claim()),
        }
        .print(true)?;
        let claim = grant.hand_over(&self.claims.dir, &self.claims.kernel)?;
        if !self.args.quiet {
            let left = claim.deadline.saturating_sub(sample.since_boot);
            let until = sample.at.checked_add(left).unwrap_or(sample.at);
            let cards: Vec<String> = found.free.iter().map(|gpu| gpu.index.to_string()).collect();
            let process = Names::default().process(claim.for_process.pid);
            output::talk(&format!(
                "{}: claim {}: gpu {} until {}, or until {process} ends\n",
                self.args.speaker(),
                claim.id,
                cards.join(","),
                moment(until, sample.at)
            ));
        }
        Ok(ExitCode::SUCCESS)
    }

    fn tell(&self, page: &Page<'_>) {
        if !self.args.quiet {
            output::talk(&page.told());
        }
    }

    fn tell_shortage(&self, short: &Short, page: &Page<'_>) {
        if self.args.quiet {
            return;
        }
        let wanted = self.args.count.map(|_| self.request.at_least);
        let mut text = page.found.hidden_instances(self.args);
        let found = page.found;
        text.push_str(&found.shortage(self.args, page.wish, short.left.len(), wanted));
        output::talk(&text);
    }

    fn refusal(&self, page: &Page<'_>, short: &Short) -> Refusal {
        let asked = Asked {
            sample: page.sample,
            wish: page.wish,
            others: &page.found.others,
            claims: &short.claims,
            wanted: self.request.at_least,
            left: short.left.len(),
        };
        asked.refusal(self.loaded)
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

    /// For the collector. That it cannot be told changes nothing for the asker.
    fn record(&self, refusal: &Refusal) {
        let event = Event::Refusal(refusal.clone());
        if let Err(error) = self.claims.dir.record(&event, clock::now())
            && !self.args.quiet
        {
            let error = self.claims.explained(error);
            let speaker = self.args.speaker();
            output::talk(&format!(
                "{speaker}: the refusal is not recorded: {error:#}\n"
            ));
        }
    }
}

/// The page of a refusal: what is claimed and what is kept for others stands among the reasons.
fn refused<'a>(
    short: &'a Short,
    sample: &'a Sample,
    wish: &'a Wish,
    args: &'a AvailableArgs,
    found: &'a mut Found<'a>,
) -> Page<'a> {
    found.against(&short.claims, |gpu| !short.left.contains(gpu));
    found.free.clear();
    Page {
        sample,
        wish,
        args,
        found,
        claims: &short.claims,
        granted: None,
    }
}

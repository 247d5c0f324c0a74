//! `gua available --claim` and `--wait`: leases cards, at once or when the turn comes, and tells the collector when
//! somebody did not get what they asked for.

mod patience;

use std::process::ExitCode;
use std::time::Duration;

use gua_claim::{Answer, Claim, ClaimError, Event, Outcome, Refusal, Request, Short};
use gua_model::pick::{Obstacle, Wish};
use gua_model::{BootId, Place, Sample};
use gua_probe::clock;
use jiff::SignedDuration;

use super::page::Page;
use super::{Found, wish};
use crate::claims::refusal::Asked;
use crate::claims::words::{Names, moment};
use crate::claims::{Caller, Claims, boot_of, look};
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

pub(super) fn run(args: &AvailableArgs, loaded: &Loaded) -> anyhow::Result<ExitCode> {
    let caller = Caller::now(args.holder);
    let lease = lease(args, loaded)?;
    caller.check()?;
    let claims = Claims::open(&loaded.settings)?;
    let mut reader = driver::reader(&loaded.settings);
    let sample = driver::sample(&mut reader, &loaded.settings)?;
    let boot = boot_of(sample.boot)?;
    let wanted = Wanted::of(args);
    let asker = Asker {
        request: Request {
            at_least: wanted.at_least,
            at_most: wanted.at_most,
            lease,
            holder: claims.holder(&caller, boot)?,
        },
        args,
        loaded,
        claims,
        boot,
        caller,
    };
    match args.wait {
        None => asker.at_once(&sample),
        Some(longest) => asker.in_turn(&mut reader, sample, longest),
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
    boot: BootId,
    caller: Caller,
    request: Request,
}

impl Asker<'_> {
    fn at_once(&self, sample: &Sample) -> anyhow::Result<ExitCode> {
        let wish = wish(self.args, self.loaded, sample);
        let mut found = Found::new(self.args, self.loaded, sample, &wish);
        if let Some(end) = self.impossible(sample, &wish, &mut found)? {
            return Ok(end);
        }
        let look = look(sample, self.boot, found.free_uuids());
        self.caller.check()?;
        let answer = self
            .claims
            .dir
            .take(&self.request, &look, &self.claims.processes);
        match answer.map_err(|error| self.claims.explained(error))? {
            Answer::Granted(claim) => self.granted(&claim, sample, &wish, &mut found),
            Answer::Short(short) => {
                let page = refused(&short, sample, &wish, self.args, &mut found);
                page.print(false, None)?;
                self.tell(&page);
                self.tell_shortage(&short, &page);
                self.record(&self.refusal(&page, &short));
                Ok(Exit::Nothing.into())
            }
        }
    }

    /// Takes a place in the queue and keeps it until its turn, the end of patience or a signal.
    fn in_turn(
        &self,
        reader: &mut gua_probe::reader::Reader,
        mut sample: Sample,
        longest: Option<Duration>,
    ) -> anyhow::Result<ExitCode> {
        let began = clock::monotonic();
        let mut patience = Patience::new(began, longest)?;
        let mut line = Line::new(self.args.quiet);
        let mut ticket = None;
        let mut refusal: Option<Refusal> = None;
        let processes = &self.claims.processes;
        loop {
            let wish = wish(self.args, self.loaded, &sample);
            let mut found = Found::new(self.args, self.loaded, &sample, &wish);
            if let Some(end) = self.impossible(&sample, &wish, &mut found)? {
                return Ok(end);
            }
            let look = look(&sample, self.boot, found.free_uuids());
            let fail = |error: ClaimError| self.claims.explained(error);
            self.caller.check()?;
            let place = match &mut ticket {
                Some(ticket) => ticket,
                none => {
                    let me = self.claims.this_process(self.boot)?;
                    let joined = self.claims.dir.join(&self.request, me, &look, processes);
                    none.insert(joined.map_err(fail)?)
                }
            };
            let answer = self
                .claims
                .dir
                .advance(place, &self.request, &look, processes)
                .map_err(fail)?;
            let waited = clock::monotonic().saturating_sub(began);
            let short = match answer {
                Answer::Granted(claim) => {
                    line.clear();
                    self.record_end(refusal, Outcome::Granted, waited);
                    return self.granted(&claim, &sample, &wish, &mut found);
                }
                Answer::Short(short) => short,
            };
            let page = refused(&short, &sample, &wish, self.args, &mut found);
            if refusal.is_none() {
                refusal = Some(self.refusal(&page, &short));
                self.tell(&page);
            }
            let next = loop {
                line.show(
                    &self.request,
                    &short,
                    clock::monotonic().saturating_sub(began),
                );
                match patience.pause(gua_claim::ClaimDir::pause(short.ahead.len())) {
                    Next::Again => {}
                    end => break Err(end),
                }
                match driver::sample(reader, &self.loaded.settings) {
                    Ok(next) => break Ok(next),
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
                        return Ok(patience::end_by(signal));
                    }
                    page.print(false, None)?;
                    self.tell_shortage(&short, &page);
                    return Ok(Exit::Nothing.into());
                }
            }
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
        let could = |(gpu, why): &&(&gua_model::Gpu, Obstacle)| {
            let has_name = self.args.uuid || !matches!(gpu.place, Place::Instance { .. });
            has_name && !matches!(why, Obstacle::OtherModel | Obstacle::Divided)
        };
        let could_be_had = found.free.len() + found.others.iter().filter(could).count();
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
        };
        page.print(false, None)?;
        if !self.args.quiet {
            let wanted = self.request.at_least;
            let why = match found.is_without_model(wish) {
                true => found.shortage(wish, 0, None),
                false => format!(
                    "gua available: {wanted} wanted, and this host has {could_be_had} that could be\n"
                ),
            };
            output::talk(&format!("{why}{}", found.hidden_instances(self.args)));
        }
        Ok(Some(Exit::Nothing.into()))
    }

    /// Prints what was leased. Cards that nobody was told of are given back.
    fn granted<'a>(
        &self,
        claim: &Claim,
        sample: &'a Sample,
        wish: &Wish,
        found: &mut Found<'a>,
    ) -> anyhow::Result<ExitCode> {
        found.free.retain(|gpu| claim.cards.contains(&gpu.uuid));
        let page = Page {
            sample,
            wish,
            args: self.args,
            found,
            claims: &[],
        };
        if let Err(error) = page.print(true, Some(claim)) {
            let _ = self.claims.dir.release(&claim.id);
            return Err(error);
        }
        if !self.args.quiet {
            let left = claim.deadline.saturating_sub(sample.since_boot);
            let until = sample.at.checked_add(left).unwrap_or(sample.at);
            let cards: Vec<String> = found.free.iter().map(|gpu| gpu.index.to_string()).collect();
            let holder = Names::default().process(claim.holder.pid);
            output::talk(&format!(
                "gua available: claim {}: gpu {} until {}, or until {holder} ends\n",
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
        text.push_str(&page.found.shortage(page.wish, short.left.len(), wanted));
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
            output::talk(&format!(
                "gua available: the refusal is not recorded: {error:#}\n"
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
    }
}

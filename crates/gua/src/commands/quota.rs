//! `gua quota`: limits on GPU use, and how much of them is used. The rules are in gua-model, the amounts are those of
//! `gua report`, and the limits are in the configuration.

use std::path::{Path, PathBuf};
use std::time::Duration;

use gua_collector::quota::Accounts;
use gua_compat::gpu_stats::PercentQuestion;
use gua_model::Period;
use gua_model::quota::percent::Percentages;
use gua_model::quota::{Limit, Measure, NoForecast, Sharing, Standing, Subject, Term};
use gua_probe::process::{groups_of, is_group, is_user};
use gua_query::PersonQuestion;
use gua_query::words::zone;
use gua_render::quota as page;
use gua_settings::edit::{Document, EditError, change};
use gua_settings::kind::Home;
use gua_settings::quota::{self, Quota};
use gua_settings::{Inputs, Layer, Source};
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};

use crate::commands::prelude::*;
use crate::context::this_process;

pub fn run(command: &QuotaCommand, context: &Context) -> anyhow::Result<ExitCode> {
    match command {
        QuotaCommand::Set(args) => set(args, context)?,
        QuotaCommand::Remove(args) => remove(args, context)?,
        QuotaCommand::Show(args) if args.formula == QuotaFormula::Percent => {
            percentages(args, context)?;
        }
        QuotaCommand::Show(args) if args.ago > 0 => {
            bail!(
                Failure::usage("--ago is only for --formula percent").hint(
                    "`gua statement --month YYYY-MM` shows an earlier month against the limits"
                )
            );
        }
        QuotaCommand::Show(args) => {
            let accounts = accounts(args, context)?;
            if args.format.wanted() == TableFormat::Text && accounts.standings.is_empty() {
                output::data(&nothing(args, context))?;
            } else {
                print(&accounts.standings, args, &accounts, context)?;
            }
            let left_out = &accounts.unbalanced;
            return Ok(balance::exit_code("gua quota", left_out, &args.strict));
        }
        QuotaCommand::Check { show, forecast } => return check(show, *forecast, context),
    }
    Ok(ExitCode::SUCCESS)
}

/// Fails for a user who is over a limit: no GPU is available to them. The user is the owner of this process, as in the
/// history.
pub(crate) fn refuse_who_is_over(context: &Context, prefix: &str) -> anyhow::Result<()> {
    let quotas = &context.settings().quotas;
    if quotas.is_empty() {
        return Ok(());
    }
    let Some(owner) = this_process().and_then(|own| own.owner()) else {
        output::eprint(&format!(
            "{prefix}: no limit was checked: the owner of this process is unknown\n"
        ));
        return Ok(());
    };
    let accounts = accounts_to_refuse(context)?;
    balance::warn(prefix, &accounts.unbalanced);
    let standings = accounts.of_person(&owner.who.shown())?;
    let Some(over) = standings.iter().find(|standing| standing.is_over()) else {
        print_unjudged(&standings, prefix);
        return Ok(());
    };
    let limit = &over.limit;
    let used = page::amount(limit.measure, Some(over.at_least)).shown();
    let most = page::amount(limit.measure, Some(limit.most)).shown();
    let (unit, per) = (page::unit(limit.measure), quota::term_word(limit.per));
    Err(Failure::new(
        Exit::Nothing,
        format!(
            "{} is over quota: {} {used} of {most} {unit} per {per}",
            sanitize(&page::who(&over.who)),
            limit.measure.as_str()
        ),
    )
    .hint("`gua quota show` shows the use and when the period ends")
    .into())
}

/// Returns the use of every limit, for deciding whether to refuse a user.
pub(super) fn accounts_to_refuse(context: &Context) -> anyhow::Result<Accounts> {
    let db = |layer| location::to_refuse(&context.loaded, layer);
    Accounts::of(&context.loaded, db, &context.zone(), context.now())
}

/// Prints how many limits cannot be evaluated, if there are any.
fn print_unjudged(standings: &[Standing], prefix: &str) {
    let number = standings.iter().filter(|one| !one.is_judged()).count();
    let why = "cannot be evaluated: measurements are missing";
    print_unless_zero(number, why, prefix);
}

fn print_unless_zero(number: usize, sentence: &str, prefix: &str) {
    if number > 0 {
        let limits = counted(number as u64, "limit");
        output::eprint(&format!("{prefix}: {limits} {sentence}\n"));
    }
}

/// Prints users over a limit and limits that cannot be evaluated; exits with 1 if there are any.
fn check(args: &QuotaShowArgs, forecast: bool, context: &Context) -> anyhow::Result<ExitCode> {
    if args.formula == QuotaFormula::Percent {
        let problem = "`check` does not support --formula percent";
        bail!(Failure::usage(problem).hint("`gua quota show --formula percent`"));
    }
    let accounts = accounts(args, context)?;
    let is_found = |standing: &&Standing| {
        let will_be = forecast && standing.will_be_over();
        standing.is_over() || will_be || !standing.is_judged()
    };
    let all = &accounts.standings;
    let found: Vec<Standing> = all.iter().filter(is_found).cloned().collect();
    match (args.format.wanted(), found.is_empty()) {
        (TableFormat::Text, true) if context.settings().quotas.is_empty() => {
            output::data(&nothing(args, context))?;
        }
        (TableFormat::Text, true) => {
            let limits = counted(context.settings().quotas.len() as u64, "limit");
            output::data(&format!("nobody is over a limit; {limits} checked\n"))?;
        }
        _ => print(&found, args, &accounts, context)?,
    }
    let prefix = "gua quota check";
    print_unjudged(&found, prefix);
    let is_early = |one: &&Standing| forecast && one.forecast == Err(NoForecast::TooEarly);
    print_unless_zero(
        all.iter().filter(is_early).count(),
        "without a forecast: at least an hour and 1 % of the period must be observed first",
        prefix,
    );
    let code = balance::exit_code(prefix, &accounts.unbalanced, &args.strict);
    Ok(match found.is_empty() {
        true => code,
        false => Exit::Failed.into(),
    })
}

fn nothing(args: &QuotaShowArgs, context: &Context) -> String {
    if context.settings().quotas.is_empty() {
        return "no limits are set; `gua quota set --everyone --idle-held 10h --per week` sets one\n".to_owned();
    }
    let Some(user) = &args.user else {
        return "no use is recorded under any limit yet\n".to_owned();
    };
    let name = sanitize(user);
    let groups = groups_of(std::slice::from_ref(user)).and_then(|mut all| all.remove(user));
    let applies = |quota: &&Quota| match &quota.value.subject {
        Subject::User(name) => name == user,
        Subject::Group(group) => groups.as_ref().is_some_and(|all| all.contains(group)),
        Subject::Everyone => true,
    };
    let limits = context.settings().quotas.iter().filter(applies);
    let limits: String = limits
        .map(|quota| format!("  {}\n", sentence(&quota.value)))
        .collect();
    match limits.is_empty() {
        true => format!("no limit applies to {name}\n"),
        false => format!("{name}: no use is recorded yet; limits that apply:\n{limits}"),
    }
}

/// Returns the requested limits with their use. Problems with the limits themselves are printed.
fn accounts(args: &QuotaShowArgs, context: &Context) -> anyhow::Result<Accounts> {
    let zone = zone(args.tz.as_deref(), context.zone())?;
    let db = |layer| location::for_limits(&context.loaded, layer);
    let mut accounts = Accounts::of::<anyhow::Error>(&context.loaded, db, &zone, clock::now())?;
    for note in &accounts.notes {
        output::eprint(&format!("gua quota: {}\n", page::note(note)));
    }
    if let Some(user) = &args.user {
        accounts.standings = accounts.of_person(user)?;
    }
    Ok(accounts)
}

fn print(
    standings: &[Standing],
    args: &QuotaShowArgs,
    accounts: &Accounts,
    context: &Context,
) -> anyhow::Result<()> {
    let zone = zone(args.tz.as_deref(), context.zone())?;
    let text = match args.format.wanted() {
        TableFormat::Text => page::text(standings, &zone),
        TableFormat::Csv => csv(&page::table(standings)),
        TableFormat::Json => page::json(standings, accounts.now, &zone),
    };
    output::data(&text)
}

fn subject(args: &QuotaSubjectArgs) -> Result<Subject, Failure> {
    let name = args.user.as_ref().or(args.group.as_ref());
    if let Some(bad) = name.filter(|name| !quota::is_name(name)) {
        return Err(Failure::usage(format!(
            "`{}` is not a valid name",
            sanitize(bad)
        )));
    }
    Ok(match (&args.user, &args.group) {
        (Some(user), _) => Subject::User(user.clone()),
        (None, Some(group)) => Subject::Group(group.clone()),
        (None, None) => Subject::Everyone,
    })
}

fn set(args: &QuotaSetArgs, context: &Context) -> anyhow::Result<()> {
    let subject = subject(&args.subject)?;
    let per =
        quota::term(&args.per).map_err(|message| Failure::usage(format!("--per: {message}")))?;
    let sharing = match (args.each, args.together) {
        (true, _) => Sharing::Each,
        (_, true) => Sharing::Together,
        _ => quota::usual_sharing(&subject),
    };
    if !args.force {
        refuse_unknown(&subject, context)?;
    }
    let amounts = &args.amounts;
    let asked = [
        (Measure::Held, &amounts.held),
        (Measure::IdleHeld, &amounts.idle_held),
        (Measure::Charged, &amounts.charged),
        (Measure::Energy, &amounts.energy),
    ];
    let asked = asked.into_iter();
    let limits = asked.filter_map(|(measure, text)| {
        let amount = quota::amount(measure, text.as_ref()?);
        let invalid = |message| Failure::usage(format!("--{}: {message}", measure.as_str()));
        let limit = |most| Limit {
            subject: subject.clone(),
            sharing,
            measure,
            per,
            most,
        };
        Some(amount.map(limit).map_err(invalid))
    });
    let limits = limits.collect::<Result<Vec<Limit>, Failure>>()?;
    let (file, layer) = file(&context.loaded.inputs, args.system)?;
    edit(&file, layer, context, |document| {
        let mut limits = limits.iter();
        limits.try_for_each(|limit| quota::set(document, limit))
    })?;
    let text: String = limits.iter().map(|limit| sentence(limit) + "\n").collect();
    output::data(&format!("{text}  in {}\n", file.display()))?;
    if !args.system {
        print_overridden(&limits, context);
    }
    Ok(())
}

/// Prints which of a user's own limits are overridden by the host's.
fn print_overridden(limits: &[Limit], context: &Context) {
    for limit in limits {
        let own = Quota {
            value: limit.clone(),
            source: Source::Default,
            layer: Layer::User,
        };
        if let Some(host) = quota::stricter(&context.settings().quotas, &own) {
            output::eprint(&format!(
                "gua quota: the host's own limit applies: {} ({})\n",
                sentence(&host.value),
                host.source
            ));
        }
    }
}

fn sentence(limit: &Limit) -> String {
    let whom = match (&limit.subject, limit.sharing) {
        (Subject::User(name), _) => sanitize(name),
        (Subject::Group(name), Sharing::Together) => {
            format!("the group {} together", sanitize(name))
        }
        (Subject::Group(name), Sharing::Each) => format!("each of the group {}", sanitize(name)),
        (Subject::Everyone, Sharing::Each) => "everyone".to_owned(),
        (Subject::Everyone, Sharing::Together) => "all together".to_owned(),
    };
    let amount = quota::amount_word(limit.measure, limit.most);
    let term = quota::term_word(limit.per);
    format!(
        "{whom}: {} at most {amount} per {term}",
        limit.measure.as_str()
    )
}

/// File that limits are written to: the host's, or the user's.
fn file(inputs: &Inputs, system: bool) -> Result<(PathBuf, Layer), Failure> {
    if system {
        return Ok((inputs.system_file.clone(), Layer::Host));
    }
    let mut candidates = inputs.candidates().into_iter();
    let own = candidates.find(|candidate| candidate.path != inputs.system_file);
    own.map(|own| (own.path, Layer::User)).ok_or_else(|| {
        Failure::usage("the home directory is unknown").hint("set HOME, or pass --system")
    })
}

fn edit(
    file: &Path,
    layer: Layer,
    context: &Context,
    edit: impl FnOnce(&mut Document) -> Result<(), EditError>,
) -> Result<(), Failure> {
    let home = Home(context.loaded.inputs.home.clone());
    change(file, layer, &home, edit).map_err(|error| match error {
        EditError::InlineArray { .. } => Failure::usage(error.to_string()),
        error => Failure::failed(chain(&error)),
    })
}

/// Rejects an unknown name: a limit for a misspelled name would never apply.
fn refuse_unknown(subject: &Subject, context: &Context) -> Result<(), Failure> {
    // A directory service that does not answer is no reason to refuse.
    let problem = match subject {
        Subject::User(name) if is_user(name) == Some(false) && !is_in_history(name, context) => {
            let name = sanitize(name);
            format!("unknown user `{name}`: neither on this host nor in the history")
        }
        Subject::Group(name) if is_group(name) == Some(false) => {
            format!("unknown group `{}`", sanitize(name))
        }
        _ => return Ok(()),
    };
    Err(Failure::usage(problem).hint("--force sets the limit anyway"))
}

/// Whether the history contains a user. A history that cannot be read contains none.
fn is_in_history(name: &str, context: &Context) -> bool {
    let person = name.to_owned();
    let question = PersonQuestion { person };
    context.source().require_person(&question).is_ok()
}

fn remove(args: &QuotaRemoveArgs, context: &Context) -> anyhow::Result<()> {
    let subject = subject(&args.subject)?;
    let per = args.per.as_deref().map(quota::term).transpose();
    let per = per.map_err(|message| Failure::usage(format!("--per: {message}")))?;
    let (file, layer) = file(&context.loaded.inputs, args.system)?;
    let mut removed = 0;
    // A missing file is not created just to remove a limit from it.
    if file.exists() {
        edit(&file, layer, context, |document| {
            removed = quota::remove(document, &subject, args.measure, per);
            Ok(())
        })
        .map_err(|failure| Failure {
            message: format!("nothing was removed: {}", failure.message),
            ..failure
        })?;
    }
    if removed == 0 {
        let problem = format!("no such limit in {}", file.display());
        let elsewhere = "`gua quota show` and `gua config show` list all, with their files";
        bail!(Failure::failed(problem).hint(elsewhere));
    }
    let limits = counted(removed as u64, "limit");
    output::data(&format!("removed {limits} from {}\n", file.display()))
}

const TERMS: [Term; 4] = [
    Term::Rolling(Duration::from_secs(3600)),
    Term::Day,
    Term::Week,
    Term::Month,
];

/// Shows percentages as gpu_stats defines them.
fn percentages(args: &QuotaShowArgs, context: &Context) -> anyhow::Result<()> {
    let now = clock::now();
    let zone = zone(args.tz.as_deref(), context.zone())?;
    let history = location::access(&context.announced_history(), context.settings())?;
    let periods = TERMS.map(|term| window(term, args.ago, now, &zone));
    let answer = history.percentages(PercentQuestion {
        periods: periods.to_vec(),
        zone: zone.clone(),
    })?;
    let is_cut = |kept: &Timestamp| periods.iter().any(|period| *kept > period.from());
    if let Some(kept) = answer.kept_from.filter(is_cut) {
        output::eprint(&format!(
            "gua quota: single ticks are kept from {} on; percentages do not include older ticks\n",
            kept.to_zoned(zone.clone()).strftime("%Y-%m-%d %H:%M")
        ));
    }
    let terms: Vec<(Term, Percentages)> = TERMS.into_iter().zip(answer.periods).collect();
    let table = page::percentages(&terms, args.user.as_deref());
    output::data(&match args.format.wanted() {
        TableFormat::Text if table.rows.is_empty() => match args.ago {
            0 => "no GPU was held this month\n".to_owned(),
            _ => "no GPU was held in these periods\n".to_owned(),
        },
        TableFormat::Text => table.text(0),
        TableFormat::Csv => csv(&table),
        TableFormat::Json => page::percentages_json(table, now, &zone),
    })
}

/// The current period of a term, up to now, or the one that many periods before it.
fn window(term: Term, ago: u32, now: Timestamp, zone: &TimeZone) -> Period {
    let mut period = term.period(now, zone);
    if ago == 0 {
        return Period::new(period.from(), now);
    }
    for _ in 0..ago {
        // A calendar period contains its own start, but not its end.
        let before = match term {
            Term::Rolling(_) => period.from(),
            _ => period.from() - SignedDuration::from_micros(1),
        };
        period = term.period(before, zone);
    }
    period
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn earlier_periods_are_whole_ones() {
        let now: Timestamp = "2026-03-04T10:30:00Z".parse().unwrap();
        let check = |term: Term, ago: u32, from: &str, to: &str| {
            let found = window(term, ago, now, &TimeZone::UTC);
            let expected = [from, to].map(|text| format!("2026-{text}Z").parse().unwrap());
            assert_eq!([found.from(), found.to()], expected, "{term:?} {ago}");
        };
        let hour = TERMS[0];
        check(hour, 0, "03-04T09:30:00", "03-04T10:30:00");
        check(hour, 1, "03-04T08:30:00", "03-04T09:30:00");
        check(Term::Day, 0, "03-04T00:00:00", "03-04T10:30:00");
        check(Term::Day, 1, "03-03T00:00:00", "03-04T00:00:00");
        check(Term::Week, 1, "02-23T00:00:00", "03-02T00:00:00");
        check(Term::Month, 1, "02-01T00:00:00", "03-01T00:00:00");
        check(Term::Month, 2, "01-01T00:00:00", "02-01T00:00:00");
    }
}

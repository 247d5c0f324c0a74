//! `gua quota`: limits on GPU use, and how much of them is used. The rules are in gua-model, the amounts are those of
//! `gua report`, and the limits are in the configuration.

mod percent;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use gua_collector::location;
use gua_collector::quota::Accounts;
use gua_model::Pid;
use gua_model::chain::chain;
use gua_model::quota::{Limit, Measure, NoForecast, Sharing, Standing, Subject};
use gua_model::text::{counted, sanitize};
use gua_probe::clock;
use gua_probe::process::{Passwd, ProcRoot, ProcessTable, is_group, is_user};
use gua_query::PersonQuestion;
use gua_query::words::zone;
use gua_render::quota as page;
use gua_render::table::csv;
use gua_settings::edit::{Document, EditError, change};
use gua_settings::kind::Home;
use gua_settings::quota::{self, Quota};
use gua_settings::{Inputs, Layer, Source};
use jiff::tz::TimeZone;

use crate::balance;
use crate::cli::{
    QuotaCommand, QuotaFormula, QuotaRemoveArgs, QuotaSetArgs, QuotaShowArgs, QuotaSubjectArgs,
    TableFormat,
};
use crate::context::Context;
use crate::failure::{Exit, Failure};
use crate::output;

pub fn run(command: &QuotaCommand, context: &Context) -> anyhow::Result<ExitCode> {
    match command {
        QuotaCommand::Set(args) => set(args, context)?,
        QuotaCommand::Remove(args) => remove(args, context)?,
        QuotaCommand::Show(args) if args.formula == QuotaFormula::Percent => {
            percent::run(args, context)?;
        }
        QuotaCommand::Show(args) if args.ago > 0 => {
            return Err(Failure::usage("--ago is only for --formula percent")
                .hint("`gua statement --month YYYY-MM` shows an earlier month against the limits")
                .into());
        }
        QuotaCommand::Show(args) => {
            let accounts = accounts(args, context)?;
            if args.format.wanted() == TableFormat::Text && accounts.standings.is_empty() {
                output::data(&nothing(args, context))?;
            } else {
                print(&accounts.standings, args, &accounts)?;
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
    let mut table = ProcessTable::new(ProcRoot::default(), Passwd::System);
    let own = table.resolve(Pid(std::process::id())).ok();
    let Some(owner) = own.and_then(|own| own.owner()) else {
        output::eprint(&format!(
            "{prefix}: no limit was checked: the owner of this process is unknown\n"
        ));
        return Ok(());
    };
    let name = owner.who.shown().into_owned();
    let (zone, now) = (TimeZone::system(), clock::now());
    let accounts = Accounts::of::<anyhow::Error>(
        &context.loaded,
        |layer| location::to_refuse(&context.loaded, layer),
        &zone,
        now,
    )?;
    balance::warn(prefix, &accounts.unbalanced);
    let standings = accounts.of_person(&name)?;
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

/// Prints how many limits cannot be evaluated, if there are any.
fn print_unjudged(standings: &[Standing], prefix: &str) {
    let number = standings.iter().filter(|one| !one.is_judged()).count();
    let why = "cannot be evaluated: measurements are missing";
    print_unless_zero(number, why, prefix);
}

fn print_unless_zero(number: usize, sentence: &str, prefix: &str) {
    if number > 0 {
        let limits = counted(u64::try_from(number).unwrap_or(u64::MAX), "limit");
        output::eprint(&format!("{prefix}: {limits} {sentence}\n"));
    }
}

/// Prints users over a limit and limits that cannot be evaluated; exits with 1 if there are any.
fn check(args: &QuotaShowArgs, forecast: bool, context: &Context) -> anyhow::Result<ExitCode> {
    if args.formula == QuotaFormula::Percent {
        let problem = "`check` does not support --formula percent";
        return Err(Failure::usage(problem)
            .hint("`gua quota show --formula percent`")
            .into());
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
            let limits = u64::try_from(context.settings().quotas.len()).unwrap_or(u64::MAX);
            let limits = counted(limits, "limit");
            output::data(&format!("nobody is over a limit; {limits} checked\n"))?;
        }
        _ => print(&found, args, &accounts)?,
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
    match &args.user {
        Some(user) => format!("no limit applies to {}\n", sanitize(user)),
        None => "no limit has any use yet\n".to_owned(),
    }
}

/// Returns the requested limits with their use. Problems with the limits themselves are printed.
fn accounts(args: &QuotaShowArgs, context: &Context) -> anyhow::Result<Accounts> {
    let zone = zone(args.tz.as_deref(), TimeZone::system())?;
    let db = |layer| location::for_limits(&context.loaded, layer);
    let mut accounts = Accounts::of::<anyhow::Error>(&context.loaded, db, &zone, clock::now())?;
    for note in &accounts.notes {
        output::eprint(&format!("gua quota: {note}\n"));
    }
    if let Some(user) = &args.user {
        accounts.standings = accounts.of_person(user)?;
    }
    Ok(accounts)
}

fn print(standings: &[Standing], args: &QuotaShowArgs, accounts: &Accounts) -> anyhow::Result<()> {
    let zone = zone(args.tz.as_deref(), TimeZone::system())?;
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
    let mut limits = Vec::new();
    for (measure, text) in asked {
        let Some(text) = text else {
            continue;
        };
        let most = quota::amount(measure, text)
            .map_err(|message| Failure::usage(format!("--{}: {message}", measure.as_str())))?;
        limits.push(Limit {
            subject: subject.clone(),
            sharing,
            measure,
            per,
            most,
        });
    }
    let file = file(&context.loaded.inputs, args.system)?;
    edit(&file, context, |document| {
        let mut limits = limits.iter();
        limits.try_for_each(|limit| quota::set(document, limit))
    })?;
    let mut text = String::new();
    for limit in &limits {
        text.push_str(&format!("{}\n", sentence(limit)));
    }
    text.push_str(&format!("  in {}\n", file.display()));
    output::data(&text)?;
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
fn file(inputs: &Inputs, system: bool) -> Result<PathBuf, Failure> {
    if system {
        return Ok(inputs.system_file.clone());
    }
    let mut candidates = inputs.candidates().into_iter();
    let own = candidates.find(|candidate| candidate.path != inputs.system_file);
    own.map(|candidate| candidate.path).ok_or_else(|| {
        Failure::usage("the home directory is unknown").hint("set HOME, or pass --system")
    })
}

fn edit(
    file: &Path,
    context: &Context,
    edit: impl FnOnce(&mut Document) -> Result<(), EditError>,
) -> Result<(), Failure> {
    let home = Home(context.loaded.inputs.home.clone());
    change(file, &home, edit).map_err(|error| match error {
        EditError::InlineArray { .. } => Failure::usage(error.to_string()),
        error => Failure::failed(chain(&error)),
    })
}

/// Rejects an unknown name: a limit for a misspelled name would never apply.
fn refuse_unknown(subject: &Subject, context: &Context) -> Result<(), Failure> {
    let (kind, name, is_known) = match subject {
        Subject::Everyone => return Ok(()),
        Subject::User(name) => ("user", name, is_user(name)),
        Subject::Group(name) => ("group", name, is_group(name)),
    };
    // A directory service that does not answer is no reason to refuse.
    if is_known.unwrap_or(true) {
        return Ok(());
    }
    if kind == "user" && is_in_history(name, context) {
        return Ok(());
    }
    let name = sanitize(name);
    let problem = match kind {
        "group" => format!("unknown group `{name}`"),
        _ => format!("unknown user `{name}`: neither on this host nor in the history"),
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
    let file = file(&context.loaded.inputs, args.system)?;
    let mut removed = 0;
    // A missing file is not created just to remove a limit from it.
    if file.exists() {
        edit(&file, context, |document| {
            removed = quota::remove(document, &subject, args.measure, per);
            Ok(())
        })
        .map_err(|failure| Failure {
            message: format!("nothing was removed: {}", failure.message),
            ..failure
        })?;
    }
    match removed {
        0 => {
            let problem = format!("no such limit in {}", file.display());
            let elsewhere = "`gua quota show` and `gua config show` list all, with their files";
            Err(Failure::failed(problem).hint(elsewhere).into())
        }
        1 => output::data(&format!("removed 1 limit from {}\n", file.display())),
        more => output::data(&format!("removed {more} limits from {}\n", file.display())),
    }
}

//! `gua plot`: one chart of a report as a picture, as text, or as its numbers.

use std::path::Path;

use gua_files::Over;
use gua_model::CalendarUnit;
use gua_model::report::{Cross, unbalanced};
use gua_query::Detail;
use gua_render::chart::{Theme, to_png};
use gua_render::report::plot::{Appearance, Kind, Plot, Whose};
use gua_render::report::{By, Page, Words};

use super::report::members;
use crate::commands::prelude::*;
use crate::page_file::write_new;

/// Default width of a picture in pixels, and of text in columns without a terminal.
const PIXELS: u32 = 960;
const COLUMNS: usize = 100;
/// Maximum number of columns; more would be narrower than a pixel.
const MAX_COLUMNS: usize = 800;

pub fn run(args: &PlotArgs, context: &Context) -> anyhow::Result<ExitCode> {
    let (kind, unit) = choose(args)?;
    let form = form(args)?;
    // Checked before the work, which may take long.
    if let Some(path) = file(args) {
        page_file::refuse_existing(path, Over::of(args.overwrite))?;
    }
    let words = Words {
        since: args.since.clone(),
        until: args.until.clone(),
        user: args.user.clone(),
        gpus: args.gpu.clone(),
        tz: args.tz.clone(),
        detail: Detail::Charts,
        ..Words::default()
    };
    let mut asked = words.ask(&context.zone(), context.now())?;
    asked.question.cross = kind.cross();
    asked.question.unit = unit;
    asked.question.workloads = args.by.and_then(By::workload);
    let mut report = context.ask(|source| source.report(&asked.question))?;
    if let Some(group) = args.by.and_then(By::group) {
        let members = members(&report.people, group, context)?;
        report.regroup(|name| members.of(name));
    } else if asked.question.workloads.is_some() {
        report.people.clone_from(&report.groups);
    }
    if kind.cross() == Some(Cross::Slot) && report.slots.len() > MAX_COLUMNS {
        let problem = format!(
            "--per: the window has {} columns of time, but a chart can show at most {MAX_COLUMNS}",
            report.slots.len()
        );
        bail!(Failure::usage(problem).hint("use a coarser --per or a shorter window"));
    }
    let page = Page {
        top: args.top,
        language: context.language(args.lang),
        by: args.by,
        ..asked.page(&report, VERSION)
    };
    let plot = Plot::new(&page, kind).titled(args.title.clone());
    write(args, form, &plot)?;
    let left_out = unbalanced(&report.notes);
    Ok(balance::exit_code("gua plot", left_out, &args.strict))
}

fn write(args: &PlotArgs, form: PlotFormat, plot: &Plot) -> anyhow::Result<()> {
    let file = file(args);
    let theme = match (args.theme, form) {
        (Theme::Auto, PlotFormat::Svg) => Theme::Auto,
        (Theme::Auto, _) => Theme::Light,
        (given, _) => given,
    };
    let look = Appearance {
        theme,
        width: args.width.unwrap_or(PIXELS),
    };
    let bytes = match form {
        PlotFormat::Svg => plot.svg(look).into_bytes(),
        PlotFormat::Png => to_png(&plot.svg(look), f32::from(args.scale))?,
        PlotFormat::Json => plot.json().into_bytes(),
        PlotFormat::Csv => csv(plot.numbers()).into_bytes(),
        PlotFormat::Text => {
            let text = plot.text(columns(args));
            match file {
                None => return output::data(&text),
                Some(_) => anstream::adapter::strip_str(&text).to_string().into_bytes(),
            }
        }
    };
    match file {
        Some(path) => Ok(write_new(path, &bytes, Over::of(args.overwrite))?),
        None if form == PlotFormat::Png && output::is_terminal() => {
            let hint = "-o FILE.png writes it to a file, --term draws here";
            bail!(Failure::usage("cannot write a PNG to a terminal").hint(hint))
        }
        None => output::raw(&bytes),
    }
}

/// The file to write; `None` is stdout.
fn file(args: &PlotArgs) -> Option<&Path> {
    let named = args.output.as_deref();
    named.filter(|path| *path != Path::new("-"))
}

fn columns(args: &PlotArgs) -> usize {
    let wanted = args.width.and_then(|width| usize::try_from(width).ok());
    wanted.or_else(output::columns).unwrap_or(COLUMNS)
}

/// The given format, else by the file extension, else text.
fn form(args: &PlotArgs) -> Result<PlotFormat, Failure> {
    if args.term {
        return Ok(PlotFormat::Text);
    }
    if let Some(form) = args.format {
        return Ok(form);
    }
    let Some(path) = file(args) else {
        return Ok(PlotFormat::Text);
    };
    by_extension(path)
}

/// Chart that the flags select, and the unit into which the window is divided for it.
fn choose(args: &PlotArgs) -> Result<(Kind, Option<CalendarUnit>), Failure> {
    let whose = args.by.map(|by| match by {
        By::Gpu => Whose::Gpu,
        _ => Whose::User,
    });
    let unit = args.per.and_then(unit);
    let by_week = args.per == Some(PlotPer::WeekdayHour);
    let chart = args.chart.unwrap_or(match (whose, args.per) {
        (None, None) => PlotChart::States,
        (Some(_), None) => PlotChart::Hours,
        (None, Some(PlotPer::WeekdayHour)) | (Some(_), Some(_)) => PlotChart::Heat,
        (None, Some(_)) => PlotChart::States,
    });
    let refuse = |problem: &str, hint: &str| Err(Failure::usage(problem).hint(hint));
    if args.by.and_then(By::workload).is_some() && chart != PlotChart::Hours {
        return refuse(
            "jobs, pods and containers are summed from sessions and have the chart `hours` alone",
            "use `gua plot hours --by job`, or `--by group`, which every chart with rows has",
        );
    }
    let kind = match chart {
        PlotChart::States if whose.is_some() => {
            return refuse(
                "`states` shows all GPUs together and does not support --by",
                "select with --gpu and --user, or use `gua plot heat`, which has a row for each",
            );
        }
        PlotChart::States if by_week => {
            return refuse(
                "`states` does not support --per weekday-hour",
                "use `gua plot heat --per weekday-hour` or `gua plot quiet`",
            );
        }
        PlotChart::States => Kind::States,
        PlotChart::Heat => match (whose, unit) {
            (None, None) => Kind::Heat(None),
            (Some(whose), None) => Kind::Heat(Some((whose, Cross::WeekHour))),
            (Some(whose), Some(_)) => Kind::Heat(Some((whose, Cross::Slot))),
            (None, Some(_)) => {
                return refuse(
                    "a heat map over time needs --by",
                    "pass --by gpu or --by user, or --per weekday-hour for the hours of the week",
                );
            }
        },
        PlotChart::Hours | PlotChart::Sessions | PlotChart::Quiet if args.per.is_some() => {
            return refuse(
                "this chart does not support --per",
                "leave --per out, or use `gua plot heat`",
            );
        }
        PlotChart::Hours => Kind::Hours(whose.unwrap_or(Whose::User)),
        PlotChart::Sessions => Kind::Sessions(whose.unwrap_or(Whose::Gpu)),
        PlotChart::Quiet => Kind::Quiet(whose),
    };
    Ok((kind, unit))
}

fn unit(per: PlotPer) -> Option<CalendarUnit> {
    match per {
        PlotPer::Hour => Some(CalendarUnit::Hour),
        PlotPer::Day => Some(CalendarUnit::Day),
        PlotPer::Week => Some(CalendarUnit::Week),
        PlotPer::Month => Some(CalendarUnit::Month),
        PlotPer::WeekdayHour => None,
    }
}

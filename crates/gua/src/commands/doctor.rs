//! `gua doctor`: shows what gua can see on this host, and what prevents it from collecting. It changes nothing, and
//! contacts only the board of an enrolled host. The checks are those of `gua_probe::doctor`.

use gua_collector::bundle::Bundle;
use gua_collector::doctor::{json, known, named_library};
use gua_probe::doctor::page::{self, Contents, Layout};
use gua_probe::doctor::{self, checks, plan};
use gua_probe::host::HostRoot;
use gua_probe::host::time::ticks_per_second;
use gua_render::listing::ListDocument;
use gua_render::listing::row::{Terms, rows};
use gua_render::listing::text::{Detail, Options, text as gpu_table};

use crate::commands::prelude::*;

/// Examines this host and prints the findings. They are a failure only with `--strict`.
pub fn run(args: &DoctorArgs, context: &Context) -> anyhow::Result<ExitCode> {
    if args.sample {
        output::raw(sample(context)?.as_bytes())?;
        return Ok(ExitCode::SUCCESS);
    }
    if let Some(path) = args.bundle.as_ref().filter(|path| path.is_file()) {
        let problem = format!("cannot write `{}`: the file already exists", path.display());
        bail!(Failure::usage(problem).hint("remove it, or name another file: --bundle FILE"));
    }
    let facts = doctor::gather(&HostRoot::real(), known(&context.loaded), || {
        context.sample()
    });
    let checks = checks::all(&facts);
    if let Some(path) = &args.bundle {
        let bundle = Bundle::new(&context.loaded, &facts, &checks);
        bundle
            .archive()
            .and_then(|bytes| gua_files::replace(path, &bytes, 0o600))
            .map_err(Failure::cannot("write", path))?;
        output::data(&format!("{}:\n{}", path.display(), bundle.listing()))?;
        return Ok(ExitCode::SUCCESS);
    }
    let plan = plan::plan(&facts, &checks);
    let terms = Terms {
        thresholds: context.settings().thresholds(),
        ticks_per_second: ticks_per_second(),
    };
    let sample = facts.driver.as_ref().ok();
    let gpus = sample.map(|sample| (sample, rows(sample, &terms, None)));
    if args.json {
        let listed = gpus.map(|(sample, rows)| {
            ListDocument::new(sample, &rows, Some("not read"), terms.ticks_per_second).gpus
        });
        output::raw(json(&facts, &checks, &plan, listed).as_bytes())?;
    } else {
        let layout = output::width().map_or(Layout::Lines, Layout::Columns);
        let table = gpus.filter(|(_, rows)| !rows.is_empty());
        let table = table.map_or_else(String::new, |(sample, rows)| {
            let options = Options {
                width: layout.table_width(),
                detail: Detail::WithoutCommands,
                ticks_per_second: terms.ticks_per_second,
                commands: &|_, _| None,
            };
            gpu_table(sample, &rows, options)
        });
        let look = Contents {
            layout,
            gpus: &table,
            style: gua_render::paint::style,
        };
        output::data(&page::text(&facts, &checks, &plan, look))?;
    }
    let is_fine = !args.strict || plan::is_sound(&plan, &checks);
    Ok(success_or(Exit::Failed, is_fine))
}

/// One sample for a program or a bug report. Mistakes in the configuration are an error here, because the thresholds in
/// force would not be the intended ones.
fn sample(context: &Context) -> anyhow::Result<String> {
    if let Some(first) = context.loaded.problems.first() {
        bail!(
            Failure::usage(format!("the configuration has mistakes: {first}"))
                .hint("`gua config check` lists every mistake")
        );
    }
    let library = named_library(context.settings());
    let sample =
        context
            .sample()
            .map_err(|fault| match doctor::absent(&fault, library.as_ref()) {
                Some(library) => Failure::failed(library.problem())
                    .hint(format!("correct {} or unset it", library.source))
                    .into(),
                None => anyhow::Error::from(fault),
            })?;
    let thresholds = context.settings().thresholds();
    Ok(gua_render::sample::json(&sample, &thresholds))
}

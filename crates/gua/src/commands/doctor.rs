//! `gua doctor`: shows what gua can see on this host, and what prevents it from collecting. It changes nothing, and
//! contacts only the board of an enrolled host. The checks are those of `gua_probe::doctor`.

use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use gua_collector::board::cloud_file::LoadError;
use gua_collector::board::{CallError, EnrolmentError, Limits, setup};
use gua_collector::claims;
use gua_collector::python_collector::python_writer;
use gua_compat::gpu_usage_audit::rows_inside;
use gua_model::chain::chain;
use gua_probe::doctor::check::Check;
use gua_probe::doctor::facts::{
    Answer, Choice, Enrolled, Fault, HistoryKind, Known, Link, NamedLibrary, PidSetting,
};
use gua_probe::doctor::page::{self, Layout, Look};
use gua_probe::doctor::plan::{self, Commands, Plan};
use gua_probe::doctor::{self, LIMIT, checks, within};
use gua_probe::host::HostRoot;
use gua_probe::host::time::ticks_per_second;
use gua_render::document::sorted;
use gua_render::listing::row::{Terms, rows};
use gua_render::listing::text::{Detail, Options, text as gpu_table};
use gua_render::listing::{ListDocument, ListEntry};
use gua_settings::kind::Home;
use gua_settings::{FileState, Settings, Source};
use gua_store::{FileKind, what_is_this};
use gua_wire::server_url::Scheme;
use schemars::JsonSchema;
use serde::Serialize;

use crate::cli::DoctorArgs;
use crate::context::Context;
use crate::failure::{Exit, Failure, success_or};
use crate::output;

/// Time limits of the board.
const BOARD_LIMITS: Limits = Limits {
    connect: Duration::from_secs(3),
    silence: Duration::from_secs(3),
    whole: Duration::from_secs(5),
};

/// Format name of [`DoctorDocument`].
pub const SCHEMA: &str = "gua.doctor.v1";

/// What `gua doctor --json` prints. Keys may be added under the same version; none changes its meaning.
#[derive(Debug, Serialize, JsonSchema)]
pub struct DoctorDocument<'a> {
    schema_version: u32,
    /// When this host was examined, in its time zone.
    generated_at: String,
    scope: Scope,
    read_only: bool,
    no_system_changes: bool,
    checks: &'a [Check],
    /// The GPUs as in `gua list --json`, without leases; null if the driver cannot be read.
    gpus: Option<Vec<ListEntry>>,
    plan: &'a Plan,
    recommended_commands: &'a Commands,
}

/// What is examined.
#[derive(Debug, Serialize, JsonSchema)]
struct Scope {
    machine: &'static str,
}

/// Examines this host and prints the findings. They are a failure only with `--strict`.
pub fn run(args: &DoctorArgs, context: &Context) -> anyhow::Result<ExitCode> {
    if args.sample {
        output::raw(sample(context)?.as_bytes())?;
        return Ok(ExitCode::SUCCESS);
    }
    let facts = doctor::gather(&HostRoot::real(), known(context), || context.sample());
    let checks = checks::all(&facts);
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
        output::raw(
            sorted(&DoctorDocument {
                schema_version: 1,
                generated_at: facts.now.strftime("%Y-%m-%dT%H:%M:%S%.6f%:z").to_string(),
                scope: Scope { machine: "local" },
                read_only: true,
                no_system_changes: true,
                checks: &checks,
                gpus: listed,
                plan: &plan,
                recommended_commands: &plan.commands,
            })
            .as_bytes(),
        )?;
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
        let look = Look {
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
        return Err(
            Failure::usage(format!("the configuration has mistakes: {first}"))
                .hint("`gua config check` lists every mistake")
                .into(),
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

/// The facts that the settings and the other crates know.
fn known(context: &Context) -> Known {
    let settings = context.settings();
    let pids = &settings.driver.pids;
    let db = settings.history.db.value.clone();
    Known {
        search_path: context
            .loaded
            .inputs
            .variable("PATH")
            .map(ToOwned::to_owned),
        configuration: context
            .loaded
            .problems
            .iter()
            .map(ToString::to_string)
            .collect(),
        unreadable_files: unreadable_files(context),
        claims: claims::directory(settings)
            .map(|dir| dir.path().to_owned())
            .map_err(|error| chain(&error)),
        link: link(context),
        choice: choice(&db, context.loaded.inputs.home.as_deref()),
        history: history_kind(&db),
        python_writer: python_writer(&HostRoot::real(), &db),
        read_elsewhere: Some(context.history()).filter(|read| *read != db),
        db,
        driver_pids: PidSetting {
            value: pids.value,
            source: (pids.source != Source::Default).then(|| pids.source.to_string()),
        },
        library: named_library(settings),
    }
}

fn history_kind(db: &Path) -> HistoryKind {
    match what_is_this(db) {
        FileKind::GpuUsageAudit => HistoryKind::Old,
        FileKind::OurHistory { .. } => match rows_inside(db) {
            Ok(rows @ 1..) => HistoryKind::OursWithOldRows(rows),
            _ => HistoryKind::Ours,
        },
        kind @ (FileKind::NewerHistory { .. } | FileKind::OtherSqlite | FileKind::NotSqlite) => {
            HistoryKind::Other(kind.to_string())
        }
        _ => HistoryKind::Ours,
    }
}

/// Contacts the board if this host is enrolled.
fn link(context: &Context) -> Link {
    let path = context.settings().cloud.config.value.clone();
    let mut enrolment = setup::enrolment(&context.loaded);
    if !enrolment.file().exists() {
        return Link::NotEnrolled;
    }
    let enrolled = match enrolment.current() {
        Ok(enrolled) => enrolled,
        Err(error) => {
            return Link::Unusable {
                path,
                why: chain(&error),
                fault: match error {
                    EnrolmentError::Load(LoadError::Invalid { .. }) => Fault::Contents,
                    EnrolmentError::Load(_) => Fault::Unreadable,
                    EnrolmentError::Endpoint(_) => Fault::Endpoint,
                },
            };
        }
    };
    let mode = std::fs::metadata(&path).ok().map(|facts| facts.mode());
    let url = &enrolled.config.server_url;
    let named = setup::named(&enrolled);
    let is_exposed = url.scheme() == Scheme::Http && !url.is_loopback();
    let asked = Arc::clone(&enrolled);
    let answer = within(BOARD_LIMITS.whole + LIMIT, move || {
        asked.client.check(&asked.config, BOARD_LIMITS)
    });
    let answer = match answer {
        None => Answer::None("no response in time".to_owned()),
        Some(Ok(())) => Answer::Accepted,
        Some(Err(CallError::Refused {
            status: 401 | 403, ..
        })) => Answer::Denied,
        // A board without an archive answers, but does not know this request.
        Some(Err(CallError::Refused {
            status: 404 | 405, ..
        })) => Answer::Unverified,
        Some(Err(error)) => Answer::None(chain(&error)),
    };
    Link::Enrolled(Enrolled {
        path,
        named,
        mode,
        is_exposed,
        answer,
    })
}

/// The library that a setting names, if it is not the default one.
fn named_library(settings: &Settings) -> Option<NamedLibrary> {
    let setting = &settings.driver.library;
    let source = match &setting.source {
        Source::Default => return None,
        Source::Environment(name) => (*name).to_owned(),
        other => other.to_string(),
    };
    let path = setting.value.clone();
    if path == Settings::defaults(&Home(None)).driver.library.value {
        return None;
    }
    Some(NamedLibrary {
        exists: doctor::exists(&path),
        path: path.to_string_lossy().into_owned(),
        source,
    })
}

/// Configuration files that this user may not read.
fn unreadable_files(context: &Context) -> Vec<PathBuf> {
    use rustix::fs::{Access, access};
    let files = context.loaded.files.iter();
    let faulty = files.filter(|file| file.state == FileState::Faulty);
    faulty
        .filter(|file| access(&file.path, Access::READ_OK) == Err(rustix::io::Errno::ACCESS))
        .map(|file| file.path.clone())
        .collect()
}

/// Whether a path is the default one. Components are compared as text: `//` and `/./` are ignored, links and `..` are
/// not resolved.
fn choice(path: &Path, home: Option<&Path>) -> Choice {
    match home.map(gua_settings::default_db) {
        Some(default) if default == path => Choice::Default,
        _ => Choice::Custom,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_published_schema_is_that_of_the_type() {
        let schema = gua_render::schemas::named::<DoctorDocument<'_>>(SCHEMA).1;
        gua_test::schema::assert_published(SCHEMA, &gua_render::document::pretty(&schema));
    }

    #[test]
    fn the_default_path_is_recognized_by_its_text() {
        let check = |path: &str, expected| {
            assert_eq!(
                choice(Path::new(path), Some(Path::new("/home/ada"))),
                expected,
                "{path}"
            );
        };
        check("/home/ada/.gua/gua.db", Choice::Default);
        check("/home//ada/./.gua/gua.db", Choice::Default);
        check("/home/ada/../ada/.gua/gua.db", Choice::Custom);
        check("/home/bob/.gua/gua.db", Choice::Custom);
        check("gua.db", Choice::Custom);
        assert_eq!(choice(Path::new("/x"), None), Choice::Custom);
    }
}

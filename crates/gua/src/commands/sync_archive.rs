//! `gua sync-archive`: uploads closed days of the history to the board. The history is only read.

use std::ops::ControlFlow;
use std::path::Path;

use gua_collector::board::archive::open_day;
use gua_collector::board::{Archive, ArchiveState, Archived, Enrolled, LinkFiles, Task, setup};
use gua_compat::gpu_usage_audit::{OldFile, OldForm};
use gua_store::{FileKind, History, what_is_this};
use gua_wire::users::UserPolicy;

use crate::commands::prelude::*;

pub fn run(context: &Context) -> anyhow::Result<()> {
    let enrolled = setup::enrolled(&context.loaded)?;
    let db = context.history_to_open()?;
    if what_is_this(&db) == FileKind::Missing {
        bail!(location::no_history(&db));
    }
    let users = setup::users(context.settings())?;
    let days = context.settings().cloud.archive_days.value;
    let files = setup::link_files(&context.loaded, &db);
    let archived = upload(&enrolled, (&db, &files), &users, days)?;
    output::data(&format!("gua sync-archive: {}\n", archived.summary(days)))
}

/// Uploads at most once a day, for `sync-once`. Does nothing without a history.
pub(super) fn upload_daily(
    enrolled: &Enrolled,
    (db, files): (&Path, &LinkFiles),
    users: &UserPolicy,
    retention_days: u32,
) -> anyhow::Result<Option<Archived>> {
    let task = Task::new(&enrolled.config, open_day(clock::now()), retention_days);
    if what_is_this(db) == FileKind::Missing || ArchiveState::is_done(files, &task) {
        return Ok(None);
    }
    upload(enrolled, (db, files), users, retention_days).map(Some)
}

fn upload(
    enrolled: &Enrolled,
    (db, files): (&Path, &LinkFiles),
    users: &UserPolicy,
    retention_days: u32,
) -> anyhow::Result<Archived> {
    let history = match what_is_this(db) {
        FileKind::GpuUsageAudit => OldForm::theirs(OldFile::open(db)?),
        _ => OldForm::ours(History::open(db)?)?,
    };
    let today = open_day(clock::now());
    let archive = Archive {
        enrolled,
        history: &history,
        users,
        today,
        retention_days,
    };
    let archived = Bar::during("uploading the archive", |bar| {
        archive.upload(&mut |share| {
            bar.share(share);
            ControlFlow::Continue(())
        })
    });
    let task = Task::new(&enrolled.config, today, retention_days);
    ArchiveState::record(files, &task, clock::now(), &archived);
    Ok(archived?)
}

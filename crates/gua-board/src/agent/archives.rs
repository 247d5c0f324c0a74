//! Archive files: closed days of a host's history as compressed CSV. The board keeps them as they are.

use axum::Json;
use axum::body::Body;
use gua_board_store::ledger::ArchiveName;
use gua_wire::archive::Table;
use jiff::civil::Date;
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};

use super::contract::invalid;
use crate::access::AgentCaller;
use crate::call::Call;
use crate::error::Problem;
use crate::request::read_body;

/// Maximum size of a file. A day of a large host has a few megabytes.
const MAX_BYTES: usize = 64 << 20;
/// First bytes of a gzip file.
const GZIP: [u8; 2] = [0x1f, 0x8b];
/// Oldest day that is accepted: a host cannot fill the disk with invented days.
const OLDEST_DAYS: i64 = 3660;

#[derive(Serialize)]
pub(crate) struct Listing {
    archives: Vec<Entry>,
}

#[derive(Serialize)]
struct Entry {
    date: String,
    table: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Upload {
    date: String,
    table: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct Prune {
    older_than_days: u32,
}

#[derive(Serialize)]
pub(crate) struct Stored {
    status: &'static str,
}

#[derive(Serialize)]
pub(crate) struct Pruned {
    deleted: usize,
}

pub(crate) fn list_archives(call: &Call) -> Result<Json<Listing>, Problem> {
    let agent = call.extension::<AgentCaller>();
    let names = call.app.ledger.archives(&agent.host.id)?;
    let entry = |name: ArchiveName| Entry {
        date: name.day_text(),
        table: name.table,
    };
    Ok(Json(Listing {
        archives: names.into_iter().map(entry).collect(),
    }))
}

pub(crate) async fn put_archive(call: Call, body: Body) -> Result<Json<Stored>, Problem> {
    let (app, now) = (&call.app, call.app.now());
    let upload: Upload = call.query()?;
    let name = archive_name(&upload, now)?;
    let _permit = app.uploads.acquire().await.map_err(|_| Problem::Stopping)?;
    let content = read_body(body, MAX_BYTES).await?;
    if !content.starts_with(&GZIP) {
        return Err(invalid("the body is not a gzip file"));
    }
    let host = call.extension::<AgentCaller>().host.id.clone();
    app.blocking(move |app| app.ledger.put_archive(&host, &name, &content, now))
        .await?;
    Ok(Json(Stored { status: "stored" }))
}

pub(crate) fn prune_archives(call: &Call) -> Result<Json<Pruned>, Problem> {
    let days = i64::from(call.query::<Prune>()?.older_than_days);
    let before = today(call.app.now()).saturating_sub(SignedDuration::from_hours(24 * days));
    let agent = call.extension::<AgentCaller>();
    let deleted = call.app.ledger.prune_archives(&agent.host.id, before)?;
    Ok(Json(Pruned { deleted }))
}

fn today(now: Timestamp) -> Date {
    now.to_zoned(TimeZone::UTC).date()
}

fn archive_name(upload: &Upload, now: Timestamp) -> Result<ArchiveName, Problem> {
    let mut tables = Table::DAILY.into_iter().chain(Table::WHOLE);
    let table = tables.find(|table| table.as_str() == upload.table);
    let table = table.ok_or_else(|| invalid("table is not one of the archived tables"))?;
    let day = match upload.date.as_str() {
        ArchiveName::FULL => None,
        text => {
            let day: Option<Date> = text
                .parse()
                .ok()
                .filter(|_| text.len() == "2026-01-02".len());
            let day = day.ok_or_else(|| invalid("date is neither YYYY-MM-DD nor _full"))?;
            let age = today(now).duration_since(day);
            // The host's clock may be ahead by a day at most.
            let day_length = SignedDuration::from_hours(24);
            if age < -day_length
                || age > day_length * i32::try_from(OLDEST_DAYS).expect("ten years")
            {
                return Err(invalid("date is in the future or more than ten years ago"));
            }
            Some(day)
        }
    };
    Ok(ArchiveName {
        day,
        table: table.to_string(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_named_by_a_known_table_and_a_plausible_day() {
        let now = "2026-06-15T12:00:00Z".parse().unwrap();
        let check = |date: &str, table: &str, expected: bool| {
            let upload = Upload {
                date: date.to_owned(),
                table: table.to_owned(),
            };
            assert_eq!(
                archive_name(&upload, now).is_ok(),
                expected,
                "{date} {table}"
            );
        };
        check("2026-06-14", "gpu_sample", true);
        check("_full", "daemon_run", true);
        check("2026-06-16", "proc_sample", true);
        check("2026-06-17", "proc_sample", false);
        check("2016-01-01", "proc_sample", false);
        check("../../etc", "gpu_sample", false);
        check("20260614", "gpu_sample", false);
        check("2026-06-14", "host", false);
    }
}

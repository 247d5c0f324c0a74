//! Stored sessions. The rows cover all ticks before the watermark; later ticks are folded on demand.
//!
//! When retention deletes ticks, sessions that ended in them become final. Sessions that continue are stored twice: as
//! of the watermark, and as of the first remaining tick. Folding again starts with the latter, so that no tick is
//! counted twice.

use std::collections::HashMap;

use gua_model::{
    Bytes, Centipercent, ContainerOwners, GpuUuid, Micros, Owner, OwnerKey, OwnerSource, Period,
    Reading, Session, SessionKey, SessionOutline, Sessions, Thresholds, User, UtilSum, sane,
};
use gua_query::records::SessionVisitor;
use rusqlite::{Connection, Row, params, params_from_iter};

use crate::codec::bytes::KINDS;
use crate::codec::wire::{code_of, coded};
use crate::error::ReadError;
use crate::fold::{Step, tick_from, walk};
use crate::history::at;
use crate::lookup::{Catalogue, process_key, reason, to_reading, workload};
use crate::names;
use crate::sql::{self, undamaged};
use crate::store::{meta, set_meta};

/// A session and the id of its row.
#[derive(Debug)]
pub(crate) struct Stored {
    pub(crate) row: i64,
    pub(crate) session: Session,
}

/// Columns of a [`SessionOutline`], which follow the ids of the session and its GPU. A report reads only these of most sessions.
const OUTLINE: &str = "began, ended, peak, util";

/// Columns of a whole session. `util` is not among them, because it is computed from others.
const WHOLE: &str = "id, card, began, ended, peak, peak_missing, observed, own_sum, own_known, card_sum, card_known, boot, pid,
    start, kind, parent, owner, job_user, owner_source, comm, comm_missing, ticks, active, idle_held, shared, open, container, container_name, pod, pod_name, job, assigned, by_name";

/// GPU of a session; NULL if a column that the outline lacks is damaged. The index `session_outline` has the same expression.
const CHECKED_CARD: &str =
    "CASE WHEN length(boot) = 16 AND pid BETWEEN 0 AND 4294967295 AND kind BETWEEN 0 AND 2
    AND (peak IS NULL) = (peak_missing <> 0) THEN card END";

/// Set when the clock was set back to before the watermark: the rows no longer match the ticks.
pub(crate) const STALE: &str = "sessions_stale";

/// Key of the first tick that is not included in the rows of [`Part::Horizon`]; if it is unset, no tick is included.
const SESSIONS_FROM: &str = "sessions_from";

/// Ticks that a row covers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    /// All ticks before the watermark. The row can be computed again.
    Watermark = 0,
    /// Final: the session ended in ticks that retention has deleted.
    Settled = 1,
    /// Open in the last tick that retention has deleted, and accounted for up to the first remaining one.
    Horizon = 2,
}

/// Passes on the finished sessions that overlap `[from, to)`, as of the watermark. Returns the sessions that may continue, and the
/// number of damaged rows. If the rows do not match the ticks, the ticks are folded instead.
pub(crate) fn base(
    connection: &Connection,
    thresholds: Thresholds,
    watermark: i64,
    window: Period,
    visitor: &mut dyn SessionVisitor,
) -> Result<(Vec<Stored>, u32), ReadError> {
    if meta(connection, STALE)? == Some(1) {
        let mut over = |session: &Session| offer(session, window, visitor);
        return Ok((from_ticks(connection, thresholds, watermark, &mut over)?, 0));
    }
    let (from, to) = sane::bounds(window);
    // Rows of [`Part::Horizon`] are open.
    let which = "open = 0 AND ended >= ?1 AND began < ?2";
    let mut damaged = match visitor.selects() {
        true => selected(connection, which, &[from, to], visitor)?,
        false => each(connection, which, &[from, to], |stored| {
            visitor.session(&stored.session);
        })?,
    };
    let mut open = Vec::new();
    damaged += each(connection, "part <> 2 AND open = 1", &[], |stored| {
        open.push(stored);
    })?;
    Ok((open, damaged))
}

/// Passes on the sessions that the visitor wants by their outline. Returns the number of damaged rows.
fn selected(
    connection: &Connection,
    which: &str,
    values: &[i64],
    visitor: &mut dyn SessionVisitor,
) -> Result<u32, ReadError> {
    let outlines = format!("SELECT id, {CHECKED_CARD}, {OUTLINE} FROM session WHERE {which}");
    let mut catalogue = Catalogue::new(connection);
    let mut wanted = Vec::new();
    let mut damaged = rows(&mut catalogue, &outlines, values, |row, catalogue| {
        let outline = outline(row, catalogue)?;
        if visitor.wants(&outline) {
            wanted.push((row.get(0)?, outline.period));
        }
        Ok(())
    })?;
    let whole = format!("SELECT {WHOLE} FROM session WHERE id = ?1");
    for (id, period) in wanted {
        if visitor.still_wants(period) {
            damaged += rows(&mut catalogue, &whole, &[id], |row, catalogue| {
                visitor.session(&from_row(row, catalogue)?.session);
                Ok(())
            })?;
        }
    }
    Ok(damaged)
}

/// Passes a session on if it overlaps the window.
pub(crate) fn offer(session: &Session, window: Period, visitor: &mut dyn SessionVisitor) {
    let is_inside = session.from < window.to() && session.to >= window.from();
    if is_inside && visitor.wants(&session.outline()) {
        visitor.session(session);
    }
}

/// Returns only the sessions that may continue.
pub(crate) fn open_ones(connection: &Connection) -> Result<Vec<Stored>, ReadError> {
    select(connection, "part = 0 AND open = 1")
}

fn select(connection: &Connection, which: &str) -> Result<Vec<Stored>, ReadError> {
    let mut found = Vec::new();
    each(connection, which, &[], |stored| found.push(stored))?;
    Ok(found)
}

/// Calls `give` with the undamaged rows, and returns the number of the others.
fn each(
    connection: &Connection,
    which: &str,
    values: &[i64],
    mut give: impl FnMut(Stored),
) -> Result<u32, ReadError> {
    let sql = format!("SELECT {WHOLE} FROM session WHERE {which}");
    rows(
        &mut Catalogue::new(connection),
        &sql,
        values,
        |row, catalogue| {
            give(from_row(row, catalogue)?);
            Ok(())
        },
    )
}

/// Calls `read` with every row, and returns the number of rows that it finds damaged.
fn rows(
    catalogue: &mut Catalogue<'_>,
    sql: &str,
    values: &[i64],
    mut read: impl FnMut(&Row<'_>, &mut Catalogue<'_>) -> Result<(), ReadError>,
) -> Result<u32, ReadError> {
    let mut damaged = 0;
    sql::each(
        catalogue.connection(),
        sql,
        params_from_iter(values),
        |row| {
            damaged += u32::from(undamaged(read(row, catalogue))?.is_none());
            Ok::<_, ReadError>(())
        },
    )?;
    Ok(damaged)
}

/// Sessions folded from the ticks of `[horizon, to)`, starting with the sessions of the horizon.
struct Replayed {
    over: Vec<Session>,
    fold: Sessions,
}

/// Folds the remaining ticks before `to`. Ticks before the horizon came too late to be counted, as in the totals. With
/// `last`, the spans of the last tick are added: the tick that follows it ends them.
fn replay(
    connection: &Connection,
    thresholds: Thresholds,
    to: i64,
    last: LastSpans,
) -> Result<Replayed, ReadError> {
    let horizon = select(connection, "part = 2")?;
    let from = match meta(connection, SESSIONS_FROM)? {
        Some(from) => from,
        None => tick_from(connection, i64::MIN)?.unwrap_or(to),
    };
    let mut over = Vec::new();
    let mut fold = Sessions::new(thresholds, horizon.into_iter().map(|stored| stored.session));
    let mut begun = false;
    walk(connection, thresholds, (from, to), |step| {
        match step {
            Step::Tick { at, .. } if at < from => {}
            Step::Tick { tick, at, closed } if at < to => {
                // Spans that the first tick closes are already included in the rows.
                over.extend(fold.push(tick, if begun { closed } else { &[] }));
                begun = true;
            }
            Step::Tick { closed, .. } if begun && last == LastSpans::Added => fold.account(closed),
            Step::Tick { .. } | Step::End { .. } => {}
        }
        Ok(())
    })?;
    Ok(Replayed { over, fold })
}

/// Whether the spans of the last tick of a fold are included in its sessions; otherwise the next tick adds them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum LastSpans {
    Added,
    ToCome,
}

/// Folds all remaining ticks before the watermark.
fn from_ticks(
    connection: &Connection,
    thresholds: Thresholds,
    watermark: i64,
    over: &mut dyn FnMut(&Session),
) -> Result<Vec<Stored>, ReadError> {
    let replayed = replay(connection, thresholds, watermark, LastSpans::ToCome)?;
    each(connection, "part = 1", &[], |stored| over(&stored.session))?;
    replayed.over.iter().for_each(over);
    let unstored = |session: Session| Stored { row: 0, session };
    Ok(replayed.fold.open().cloned().map(unstored).collect())
}

/// Rewrites all sessions after the clock was set back, so that the rows match the ticks again.
pub(crate) fn mend(
    connection: &Connection,
    thresholds: Thresholds,
    watermark: i64,
) -> Result<(), ReadError> {
    if meta(connection, STALE)? != Some(1) {
        return Ok(());
    }
    let replayed = replay(connection, thresholds, watermark, LastSpans::ToCome)?;
    sql::run(connection, "DELETE FROM session WHERE part = 0", [])?;
    for session in replayed.over.iter().chain(replayed.fold.open()) {
        save(connection, None, session, Part::Watermark)?;
    }
    set_meta(connection, STALE, 0)?;
    Ok(())
}

/// Moves the horizon to `end`, before retention deletes the ticks before `end`. The ticks from `end` on must exist.
pub(crate) fn move_horizon(
    connection: &Connection,
    thresholds: Thresholds,
    end: i64,
) -> Result<(), ReadError> {
    let from = meta(connection, SESSIONS_FROM)?;
    let Some(next) =
        tick_from(connection, end)?.filter(|next| from.is_none_or(|from| from < *next))
    else {
        return Ok(());
    };
    let replayed = replay(connection, thresholds, end, LastSpans::Added)?;
    for session in &replayed.over {
        let key = &session.key;
        sql::run(
            connection,
            "DELETE FROM session WHERE part = 0 AND start = ?1 AND pid = ?2 AND boot = ?3
             AND card = (SELECT id FROM card WHERE uuid = ?4) AND open = 0 AND began <= ?5 AND ended >= ?6",
            params![
                key.process.start.0.cast_signed(),
                key.process.pid.0,
                key.process.boot.0.to_be_bytes(),
                key.gpu.as_str(),
                session.to.as_microsecond(),
                session.from.as_microsecond(),
            ],
        )?;
        save(connection, None, session, Part::Settled)?;
    }
    sql::run(connection, "DELETE FROM session WHERE part = 2", [])?;
    for session in replayed.fold.open() {
        save(connection, None, session, Part::Horizon)?;
    }
    set_meta(connection, SESSIONS_FROM, next)?;
    Ok(())
}

/// Finds rows with impossible values: more time observed than elapsed, overlapping sessions of one process on one GPU, or
/// values that gua never stores.
pub(crate) fn impossible(connection: &Connection, most: usize) -> Result<Vec<String>, ReadError> {
    // Rows that are due to be folded again need not match the ticks.
    if meta(connection, STALE)? == Some(1) {
        return Ok(Vec::new());
    }
    let sql = format!(
        "SELECT {WHOLE}, part <> 2, ifnull(lag(ended) OVER
         (PARTITION BY boot, pid, start, card, part = 2 ORDER BY began, ended) > began, 0), util FROM session ORDER BY id"
    );
    let mut catalogue = Catalogue::new(connection);
    let mut found = Vec::new();
    sql::each(connection, &sql, [], |row| {
        if found.len() >= most {
            return Ok(());
        }
        let id: i64 = row.get(0)?;
        let mut wrong = |what: &str| found.push(format!("session {id} {what}"));
        // The result is `None` if one of the columns is not an integer.
        let times = || Ok((row.get::<_, i64>(2)?, row.get::<_, i64>(3)?));
        let times = undamaged(times())?;
        let is_sane = |time: i64| sane::time(time).is_some();
        let has_absurd_time =
            times.is_some_and(|(began, ended)| !is_sane(began) || !is_sane(ended));
        let is_counted: bool = row.get(33)?;
        if has_absurd_time {
            wrong("has an impossible time");
        }
        if let Some((began, ended)) = times.filter(|_| is_counted) {
            let observed = undamaged(row.get::<_, i64>(6).map_err(ReadError::from))?;
            if observed.is_some_and(|observed| observed > ended.saturating_sub(began)) {
                wrong("was observed for longer than it lasted");
            }
        }
        if is_counted && row.get(34)? {
            wrong("begins before the previous one ends");
        }
        if has_absurd_time {
            return Ok(());
        }
        let stored = undamaged(row.get::<_, Option<u32>>(35).map_err(ReadError::from))?;
        match undamaged(from_row(row, &mut catalogue))? {
            None => wrong("has an impossible value"),
            Some(found) if stored != Some(mean_util(&found.session)) => {
                wrong("has a utilisation that does not match its sums");
            }
            Some(_) => {}
        }
        Ok::<_, ReadError>(())
    })?;
    found.truncate(most);
    Ok(found)
}

/// Sessions that continue from their rows.
#[derive(Debug)]
pub(crate) struct Growing {
    fold: Sessions,
    rows: HashMap<SessionKey, i64>,
    over: Vec<(Option<i64>, Session)>,
}

impl Growing {
    pub(crate) fn new(thresholds: Thresholds, open: Vec<Stored>) -> Self {
        let rows = open.iter().filter(|stored| stored.row != 0);
        let rows = rows
            .map(|stored| (stored.session.key.clone(), stored.row))
            .collect();
        let sessions = open.into_iter().map(|stored| stored.session);
        Self {
            fold: Sessions::new(thresholds, sessions),
            rows,
            over: Vec::new(),
        }
    }

    pub(crate) fn push(&mut self, tick: &gua_model::Tick, closed: &[gua_model::Span]) {
        for session in self.fold.push(tick, closed) {
            let row = self.rows.remove(&session.key);
            self.over.push((row, session));
        }
    }

    pub(crate) fn account(&mut self, closed: &[gua_model::Span]) {
        self.fold.account(closed);
    }

    pub(crate) fn save(&self, connection: &Connection) -> rusqlite::Result<()> {
        for (row, session) in &self.over {
            save(connection, *row, session, Part::Watermark)?;
        }
        for session in self.fold.open() {
            let row = self.rows.get(&session.key).copied();
            save(connection, row, session, Part::Watermark)?;
        }
        Ok(())
    }

    pub(crate) fn into_sessions(self) -> Vec<Session> {
        let over = self.over.into_iter().map(|(_, session)| session);
        over.chain(self.fold.open().cloned()).collect()
    }
}

fn save(
    connection: &Connection,
    row: Option<i64>,
    session: &Session,
    part: Part,
) -> rusqlite::Result<()> {
    let first_seen = session.from.as_microsecond();
    let person = |user: &User| names::person(connection, user, first_seen).map(u64::cast_signed);
    let owner = match &session.owner {
        Some(owner) => names::owner(connection, &owner.who, first_seen)?,
        None => None,
    };
    let gpu = |uuid: &GpuUuid| names::gpu(connection, uuid, 0).map(u64::cast_signed);
    let number = |value: u64| i64::try_from(value).unwrap_or(i64::MAX);
    let wide = |value: u128| i64::try_from(value).unwrap_or(i64::MAX);
    let key = &session.key;
    let workload = &session.workload;
    sql::run(
        connection,
            "INSERT OR REPLACE INTO session VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15,
             ?16, ?17, ?18, ?19, ?20, ?21, ?22, ?23, ?24, ?25, ?26, ?27, ?28, ?29, ?30, ?31, ?32, ?33, ?34, ?35)",
        params![
            row,
            gpu(&key.gpu)?,
            session.parent.as_ref().map(gpu).transpose()?,
            key.process.boot.0.to_be_bytes(),
            key.process.pid.0,
            key.process.start.0.cast_signed(),
            owner.map(u64::cast_signed),
            session.owner.as_ref().map(|owner| owner.source.as_str()),
            session.comm.as_ref().ok(),
            reason(&session.comm),
            workload.container.as_ref().map(|name| name.as_str()),
            workload.pod.as_ref().map(|name| name.as_str()),
            workload.job.as_ref().map(|name| name.as_str()),
            workload.user.as_ref().map(person).transpose()?,
            code_of(&KINDS, &session.kind),
            session.from.as_microsecond(),
            session.to.as_microsecond(),
            number(session.ticks),
            number(session.observed.0),
            number(session.active.0),
            number(session.idle_held.0),
            wide(session.own_util.sum),
            number(session.own_util.known.0),
            wide(session.gpu_util.sum),
            number(session.gpu_util.known.0),
            session.peak_memory.ok().map(|bytes| bytes.0.cast_signed()),
            reason(&session.peak_memory),
            session.shared,
            session.open,
            part as i64,
            workload.container_name,
            workload.pod_name,
            workload.assigned,
            workload.containers == ContainerOwners::Name,
            mean_util(session),
        ],
    )?;
    Ok(())
}

/// Content of the column `util`.
fn mean_util(session: &Session) -> Option<u32> {
    session.util().map(|(util, _)| util.0)
}

fn outline<'gpus>(
    row: &Row<'_>,
    catalogue: &'gpus mut Catalogue<'_>,
) -> Result<SessionOutline<'gpus>, ReadError> {
    Ok(SessionOutline {
        gpu: gpu(catalogue, row.get(1)?)?,
        period: Period::new(at(row.get(2)?)?, at(row.get(3)?)?),
        util: row.get::<_, Option<u32>>(5)?.map(Centipercent),
        peak_memory: row.get::<_, Option<i64>>(4)?.map(bytes),
    })
}

fn peak(row: &Row<'_>) -> Result<Reading<Bytes>, ReadError> {
    let peak = to_reading(row.get(5)?, row.get::<_, Option<i64>>(4)?);
    let peak = peak.ok_or(ReadError::Value("reason"))?;
    Ok(peak.map(bytes))
}

fn bytes(stored: i64) -> Bytes {
    Bytes(stored.cast_unsigned())
}

fn sum(row: &Row<'_>, column: usize) -> rusqlite::Result<u64> {
    row.get::<_, i64>(column).map(i64::unsigned_abs)
}

fn util(row: &Row<'_>, column: usize) -> rusqlite::Result<UtilSum> {
    Ok(UtilSum {
        sum: sum(row, column)?.into(),
        known: Micros(sum(row, column + 1)?),
    })
}

fn gpu<'gpus>(catalogue: &'gpus mut Catalogue<'_>, id: i64) -> Result<&'gpus GpuUuid, ReadError> {
    let gpu = catalogue.gpu(id.cast_unsigned())?;
    gpu.ok_or(ReadError::Value("GPU"))
}

fn from_row(row: &Row<'_>, catalogue: &mut Catalogue<'_>) -> Result<Stored, ReadError> {
    let key = SessionKey {
        gpu: gpu(catalogue, row.get(1)?)?.clone(),
        process: process_key(row, 11)?,
    };
    let kind = coded(&KINDS, row.get(14)?, "kind of process");
    let parent: Option<i64> = row.get(15)?;
    let parent = parent.map(|id| gpu(catalogue, id).cloned()).transpose()?;
    let mut owner = |column: usize| -> Result<Option<OwnerKey>, ReadError> {
        let Some(id) = row.get::<_, Option<i64>>(column)? else {
            return Ok(None);
        };
        let owner = catalogue.owner(id.cast_unsigned())?;
        owner.cloned().ok_or(ReadError::Value("owner")).map(Some)
    };
    let (owner, job_user) = (owner(16)?, owner(17)?);
    let owner = match (owner, row.get::<_, Option<String>>(18)?) {
        (Some(who), Some(word)) => Some(Owner {
            who,
            source: source(&word)?,
        }),
        _ => None,
    };
    let user = match job_user {
        Some(OwnerKey::User(user)) => Some(user),
        _ => None,
    };
    let comm = to_reading(row.get(20)?, row.get(19)?);
    let session = Session {
        key,
        parent,
        owner,
        comm: comm.ok_or(ReadError::Value("reason"))?,
        workload: workload(row, 26, user)?,
        kind: kind.map_err(|_| ReadError::Value("kind of process"))?,
        from: at(row.get(2)?)?,
        to: at(row.get(3)?)?,
        ticks: sum(row, 21)?,
        observed: Micros(sum(row, 6)?),
        active: Micros(sum(row, 22)?),
        idle_held: Micros(sum(row, 23)?),
        own_util: util(row, 7)?,
        gpu_util: util(row, 9)?,
        peak_memory: peak(row)?,
        shared: row.get(24)?,
        open: row.get(25)?,
    };
    Ok(Stored {
        row: row.get(0)?,
        session,
    })
}

fn source(word: &str) -> Result<OwnerSource, ReadError> {
    let known = OwnerSource::ALL
        .into_iter()
        .find(|source| source.as_str() == word);
    known.ok_or(ReadError::Value("source of an owner"))
}

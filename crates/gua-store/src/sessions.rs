//! Stored sessions. The rows cover all ticks before the watermark; later ticks are folded on demand.
//!
//! When retention deletes ticks, sessions that ended in them become final. Sessions that continue are stored twice: as
//! of the watermark, and as of the first remaining tick. Folding again starts with the latter, so that no tick is
//! counted twice.

use std::collections::HashMap;

use gua_model::{
    BootId, Bytes, ContainerOwners, GpuUuid, Micros, Missing, Owner, OwnerKey, OwnerSource, Pid,
    ProcessKey, ProcessKind, Reading, Session, SessionKey, Sessions, StartTicks, Thresholds, User,
    UtilSum, Workload, sane,
};
use rusqlite::{Connection, OptionalExtension as _, Row, params, params_from_iter};

use crate::error::ReadError;
use crate::fold::{Step, tick_from, walk};
use crate::history::at;
use crate::lookup::{containers, reason, to_reason};
use crate::names;
use crate::sql::undamaged;
use crate::store::{meta, set_meta};

/// A session and the id of its row.
#[derive(Debug)]
pub(crate) struct Stored {
    pub(crate) row: i64,
    pub(crate) session: Session,
}

const COLUMNS: &str =
    "SELECT id, card, parent, boot, pid, start, owner, job_user, owner_source, comm, comm_missing,
    container, pod, job, kind, began, ended, ticks, observed, active, idle_held, own_sum, own_known, card_sum, card_known,
    peak, peak_missing, shared, open, container_name, pod_name, assigned, by_name FROM session";

/// Ids of the GPUs and users of sessions, each looked up once.
#[derive(Debug, Default)]
struct Names {
    cards: HashMap<i64, GpuUuid>,
    owners: HashMap<i64, OwnerKey>,
}

impl Names {
    fn card(&mut self, connection: &Connection, id: i64) -> Result<GpuUuid, ReadError> {
        if let Some(card) = self.cards.get(&id) {
            return Ok(card.clone());
        }
        let text: Option<String> = connection
            .prepare_cached("SELECT uuid FROM card WHERE id = ?1")?
            .query_row([id], |row| row.get(0))
            .optional()?;
        let card = text.and_then(|text| text.parse::<GpuUuid>().ok());
        let card = card.ok_or(ReadError::Value("GPU"))?;
        self.cards.insert(id, card.clone());
        Ok(card)
    }

    fn owner(&mut self, connection: &Connection, id: i64) -> Result<OwnerKey, ReadError> {
        if let Some(owner) = self.owners.get(&id) {
            return Ok(owner.clone());
        }
        let found = connection
            .prepare_cached("SELECT kind, uid, name FROM owner WHERE id = ?1")?
            .query_row([id], |row| {
                Ok(names::owner_from(row.get(0)?, row.get(1)?, row.get(2)?))
            })
            .optional()?;
        let owner = found.flatten().ok_or(ReadError::Value("owner"))?;
        self.owners.insert(id, owner.clone());
        Ok(owner)
    }
}

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
    (from, to): (i64, i64),
    over: &mut dyn FnMut(&Session),
) -> Result<(Vec<Stored>, u32), ReadError> {
    if meta(connection, STALE)? == Some(1) {
        return Ok((from_ticks(connection, thresholds, watermark, over)?, 0));
    }
    let which = "part <> 2 AND open = 0 AND ended >= ?1 AND began < ?2";
    let mut names = Names::default();
    let mut damaged = each(connection, which, &[from, to], &mut names, |stored| {
        over(&stored.session);
    })?;
    let mut open = Vec::new();
    damaged += each(
        connection,
        "part <> 2 AND open = 1",
        &[],
        &mut names,
        |stored| {
            open.push(stored);
        },
    )?;
    Ok((open, damaged))
}

/// Returns only the sessions that may continue.
pub(crate) fn open_ones(connection: &Connection) -> Result<Vec<Stored>, ReadError> {
    select(connection, "part = 0 AND open = 1")
}

fn select(connection: &Connection, which: &str) -> Result<Vec<Stored>, ReadError> {
    let mut found = Vec::new();
    let mut names = Names::default();
    each(connection, which, &[], &mut names, |stored| {
        found.push(stored);
    })?;
    Ok(found)
}

/// Calls `give` with the undamaged rows, and returns the number of the others.
fn each(
    connection: &Connection,
    which: &str,
    values: &[i64],
    names: &mut Names,
    mut give: impl FnMut(Stored),
) -> Result<u32, ReadError> {
    let mut statement = connection.prepare_cached(&format!("{COLUMNS} WHERE {which}"))?;
    let mut rows = statement.query(params_from_iter(values))?;
    let mut damaged = 0;
    while let Some(row) = rows.next()? {
        match undamaged(from_row(row, connection, names))? {
            Some(stored) => give(stored),
            None => damaged += 1,
        }
    }
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
    let mut names = Names::default();
    each(connection, "part = 1", &[], &mut names, |stored| {
        over(&stored.session);
    })?;
    replayed.over.iter().for_each(over);
    let anew = |session: Session| Stored { row: 0, session };
    Ok(replayed.fold.open().cloned().map(anew).collect())
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
    connection.execute("DELETE FROM session WHERE part = 0", [])?;
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
        connection
            .prepare_cached(
                "DELETE FROM session WHERE part = 0 AND start = ?1 AND pid = ?2 AND boot = ?3
                 AND card = (SELECT id FROM card WHERE uuid = ?4) AND began <= ?5 AND ended >= ?6",
            )?
            .execute(params![
                key.process.start.0.cast_signed(),
                key.process.pid.0,
                key.process.boot.0.to_be_bytes(),
                key.gpu.as_str(),
                session.to.as_microsecond(),
                session.from.as_microsecond(),
            ])?;
        save(connection, None, session, Part::Settled)?;
    }
    connection
        .prepare_cached("DELETE FROM session WHERE part = 2")?
        .execute([])?;
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
    let mut statement = connection.prepare(
        "SELECT id, began, ended, observed,
         ifnull(lag(ended) OVER (PARTITION BY boot, pid, start, card ORDER BY began, ended) > began, 0)
         FROM session WHERE part <> 2 ORDER BY id",
    )?;
    let mut rows = statement.query([])?;
    let mut found = Vec::new();
    while let Some(row) = rows.next()? {
        let id: i64 = row.get(0)?;
        if let Some((began, ended)) = times(row, [1, 2])? {
            if sane::time(began).is_none() || sane::time(ended).is_none() {
                found.push(format!("session {id} has a time that cannot be true"));
            }
            let observed = undamaged(row.get::<_, i64>(3).map_err(ReadError::from))?;
            if observed.is_some_and(|observed| observed > ended.saturating_sub(began)) {
                found.push(format!(
                    "session {id} was observed for longer than it lasted"
                ));
            }
        }
        if row.get(4)? {
            found.push(format!("session {id} begins while the one before it lasts"));
        }
        if found.len() >= most {
            return Ok(found);
        }
    }
    let mut statement = connection.prepare(COLUMNS)?;
    let mut rows = statement.query([])?;
    let mut names = Names::default();
    while let Some(row) = rows.next()? {
        // Rows with an impossible time are already in the list.
        let is_listed = times(row, [15, 16])?.is_some_and(|(began, ended)| {
            sane::time(began).is_none() || sane::time(ended).is_none()
        });
        if !is_listed && undamaged(from_row(row, connection, &mut names))?.is_none() {
            let id: i64 = row.get(0)?;
            found.push(format!("session {id} holds a value that cannot be true"));
        }
        if found.len() >= most {
            break;
        }
    }
    Ok(found)
}

/// Reads the times of a session; `None` if one of them is not an integer.
fn times(row: &Row<'_>, [began, ended]: [usize; 2]) -> Result<Option<(i64, i64)>, ReadError> {
    let read = || Ok((row.get(began)?, row.get(ended)?));
    undamaged(read())
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
    let card = |uuid: &GpuUuid| names::card(connection, uuid, 0).map(u64::cast_signed);
    let number = |value: u64| i64::try_from(value).unwrap_or(i64::MAX);
    let wide = |value: u128| i64::try_from(value).unwrap_or(i64::MAX);
    let key = &session.key;
    let workload = &session.workload;
    connection
        .prepare_cached(
            "INSERT OR REPLACE INTO session VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15,
             ?16, ?17, ?18, ?19, ?20, ?21, ?22, ?23, ?24, ?25, ?26, ?27, ?28, ?29, ?30, ?31, ?32, ?33, ?34)",
        )?
        .execute(params![
            row,
            card(&key.gpu)?,
            session.parent.as_ref().map(card).transpose()?,
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
            kind_code(session.kind),
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
        ])?;
    Ok(())
}

fn from_row(
    row: &Row<'_>,
    connection: &Connection,
    names: &mut Names,
) -> Result<Stored, ReadError> {
    let id = |column: usize| row.get::<_, Option<i64>>(column);
    let name = |column: usize| row.get::<_, Option<String>>(column);
    let sum = |column: usize| row.get::<_, i64>(column).map(i64::unsigned_abs);
    let util = |column: usize| -> rusqlite::Result<UtilSum> {
        Ok(UtilSum {
            sum: sum(column)?.into(),
            known: Micros(sum(column + 1)?),
        })
    };
    let mut owner = |column: usize| -> Result<Option<OwnerKey>, ReadError> {
        let id = id(column)?;
        id.map(|id| names.owner(connection, id)).transpose()
    };
    let (owner, job_user) = (owner(6)?, owner(7)?);
    let word = row
        .get_ref(8)?
        .as_str_or_null()
        .map_err(rusqlite::Error::from)?;
    let owner = match (owner, word) {
        (Some(who), Some(word)) => Some(Owner {
            who,
            source: source(word)?,
        }),
        _ => None,
    };
    let session = Session {
        key: SessionKey {
            gpu: names.card(connection, row.get(1)?)?,
            process: ProcessKey {
                boot: BootId(u128::from_be_bytes(row.get(3)?)),
                pid: Pid(row.get(4)?),
                start: StartTicks(row.get::<_, i64>(5)?.cast_unsigned()),
            },
        },
        parent: match id(2)? {
            Some(parent) => Some(names.card(connection, parent)?),
            None => None,
        },
        owner,
        comm: reading(row.get(10)?, name(9)?)?,
        workload: Workload {
            container: name(11)?.and_then(|text| text.parse().ok()),
            container_name: name(29)?,
            pod: name(12)?.and_then(|text| text.parse().ok()),
            pod_name: name(30)?,
            job: name(13)?.and_then(|text| text.parse().ok()),
            user: match job_user {
                Some(OwnerKey::User(user)) => Some(user),
                _ => None,
            },
            assigned: name(31)?,
            containers: containers(row.get(32)?),
        },
        kind: to_kind(row.get(14)?)?,
        from: at(row.get(15)?)?,
        to: at(row.get(16)?)?,
        ticks: sum(17)?,
        observed: Micros(sum(18)?),
        active: Micros(sum(19)?),
        idle_held: Micros(sum(20)?),
        own_util: util(21)?,
        gpu_util: util(23)?,
        peak_memory: reading(row.get(26)?, row.get::<_, Option<i64>>(25)?)?
            .map(|bytes| Bytes(bytes.cast_unsigned())),
        shared: row.get(27)?,
        open: row.get(28)?,
    };
    Ok(Stored {
        row: row.get(0)?,
        session,
    })
}

fn reading<T>(code: i64, value: Option<T>) -> Result<Reading<T>, ReadError> {
    match (to_reason(code), value) {
        (Some(Ok(())), Some(value)) => Ok(Ok(value)),
        (Some(Err(why)), _) => Ok(Err(why)),
        (Some(Ok(())), None) => Ok(Err(Missing::Failed)),
        (None, _) => Err(ReadError::Value("reason")),
    }
}

fn source(word: &str) -> Result<OwnerSource, ReadError> {
    let known = OwnerSource::ALL
        .into_iter()
        .find(|source| source.as_str() == word);
    known.ok_or(ReadError::Value("source of an owner"))
}

fn kind_code(kind: ProcessKind) -> i64 {
    match kind {
        ProcessKind::Compute => 0,
        ProcessKind::Graphics => 1,
        ProcessKind::Both => 2,
    }
}

fn to_kind(code: i64) -> Result<ProcessKind, ReadError> {
    match code {
        0 => Ok(ProcessKind::Compute),
        1 => Ok(ProcessKind::Graphics),
        2 => Ok(ProcessKind::Both),
        _ => Err(ReadError::Value("kind of process")),
    }
}

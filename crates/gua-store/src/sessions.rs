//! Sessions as rows. They stand for all ticks before the watermark; what came later is folded when it is asked for.

use std::collections::HashMap;

use gua_model::{
    BootId, Bytes, GpuUuid, Micros, Missing, Owner, OwnerSource, Pid, ProcessKey, ProcessKind,
    Reading, Session, SessionKey, Sessions, StartTicks, Thresholds, Uid, User, UtilSum, Workload,
};
use rusqlite::{Connection, Row, params};

use crate::error::ReadError;
use crate::fold::{Step, walk};
use crate::history::at;
use crate::lookup::{reason, to_reason};
use crate::names;
use crate::store::{meta, set_meta};

/// A session and the row that it stands in.
#[derive(Debug)]
pub(crate) struct Stored {
    pub(crate) row: i64,
    pub(crate) session: Session,
}

const COLUMNS: &str = "SELECT session.id, card.uuid, parent.uuid, boot, pid, start, owner.uid, owner.name, owner_source,
    comm, comm_missing, container, pod, job, job_user.uid, job_user.name, kind, began, ended, ticks, observed, active,
    idle_held, own_sum, own_known, card_sum, card_known, peak, peak_missing, shared, open
    FROM session JOIN card ON card.id = session.card LEFT JOIN card AS parent ON parent.id = session.parent
    LEFT JOIN person AS owner ON owner.id = session.owner LEFT JOIN person AS job_user ON job_user.id = session.job_user";

/// Set when the clock was set back to before the watermark: the rows then no longer fit to the ticks.
pub(crate) const STALE: &str = "sessions_stale";

/// Sessions as of a watermark: those that are over, and those that may go on.
#[derive(Debug, Default)]
pub(crate) struct Base {
    pub(crate) over: Vec<Stored>,
    pub(crate) open: Vec<Stored>,
}

/// The sessions that end at or after `from`, as of the watermark. Where the rows do not fit, the ticks are asked.
pub(crate) fn base(
    connection: &Connection,
    thresholds: Thresholds,
    watermark: i64,
    from: i64,
) -> Result<Base, ReadError> {
    if meta(connection, STALE)? == Some(1) {
        return from_ticks(connection, thresholds, watermark);
    }
    let mut base = Base::default();
    let mut statement =
        connection.prepare_cached(&format!("{COLUMNS} WHERE ended >= ?1 OR open = 1"))?;
    let mut rows = statement.query([from])?;
    while let Some(row) = rows.next()? {
        let stored = from_row(row)?;
        if stored.session.open {
            base.open.push(stored);
        } else {
            base.over.push(stored);
        }
    }
    Ok(base)
}

/// Only the sessions that may go on.
pub(crate) fn open_ones(connection: &Connection) -> Result<Vec<Stored>, ReadError> {
    let mut statement = connection.prepare_cached(&format!("{COLUMNS} WHERE open = 1"))?;
    let mut rows = statement.query([])?;
    let mut open = Vec::new();
    while let Some(row) = rows.next()? {
        open.push(from_row(row)?);
    }
    Ok(open)
}

/// Folds all ticks that are left before the watermark. Sessions that began before the first of them stay as they were
/// stored: their beginning cannot be folded again.
fn from_ticks(
    connection: &Connection,
    thresholds: Thresholds,
    watermark: i64,
) -> Result<Base, ReadError> {
    let first = crate::fold::tick_from(connection, i64::MIN)?.unwrap_or(watermark);
    let mut base = Base::default();
    let mut statement = connection.prepare_cached(&format!("{COLUMNS} WHERE began < ?1"))?;
    let mut rows = statement.query([first])?;
    while let Some(row) = rows.next()? {
        let stored = from_row(row)?;
        if stored.session.open {
            base.open.push(stored);
        } else {
            base.over.push(stored);
        }
    }
    let mut fold = Sessions::new(thresholds, []);
    let mut over = Vec::new();
    walk(connection, thresholds, (first, watermark), |step| {
        match step {
            Step::Tick { tick, at, closed } if at < watermark => {
                over.extend(fold.push(tick, closed));
            }
            Step::Tick { .. } | Step::End { .. } => {}
        }
        Ok(())
    })?;
    let is_kept = |session: &Session| {
        let mut kept = base.over.iter().chain(&base.open);
        kept.any(|stored| {
            stored.session.key == session.key
                && stored.session.to.max(session.from) == stored.session.to
        })
    };
    let anew = |session: Session| Stored { row: 0, session };
    let ended: Vec<_> = over
        .into_iter()
        .filter(|session| !is_kept(session))
        .map(anew)
        .collect();
    let open: Vec<_> = fold
        .open()
        .filter(|session| !is_kept(session))
        .cloned()
        .map(anew)
        .collect();
    base.over.extend(ended);
    base.open.extend(open);
    Ok(base)
}

/// Writes all sessions anew where the clock was set back, so that the rows fit to the ticks again.
pub(crate) fn mend(
    connection: &Connection,
    thresholds: Thresholds,
    watermark: i64,
) -> Result<(), ReadError> {
    if meta(connection, STALE)? != Some(1) {
        return Ok(());
    }
    let base = from_ticks(connection, thresholds, watermark)?;
    connection.execute("DELETE FROM session", [])?;
    for stored in base.over.iter().chain(&base.open) {
        save(connection, None, &stored.session)?;
    }
    set_meta(connection, STALE, 0)?;
    Ok(())
}

/// Sessions that are folded on from their rows.
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
            save(connection, *row, session)?;
        }
        for session in self.fold.open() {
            save(connection, self.rows.get(&session.key).copied(), session)?;
        }
        Ok(())
    }

    pub(crate) fn into_sessions(self) -> Vec<Session> {
        let over = self.over.into_iter().map(|(_, session)| session);
        over.chain(self.fold.open().cloned()).collect()
    }
}

fn save(connection: &Connection, row: Option<i64>, session: &Session) -> rusqlite::Result<()> {
    let person = |user: &User| names::person(connection, user).map(u64::cast_signed);
    let card = |uuid: &GpuUuid| names::card(connection, uuid, 0).map(u64::cast_signed);
    let number = |value: u64| i64::try_from(value).unwrap_or(i64::MAX);
    let wide = |value: u128| i64::try_from(value).unwrap_or(i64::MAX);
    let key = &session.key;
    let workload = &session.workload;
    connection
        .prepare_cached(
            "INSERT OR REPLACE INTO session VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15,
             ?16, ?17, ?18, ?19, ?20, ?21, ?22, ?23, ?24, ?25, ?26, ?27, ?28, ?29)",
        )?
        .execute(params![
            row,
            card(&key.gpu)?,
            session.parent.as_ref().map(card).transpose()?,
            key.process.boot.0.to_be_bytes(),
            key.process.pid.0,
            key.process.start.0.cast_signed(),
            session
                .owner
                .as_ref()
                .map(|owner| person(&owner.user))
                .transpose()?,
            session.owner.as_ref().map(|owner| owner.source.word()),
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
            wide(session.card_util.sum),
            number(session.card_util.known.0),
            session.peak_memory.ok().map(|bytes| bytes.0.cast_signed()),
            reason(&session.peak_memory),
            session.shared,
            session.open,
        ])?;
    Ok(())
}

fn from_row(row: &Row<'_>) -> Result<Stored, ReadError> {
    let uuid = |text: String| text.parse().map_err(|_| ReadError::Value("card"));
    let user = |uid: usize| -> rusqlite::Result<Option<User>> {
        let number: Option<u32> = row.get(uid)?;
        let name = row.get(uid + 1)?;
        Ok(number.map(|number| User {
            uid: Uid(number),
            name,
        }))
    };
    let name = |column: usize| row.get::<_, Option<String>>(column);
    let sum = |column: usize| row.get::<_, i64>(column).map(i64::unsigned_abs);
    let util = |column: usize| -> rusqlite::Result<UtilSum> {
        Ok(UtilSum {
            sum: sum(column)?.into(),
            known: Micros(sum(column + 1)?),
        })
    };
    let owner = match (user(6)?, name(8)?) {
        (Some(user), Some(word)) => Some(Owner {
            user,
            source: source(&word)?,
        }),
        _ => None,
    };
    let session = Session {
        key: SessionKey {
            gpu: uuid(row.get(1)?)?,
            process: ProcessKey {
                boot: BootId(u128::from_be_bytes(row.get(3)?)),
                pid: Pid(row.get(4)?),
                start: StartTicks(row.get::<_, i64>(5)?.cast_unsigned()),
            },
        },
        parent: name(2)?.map(uuid).transpose()?,
        owner,
        comm: reading(row.get(10)?, name(9)?)?,
        workload: Workload {
            container: name(11)?.and_then(|text| text.parse().ok()),
            pod: name(12)?.and_then(|text| text.parse().ok()),
            job: name(13)?.and_then(|text| text.parse().ok()),
            user: user(14)?,
        },
        kind: to_kind(row.get(16)?)?,
        from: at(row.get(17)?)?,
        to: at(row.get(18)?)?,
        ticks: sum(19)?,
        observed: Micros(sum(20)?),
        active: Micros(sum(21)?),
        idle_held: Micros(sum(22)?),
        own_util: util(23)?,
        card_util: util(25)?,
        peak_memory: reading(row.get(28)?, row.get::<_, Option<i64>>(27)?)?
            .map(|bytes| Bytes(bytes.cast_unsigned())),
        shared: row.get(29)?,
        open: row.get(30)?,
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
    const ALL: [OwnerSource; 5] = [
        OwnerSource::Login,
        OwnerSource::Process,
        OwnerSource::Job,
        OwnerSource::Pod,
        OwnerSource::Container,
    ];
    let known = ALL.into_iter().find(|source| source.word() == word);
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

//! Changing limits in a configuration file. Everything else in it stays as it is, comments too; a reader sees the old file
//! or the new one.

use std::fs;
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use gua_model::quota::{Limit, Measure, Sharing, Subject, Term};
use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;
use toml_edit::{ArrayOfTables, DocumentMut, Item, Table, Value};

use crate::config::kind::Home;
use crate::config::quota::{TABLE, amount_word, key, sharing_word, term, term_word, usual_sharing};
use crate::config::{Inputs, Settings, file as config_file};
use crate::failure::Failure;
use crate::whole_file::{Over, WholeFile};

/// The file that limits are written to: the host's, or the stronger one of the user.
pub(super) fn file(inputs: &Inputs, system: bool) -> Result<PathBuf, Failure> {
    if system {
        return Ok(inputs.system_file.clone());
    }
    let candidates = inputs.candidates();
    let own = candidates
        .iter()
        .find(|candidate| candidate.path != inputs.system_file);
    own.map(|candidate| candidate.path.clone()).ok_or_else(|| {
        Failure::usage("your home directory is not known").hint("set HOME, or give --system")
    })
}

/// Reads a file, lets `change` edit it, and writes it if it is still one that gua understands. Of several who change it at
/// once, each sees what the one before has written.
pub(super) fn change(
    path: &Path,
    inputs: &Inputs,
    change: impl FnOnce(&mut DocumentMut) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    // A link to a file elsewhere stays a link.
    let path = &path.canonicalize().unwrap_or_else(|_| path.to_owned());
    let cannot = |what: &str| format!("cannot {what} `{}`", path.display());
    if let Some(directory) = path.parent() {
        fs::create_dir_all(directory).with_context(|| cannot("make the directory of"))?;
    }
    let _lock = lock(path).with_context(|| cannot("write"))?;
    let (text, permissions) = match fs::read_to_string(path) {
        Ok(text) => {
            let facts = fs::metadata(path).with_context(|| cannot("read"))?;
            (text, Some(facts.permissions()))
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => (String::new(), None),
        Err(error) => return Err(error).with_context(|| cannot("read")),
    };
    let mut document: DocumentMut = text
        .parse()
        .with_context(|| format!("`{}` is not TOML and was not changed", path.display()))?;
    change(&mut document)?;
    let changed = document.to_string();
    if changed == text {
        return Ok(());
    }
    let home = Home(inputs.home.clone());
    let mut settings = Settings::defaults(&home);
    if let Some(problem) =
        config_file::apply(&mut settings, changed.as_bytes(), path, &home).first()
    {
        anyhow::bail!("the file was not changed: {problem}");
    }
    let write = || -> io::Result<()> {
        let whole = WholeFile::begin(path, Over::Write)?;
        if let Some(permissions) = permissions {
            whole.allow(permissions)?;
        }
        (&whole.file).write_all(changed.as_bytes())?;
        whole.finish()
    };
    write().with_context(|| cannot("write"))
}

/// The right to change a file, as long as what this returns lives. The file itself cannot be locked: it is another one
/// after each change.
fn lock(path: &Path) -> io::Result<fs::File> {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let file = fs::OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(false)
        .mode(0o600)
        .open(path.with_file_name(format!(".{name}.lock")))?;
    loop {
        match flock(&file, FlockOperation::LockExclusive) {
            Err(Errno::INTR) => {}
            locked => return locked.map(|()| file).map_err(io::Error::from),
        }
    }
}

/// Sets a limit: in the table that has the same subject and term, else in a new one.
pub(super) fn set(document: &mut DocumentMut, limit: &Limit) -> anyhow::Result<()> {
    let tables = tables(document)?;
    let wanted = (&limit.subject, limit.sharing, limit.per);
    let is_it = |table: &Table| {
        let (subject, sharing, per) = about(table);
        (&subject, sharing, per) == (wanted.0, wanted.1, Some(wanted.2))
    };
    let amount = amount_word(limit.measure, limit.most);
    if let Some(table) = tables.iter_mut().find(|table| is_it(table)) {
        put(table, key(limit.measure), &amount);
        return Ok(());
    }
    let mut table = Table::new();
    match &limit.subject {
        Subject::Everyone => {}
        Subject::User(name) => put(&mut table, "user", name),
        Subject::Group(name) => put(&mut table, "group", name),
    }
    if limit.sharing != usual_sharing(&limit.subject) {
        put(&mut table, "share", sharing_word(limit.sharing));
    }
    put(&mut table, key(limit.measure), &amount);
    put(&mut table, "per", &term_word(limit.per));
    tables.push(table);
    Ok(())
}

/// Removes limits and says how many there were.
pub(super) fn remove(
    document: &mut DocumentMut,
    subject: &Subject,
    measure: Option<Measure>,
    per: Option<Term>,
) -> usize {
    let Some(tables) = document
        .get_mut(TABLE)
        .and_then(Item::as_array_of_tables_mut)
    else {
        return 0;
    };
    let mut removed = 0;
    for table in tables.iter_mut() {
        let (of, _, its_per) = about(table);
        if of != *subject || per.is_some_and(|per| its_per != Some(per)) {
            continue;
        }
        for one in Measure::ALL {
            if measure.is_none_or(|measure| measure == one) {
                removed += usize::from(table.remove(key(one)).is_some());
            }
        }
    }
    let limits_nothing = |table: &Table| {
        Measure::ALL
            .iter()
            .all(|one| !table.contains_key(key(*one)))
    };
    tables.retain(|table| !limits_nothing(table));
    if tables.is_empty() {
        document.remove(TABLE);
    }
    removed
}

fn tables(document: &mut DocumentMut) -> anyhow::Result<&mut ArrayOfTables> {
    let empty = || Item::ArrayOfTables(ArrayOfTables::new());
    let item = document.entry(TABLE).or_insert_with(empty);
    item.as_array_of_tables_mut().ok_or_else(|| {
        let problem = format!("`{TABLE}` is written in one line; write each limit as [[{TABLE}]]");
        Failure::usage(problem).into()
    })
}

/// Whom and how long a table is about; a term that cannot be read is none.
fn about(table: &Table) -> (Subject, Sharing, Option<Term>) {
    let text = |key: &str| table.get(key).and_then(Item::as_str);
    let subject = match (text("user"), text("group")) {
        (Some(user), _) => Subject::User(user.to_owned()),
        (None, Some(group)) => Subject::Group(group.to_owned()),
        (None, None) => Subject::Everyone,
    };
    let sharing = match text("share") {
        Some("each") => Sharing::Each,
        Some("together") => Sharing::Together,
        _ => usual_sharing(&subject),
    };
    (
        subject,
        sharing,
        text("per").and_then(|text| term(text).ok()),
    )
}

/// Sets a value; what stands behind it in its line stays.
fn put(table: &mut Table, key: &str, text: &str) {
    let mut value = Value::from(text);
    if let Some(old) = table.get(key).and_then(Item::as_value) {
        *value.decor_mut() = old.decor().clone();
    }
    table.insert(key, Item::Value(value));
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    const FILE: &str = "# mine\n[states]\nheld_mb = 50 # less\n\n# for ada\n[[quota]]\nuser = \"ada\"\nheld = \"10h\" # for now\nper = \"month\"\n\n# the end\n";

    fn limit(subject: Subject, measure: Measure, per: Term, most: u64) -> Limit {
        Limit {
            sharing: usual_sharing(&subject),
            subject,
            measure,
            per,
            most,
        }
    }

    #[track_caller]
    fn check(before: &str, change: impl FnOnce(&mut DocumentMut), after: &str) {
        let mut document: DocumentMut = before.parse().unwrap();
        change(&mut document);
        assert_eq!(document.to_string(), after);
        let home = Home(Some("/home/ada".into()));
        let mut settings = Settings::defaults(&home);
        let problems = config_file::apply(&mut settings, after.as_bytes(), Path::new("f"), &home);
        assert_eq!(problems, []);
    }

    const HOUR: u64 = 3_600_000_000;

    #[test]
    fn a_limit_is_changed_in_its_place_and_every_comment_stays() {
        let ada = || Subject::User("ada".to_owned());
        check(
            FILE,
            |document| {
                set(
                    document,
                    &limit(ada(), Measure::Held, Term::Month, 20 * HOUR),
                )
                .unwrap();
            },
            &FILE.replace("10h", "20h"),
        );
        check(
            FILE,
            |document| {
                let energy = limit(ada(), Measure::Energy, Term::Month, 180_000_000_000);
                set(document, &energy).unwrap();
            },
            &FILE.replace("per = \"month\"\n", "per = \"month\"\nenergy = \"50kWh\"\n"),
        );
    }

    #[test]
    fn another_limit_is_another_table_and_removed_it_leaves_the_file_as_it_was() {
        let students = Subject::Group("students".to_owned());
        let week = limit(
            students.clone(),
            Measure::IdleHeld,
            Term::Rolling(Duration::from_secs(604_800)),
            HOUR / 2,
        );
        let with = "[[quota]]\ngroup = \"students\"\nidle_held = \"30m\"\nper = \"7d\"\n";
        check("", |document| set(document, &week).unwrap(), with);
        check(
            with,
            |document| assert_eq!(remove(document, &students, None, None), 1),
            "",
        );
        let mut document: DocumentMut = FILE.parse().unwrap();
        set(&mut document, &week).unwrap();
        assert_eq!(
            remove(&mut document, &students, Some(Measure::Held), None),
            0
        );
        assert_eq!(remove(&mut document, &students, None, Some(Term::Week)), 0);
        assert_eq!(remove(&mut document, &students, None, Some(week.per)), 1);
        assert_eq!(document.to_string(), FILE);
    }
}

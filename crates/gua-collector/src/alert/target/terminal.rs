//! Messages on the terminals of a person, as write(1) shows them. write(1) itself cannot run in the sandbox of the service, which
//! gains no group by executing a program. The unit of the service has the group of the terminals instead.

use std::fs::OpenOptions;
use std::io::Write as _;
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::PathBuf;

use gua_model::Uid;
use gua_model::text::sanitize;
use gua_probe::process::uid_in_directory;
use gua_render::alert::AlertMessage;
use rustix::fs::OFlags;

use super::SendError;

/// Directory of the pseudoterminals (pts(4)).
const TERMINALS: &str = "/dev/pts";
/// Mode bit of a terminal that accepts messages (mesg(1)).
const ACCEPTS: u32 = 0o020;

/// Writes a message to every terminal of its person that accepts messages; one about nobody to those of root. A container, a pod and an
/// unknown user never have a terminal.
pub(super) fn write(message: &AlertMessage) -> Result<(), SendError> {
    let person = message.user.as_deref().unwrap_or("root");
    let Some(uid) = uid_in_directory(person) else {
        let error = "the user directory of this host (passwd, LDAP, SSSD) does not answer";
        return Err(error.to_owned().into());
    };
    let unknown = || SendError::last(format!("{} is not a user of this host", sanitize(person)));
    let Uid(uid) = uid.ok_or_else(unknown)?;
    let found = std::fs::read_dir(TERMINALS).map_err(|error| error.to_string())?;
    let terminals = found.flatten().map(|entry| entry.path());
    Ok(write_to(terminals, uid, message)?)
}

fn write_to(
    terminals: impl Iterator<Item = PathBuf>,
    uid: u32,
    message: &AlertMessage,
) -> Result<(), String> {
    // The terminal may be in raw mode, so that each line returns the carriage.
    let lines = message.text.lines();
    let lines = lines.map(|line| format!("{}\r\n", sanitize(line)));
    let text = format!(
        "\r\n\u{7}Message from gua:\r\n{}",
        lines.collect::<String>()
    );
    let mut written = 0;
    for terminal in terminals {
        let Ok(facts) = terminal.symlink_metadata() else {
            continue;
        };
        let is_terminal = facts.file_type().is_char_device();
        if !is_terminal || facts.uid() != uid || facts.mode() & ACCEPTS == 0 {
            continue;
        }
        // A stopped terminal must not block the thread.
        let flags = OFlags::NOCTTY | OFlags::NONBLOCK | OFlags::NOFOLLOW;
        let mut options = OpenOptions::new();
        let opened = options
            .write(true)
            .custom_flags(flags.bits().cast_signed())
            .open(&terminal);
        let sent = opened.and_then(|mut terminal| terminal.write_all(text.as_bytes()));
        written += usize::from(sent.is_ok());
    }
    match written {
        0 => Err("the person has no terminal that accepts messages (mesg)".to_owned()),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use gua_test::Pty;

    use super::*;

    #[test]
    fn a_message_appears_on_terminals_that_accept_messages() {
        let pty = Pty::new();
        let end = pty.open(OFlags::empty());
        let mut message = super::super::tests::message();
        message.text = "first\u{1b}[2J\u{8}\rline\nbye".to_owned();
        let own = rustix::process::geteuid().as_raw();
        let sent = |mode: u32, uid: u32| {
            let mode = std::fs::Permissions::from_mode(mode);
            std::fs::set_permissions(&pty.name, mode).unwrap();
            let terminals = [pty.name.clone().into(), "/nonexistent".into()];
            write_to(terminals.into_iter(), uid, &message)
        };
        assert!(sent(0o600, own).unwrap_err().contains("mesg"));
        assert!(sent(0o620, own + 1).is_err(), "of another person");
        sent(0o620, own).unwrap();
        drop(end);
        // Nothing else was written, and no control character of the message.
        let expected =
            "\r\n\u{7}Message from gua:\r\nfirst\u{fffd}[2J\u{fffd}\u{fffd}line\r\nbye\r\n";
        assert_eq!(pty.rest().replace("\r\r\n", "\r\n"), expected);
    }

    #[test]
    fn a_message_to_a_person_without_an_account_is_not_repeated() {
        let mut message = super::super::tests::message();
        for person in [
            "pod:vision/run",
            "container:web",
            "uid 70001",
            "no user\u{1b}",
        ] {
            message.user = Some(person.to_owned());
            let error = write(&message).unwrap_err();
            assert!(!error.is_retryable, "{error:?}");
            let expected = format!("{} is not a user of this host", sanitize(person));
            assert_eq!(error.message, expected);
        }
    }
}

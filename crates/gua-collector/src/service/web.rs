//! The systemd units of `gua serve` and `gua board serve`. Both serve web pages, so they run without root in a sandbox. The board
//! can access only its own data; `gua serve` can also access the driver's devices.

use std::path::{Path, PathBuf};

use gua_model::failure::Failure;
use gua_settings::Loaded;

use super::collector::{self, reject_foreign_units};
use super::place::Place;
use super::unit;
use super::unit::Readers;
use super::units::{Messages, Units, removed};
use super::{Install, Output, readers, safe_for_root, system_user, this_program};

/// Ports below this one need a capability.
const FIRST_FREE_PORT: u16 = 1024;

/// A server with a unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WebServer {
    /// `gua serve`.
    Host,
    /// `gua board serve`.
    Board,
}

/// Values that fill in a unit's template.
#[derive(Clone, Debug)]
struct Facts<'a> {
    server: WebServer,
    program: PathBuf,
    /// Options of the command that serves.
    options: &'a [String],
    port: u16,
    /// Lines about access to the host's history, for the unit of `gua serve`.
    asks: String,
}

fn asks_of(place: &Place, loaded: &Loaded) -> Result<String, Failure> {
    let db = place.database(None, &loaded.settings.history.service_db.value);
    match db.as_deref().and_then(Path::parent) {
        Some(directory) => Ok(asks(directory, &readers(&Install::default(), place)?)),
        None => Ok(String::new()),
    }
}

/// Hides the directory of the history from the unit. If only a group may query the history, the unit must be in that group.
fn asks(hidden: &Path, readers: &Readers) -> String {
    let hidden = unit::quoted(&format!("-{}", hidden.to_string_lossy()));
    let group = match readers {
        Readers::Group(group) => format!("SupplementaryGroups={group}\n"),
        Readers::Everyone | Readers::Root => String::new(),
    };
    format!("InaccessiblePaths={hidden}\n{group}")
}

/// Texts of a server's unit and of the messages about it.
#[derive(Debug)]
struct Texts {
    /// The command that manages the unit.
    command: &'static str,
    /// Name of the unit, and its other names.
    names: &'static [&'static str],
    /// First line of the unit, which identifies units written by gua.
    first_line: &'static str,
    template: &'static str,
    /// The user of the unit, which exists while it runs. The board's data is in the state directory of this name.
    user: &'static str,
    /// Directories that contain the state directory. It is a symbolic link into the second one, because the user is
    /// dynamic (systemd.exec(5)); systemd makes that user the owner of the directory itself.
    state_parents: &'static [&'static str],
    words: &'static [&'static str],
    notes: &'static str,
    /// Data that stays when the unit is removed.
    kept: &'static str,
}

const HOST: Texts = Texts {
    command: "gua serve",
    // nvgpu's agent is served by `gua serve`.
    names: &["gua-serve.service", "nvgpu-agent.service"],
    first_line: "# Written by `gua serve install`. Changes here are lost when it runs again; use `systemctl edit`.",
    template: include_str!("templates/gua-serve.service"),
    user: "gua-serve",
    state_parents: &[],
    words: &["serve"],
    notes: "",
    kept: "the history",
};

const BOARD: Texts = Texts {
    command: "gua board",
    names: &["gua-board.service"],
    first_line: "# Written by `gua board install`. Changes here are lost when it runs again; use `systemctl edit`.",
    template: include_str!("templates/gua-board.service"),
    user: "gua-board",
    state_parents: &["/var/lib", "/var/lib/private"],
    words: &["board", "serve", "--data", "/var/lib/gua-board"],
    notes: "  the link for the first account: journalctl --unit gua-board\n  \
            commands about its data: sudo -u gua-board gua board ... --data /var/lib/gua-board\n",
    kept: "the board's data in /var/lib/gua-board",
};

impl WebServer {
    fn texts(self) -> &'static Texts {
        match self {
            WebServer::Host => &HOST,
            WebServer::Board => &BOARD,
        }
    }
}

impl Texts {
    fn unit(&self) -> &'static str {
        self.names[0]
    }
}

/// Installs, enables and starts the unit of a server that listens on a port with these options.
pub fn install(
    server: WebServer,
    (options, port): (&[String], u16),
    install: &Install,
    place: &Place,
    loaded: &Loaded,
) -> Result<Output, Failure> {
    reject_relative_files(options)?;
    let facts = Facts {
        server,
        program: this_program(place)?,
        options,
        port,
        asks: match server {
            WebServer::Host => asks_of(place, loaded)?,
            WebServer::Board => String::new(),
        },
    };
    let texts = server.texts();
    let units = Units {
        place,
        command: texts.command,
        first_line: texts.first_line,
        texts: vec![(texts.unit(), text(&facts))],
    };
    if install.print {
        return Ok(units.printed().into());
    }
    let mut files = named_files(options);
    files.extend(texts.state_parents.iter().map(Path::new));
    safe_for_root(place, loaded, (&facts.program, texts.user), &files)?;
    reject_foreign_units(place, texts.names, texts.first_line, install.force)?;
    if server == WebServer::Host {
        system_user::create(place, None)?;
    }
    units.write(true)?;
    let messages = Messages {
        notes: texts.notes.to_owned(),
        image_needs: Some(format!("the program at {}", facts.program.display())),
        idle: format!("systemd is not running here: {}", place.begins()),
        after: String::new(),
        look: ["status", texts.unit()],
    };
    units.enable(install, &messages)
}

/// Stops the server and removes its unit.
pub fn uninstall(server: WebServer, place: &Place) -> Result<String, Failure> {
    let Texts {
        command,
        first_line,
        kept,
        ..
    } = server.texts();
    let names = [server.texts().unit()];
    let text = removed(place, command, &names, first_line, kept)?;
    // The collector needs the same user.
    if server == WebServer::Host && !place.unit(collector::NAME).exists() {
        system_user::forget(place)?;
    }
    Ok(text)
}

/// Values of options, as in `--key FILE` and `--key=FILE`.
fn values(options: &[String]) -> impl Iterator<Item = &str> {
    options
        .iter()
        .filter_map(|word| match word.strip_prefix('-') {
            Some(flag) => Some(flag.split_once('=')?.1),
            None => Some(word),
        })
}

/// Files that options name: certificates, keys, tokens and other secrets.
fn named_files(options: &[String]) -> Vec<&Path> {
    let paths = values(options).map(Path::new);
    paths.filter(|path| path.is_absolute()).collect()
}

/// The service does not start in this directory.
fn reject_relative_files(options: &[String]) -> Result<(), Failure> {
    let is_relative = |word: &&str| {
        let path = Path::new(word);
        path.is_relative() && path.exists()
    };
    match values(options).find(is_relative) {
        Some(file) => Err(Failure::usage(format!("`{file}` is a relative path"))
            .hint("name files by their absolute paths: the service starts in another directory")),
        None => Ok(()),
    }
}

fn text(facts: &Facts<'_>) -> String {
    let texts = facts.server.texts();
    let words = texts.words.iter().map(|word| (*word).to_owned());
    let words: Vec<String> = words.chain(facts.options.iter().cloned()).collect();
    let mut files: Vec<&Path> = vec![&facts.program];
    files.extend(named_files(facts.options));
    // With PrivateUsers=, the capability would not apply to the host's network.
    let (capabilities, private_users) = match facts.port < FIRST_FREE_PORT && facts.port > 0 {
        true => ("CAP_NET_BIND_SERVICE", "no"),
        false => ("", "yes"),
    };
    let values = [
        ("first_line", texts.first_line),
        ("asks", &facts.asks),
        ("exec", &unit::exec(&facts.program, &words)),
        ("user", texts.user),
        ("group", unit::USER),
        ("capabilities", capabilities),
        ("private_users", private_users),
        ("home", unit::home(&files)),
        ("alias", texts.names.last().expect("it has a name")),
    ];
    unit::filled(texts.template, &values)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::service::Scope;
    use crate::service::reject_changeable;
    use crate::service::tests::{MAX_EXPOSURE, check_exposure, verify};

    #[test]
    fn systemd_finds_nothing_wrong_and_little_exposed() {
        let options = ["--listen".to_owned(), "10.0.0.5:443".to_owned()];
        for server in [WebServer::Host, WebServer::Board] {
            for (options, port) in [(&options[..0], 8080), (&options[..], 443)] {
                let facts = Facts {
                    server,
                    // Any existing program: systemd checks that it is executable.
                    program: "/bin/true".into(),
                    options,
                    port,
                    asks: asks(
                        Path::new("/srv/100% gpu"),
                        &Readers::Group("root".to_owned()),
                    ),
                };
                let unit = text(&facts);
                let lines = "\nInaccessiblePaths=\"-/srv/100%% gpu\"\nSupplementaryGroups=root\n";
                assert_eq!(unit.contains(lines), server == WebServer::Host, "{unit}");
                assert_eq!(unit.contains("--listen 10.0.0.5:443"), !options.is_empty());
                assert_eq!(unit.contains("CAP_NET_BIND_SERVICE"), port == 443, "{unit}");
                let name = server.texts().unit();
                verify(&[(name, unit.clone())], Scope::System);
                check_exposure(name, &unit, MAX_EXPOSURE);
            }
        }
    }

    /// Checks the exposure (in tenths) of all combinations of a port that needs a capability, files in home directories, who
    /// may query the history, and where it is.
    #[test]
    fn the_servers_have_a_low_exposure() {
        let words = |list: &[&str]| list.iter().map(|word| (*word).to_owned()).collect();
        let options: [Vec<String>; 4] = [
            Vec::new(),
            words(&["--token-file", "/etc/gua/token"]),
            words(&["--certificate", "/root/cert.pem", "--key=/root/key.pem"]),
            words(&[
                "--token-file",
                "/home/ada/100% token",
                "--listen",
                "0.0.0.0:443",
            ]),
        ];
        let mut asked = vec![String::new()];
        for hidden in ["/var/lib/gua", "/home/100% gpu"] {
            let readers = [
                Readers::Everyone,
                Readers::Group("root".to_owned()),
                Readers::Root,
            ];
            asked.extend(readers.map(|readers| asks(Path::new(hidden), &readers)));
        }
        for server in [WebServer::Host, WebServer::Board] {
            for program in ["/bin/true", "/root/bin/gua", "/home/ada/bin/gua"] {
                for options in &options {
                    for port in [8080, 443] {
                        let has_home = program != "/bin/true"
                            || named_files(options)
                                .iter()
                                .any(|file| !file.starts_with("/etc"));
                        for asks in asked.iter().take(match server {
                            WebServer::Host => asked.len(),
                            WebServer::Board => 1,
                        }) {
                            let unit = text(&Facts {
                                server,
                                program: program.into(),
                                options,
                                port,
                                asks: asks.clone(),
                            });
                            let home = if has_home { "read-only" } else { "yes" };
                            let home = format!("\nProtectHome={home}\n");
                            assert!(unit.contains(&home), "{home}{unit}");
                            check_exposure(server.texts().unit(), &unit, MAX_EXPOSURE);
                        }
                    }
                }
            }
        }
    }

    #[test]
    fn the_unit_of_nvgpu_is_an_alias_of_the_pages_of_one_host() {
        let facts = |server| Facts {
            server,
            program: "/usr/bin/gua".into(),
            options: &[],
            port: 0,
            asks: String::new(),
        };
        let unit = text(&facts(WebServer::Host));
        assert!(unit.contains("\nExecStart=/usr/bin/gua serve\n"), "{unit}");
        assert!(unit.ends_with("\nAlias=nvgpu-agent.service\n"), "{unit}");
        let unit = text(&facts(WebServer::Board));
        let exec = "ExecStart=/usr/bin/gua board serve --data /var/lib/gua-board\n";
        assert!(unit.contains(exec), "{unit}");
        assert!(!unit.contains("Alias="), "{unit}");
    }

    #[test]
    fn a_file_that_the_service_would_not_find_is_refused() {
        for options in [
            &["--token-file".to_owned(), "Cargo.toml".to_owned()][..],
            &["--token-file=Cargo.toml".to_owned()],
        ] {
            let refused = reject_relative_files(options).unwrap_err();
            assert!(refused.to_string().contains("relative path"), "{refused}");
        }
        let options = ["--token-file".to_owned(), "/etc/hostname".to_owned()];
        reject_relative_files(&options).unwrap();
    }

    /// Only root needs the check, and only root can give files to another user.
    #[test]
    fn files_of_a_server_that_another_user_can_change_are_refused() {
        let options = [
            "--listen",
            "10.0.0.5:443",
            "--certificate",
            "/etc/board.pem",
            "--key=/etc/board.key",
        ];
        let options = options.map(str::to_owned);
        let named = named_files(&options);
        assert_eq!(named, ["/etc/board.pem", "/etc/board.key"].map(Path::new));
        if !gua_test::runs_as_root("files of another user that a unit names") {
            return;
        }
        let directory = tempfile::tempdir().unwrap();
        let [mine, theirs] = ["mine.pem", "theirs.pem"].map(|name| directory.path().join(name));
        for file in [&mine, &theirs] {
            std::fs::write(file, "").unwrap();
        }
        std::os::unix::fs::chown(&theirs, Some(65534), None).unwrap();
        reject_changeable(&[&mine]).unwrap();
        let refused = reject_changeable(&[&mine, &theirs]).unwrap_err();
        let reason = format!("`{}` belongs to user 65534", theirs.display());
        assert!(refused.message.ends_with(&reason), "{refused}");
        assert!(refused.hint.is_some(), "{refused}");
        reject_changeable(
            &BOARD
                .state_parents
                .iter()
                .map(Path::new)
                .collect::<Vec<_>>(),
        )
        .unwrap();
    }
}

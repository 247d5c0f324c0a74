//! The systemd units of `gua serve` and `gua board serve`. Both serve web pages, so they run without root in a sandbox. The board
//! can access only its own data; `gua serve` can also access the driver's devices.

use std::path::{Path, PathBuf};

use gua_model::failure::Failure;

use super::collector::{self, reject_foreign_units};
use super::place::Place;
use super::unit;
use super::units::{Messages, Units, removed};
use super::{Install, Output, admit_program, system_user, this_program};

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
}

impl WebServer {
    /// The command that manages the unit, for messages.
    fn command(self) -> &'static str {
        match self {
            WebServer::Host => "gua serve",
            WebServer::Board => "gua board",
        }
    }

    fn unit(self) -> &'static str {
        match self {
            WebServer::Host => "gua-serve.service",
            WebServer::Board => "gua-board.service",
        }
    }

    /// All names of the unit. nvgpu's agent is served by `gua serve`.
    fn names(self) -> &'static [&'static str] {
        match self {
            WebServer::Host => &["gua-serve.service", "nvgpu-agent.service"],
            WebServer::Board => &["gua-board.service"],
        }
    }

    /// First line of the unit, which identifies units written by gua.
    fn first_line(self) -> &'static str {
        match self {
            WebServer::Host => {
                "# Written by `gua serve install`. Changes here are lost when it runs again; use `systemctl edit`."
            }
            WebServer::Board => {
                "# Written by `gua board install`. Changes here are lost when it runs again; use `systemctl edit`."
            }
        }
    }

    fn template(self) -> &'static str {
        match self {
            WebServer::Host => include_str!("templates/gua-serve.service"),
            WebServer::Board => include_str!("templates/gua-board.service"),
        }
    }

    /// The user of the unit, which exists while it runs. The board's data is in the state directory of this name.
    fn user(self) -> &'static str {
        match self {
            WebServer::Host => "gua-serve",
            WebServer::Board => "gua-board",
        }
    }

    fn words(self) -> &'static [&'static str] {
        match self {
            WebServer::Host => &["serve"],
            WebServer::Board => &["board", "serve", "--data", "/var/lib/gua-board"],
        }
    }
}

/// Installs, enables and starts the unit of a server that listens on `port` with these options.
pub fn install(
    server: WebServer,
    options: &[String],
    port: u16,
    install: &Install,
    place: &Place,
) -> Result<Output, Failure> {
    reject_relative_files(options)?;
    let facts = Facts {
        server,
        program: this_program()?,
        options,
        port,
    };
    let units = Units {
        place,
        command: server.command(),
        first_line: server.first_line(),
        texts: vec![(server.unit(), text(&facts))],
    };
    if install.print {
        return Ok(units.printed().into());
    }
    admit_program(place, &facts.program, server.user())?;
    reject_foreign_units(place, server.names(), server.first_line(), install.force)?;
    if server == WebServer::Host {
        system_user::create(place, None)?;
    }
    units.write(true)?;
    let notes = match server {
        WebServer::Host => String::new(),
        WebServer::Board => "  the link for the first account: journalctl --unit gua-board\n  \
             commands about its data: sudo -u gua-board gua board ... --data /var/lib/gua-board\n"
            .to_owned(),
    };
    let messages = Messages {
        notes,
        image_needs: Some(format!("the program at {}", facts.program.display())),
        idle: format!("systemd is not running here: {}", place.begins()),
        after: String::new(),
        look: ["status", server.unit()],
    };
    units.enable(install, &messages)
}

/// Stops the server and removes its unit.
pub fn uninstall(server: WebServer, place: &Place) -> Result<String, Failure> {
    let kept = match server {
        WebServer::Host => "the history",
        WebServer::Board => "the board's data in /var/lib/gua-board",
    };
    let names = [server.unit()];
    let text = removed(place, server.command(), &names, server.first_line(), kept)?;
    // The collector needs the same user.
    if server == WebServer::Host && !place.unit(collector::NAME).exists() {
        system_user::forget(place)?;
    }
    Ok(text)
}

/// The service does not start in this directory.
fn reject_relative_files(options: &[String]) -> Result<(), Failure> {
    let is_relative = |word: &&String| {
        let path = Path::new(word.as_str());
        !word.starts_with('-') && path.is_relative() && path.exists()
    };
    match options.iter().find(is_relative) {
        Some(file) => Err(Failure::usage(format!("`{file}` is a relative path"))
            .hint("name files by their absolute paths: the service starts in another directory")),
        None => Ok(()),
    }
}

fn text(facts: &Facts<'_>) -> String {
    let server = facts.server;
    let words = server.words().iter().map(|word| (*word).to_owned());
    let words: Vec<String> = words.chain(facts.options.iter().cloned()).collect();
    let mut files: Vec<&Path> = vec![&facts.program];
    files.extend(facts.options.iter().map(Path::new));
    // With PrivateUsers=, the capability would not apply to the host's network.
    let (capabilities, private_users) = match facts.port < FIRST_FREE_PORT && facts.port > 0 {
        true => ("CAP_NET_BIND_SERVICE", "no"),
        false => ("", "yes"),
    };
    let values = [
        ("first_line", server.first_line()),
        ("exec", &unit::exec(&facts.program, &words)),
        ("user", server.user()),
        ("group", unit::USER),
        ("capabilities", capabilities),
        ("private_users", private_users),
        ("home", unit::home(&files)),
        ("alias", server.names().last().expect("it has a name")),
    ];
    unit::filled(server.template(), &values)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::service::Scope;
    use crate::service::tests::{check_exposure, verify};

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
                };
                let unit = text(&facts);
                assert_eq!(unit.contains("--listen 10.0.0.5:443"), !options.is_empty());
                assert_eq!(unit.contains("CAP_NET_BIND_SERVICE"), port == 443, "{unit}");
                verify(&[(server.unit(), unit.clone())], Scope::System);
                check_exposure(server.unit(), &unit, 19);
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
        let options = ["--token-file".to_owned(), "Cargo.toml".to_owned()];
        let refused = reject_relative_files(&options).unwrap_err();
        assert!(refused.to_string().contains("relative path"), "{refused}");
        let options = ["--token-file".to_owned(), "/etc/hostname".to_owned()];
        reject_relative_files(&options).unwrap();
    }
}

//! The manual pages: one per command, `gua.1` with the variables, files and exit codes.

use std::fs;
use std::path::Path;

use anyhow::Context as _;
use clap_mangen::Man;
use clap_mangen::roff::{Roff, bold, roman};

use crate::cli::ManArgs;
use crate::config::ENTRIES;
use crate::output;

/// Variables that are no settings.
const OTHER_VARIABLES: &[(&str, &str)] = &[
    (
        "GUA_CONFIG",
        "A configuration file to read instead of the user's.",
    ),
    (
        "NO_COLOR",
        "If set, there is no colour unless --color asks for it.",
    ),
];

const FILES: &[(&str, &str)] = &[
    (
        "~/.gua/config.toml",
        "The user's configuration; GUA_CONFIG names another file instead.",
    ),
    (
        "/etc/gua/config.toml",
        "The configuration for all users of the machine.",
    ),
];

const EXIT_CODES: &[(&str, &str)] = &[
    ("0", "Done. A closed pipe is success too."),
    ("1", "It could not be done, or a check found something."),
    (
        "2",
        "Wrong use: unknown command or flag, bad value, broken configuration.",
    ),
    ("3", "Nothing is available."),
];

/// Prints one page, or writes all of them.
pub fn run(args: &ManArgs) -> anyhow::Result<()> {
    let Some(dir) = &args.dir else {
        return output::raw(&page(super::find(&args.command)?)?);
    };
    fs::create_dir_all(dir).with_context(|| format!("cannot create `{}`", dir.display()))?;
    write_all(super::built(), dir)
}

fn write_all(command: clap::Command, dir: &Path) -> anyhow::Result<()> {
    for below in super::visible_commands(&command) {
        write_all(below.clone(), dir)?;
    }
    let path = dir.join(format!("{}.1", page_name(&command)));
    fs::write(&path, page(command)?).with_context(|| format!("cannot write `{}`", path.display()))
}

fn page(command: clap::Command) -> anyhow::Result<Vec<u8>> {
    let mut page = Vec::new();
    let title = page_name(&command);
    let is_whole_program = title == "gua";
    let has_subcommands = command.get_subcommands().any(|below| !below.is_hide_set());
    let man = Man::new(command)
        .title(title)
        .source(concat!("gua ", env!("CARGO_PKG_VERSION")))
        .manual("gua manual");
    man.render_title(&mut page)?;
    man.render_name_section(&mut page)?;
    man.render_synopsis_section(&mut page)?;
    man.render_description_section(&mut page)?;
    man.render_options_section(&mut page)?;
    if has_subcommands {
        man.render_subcommands_section(&mut page)?;
    }
    let mut extra = Vec::new();
    man.render_extra_section(&mut extra)?;
    page.extend(
        String::from_utf8(extra)?
            .replacen(".SH EXTRA", ".SH NOTES", 1)
            .bytes(),
    );
    if is_whole_program {
        let variables = ENTRIES.iter().map(|entry| (entry.env, entry.doc.trim()));
        let variables = variables.chain(OTHER_VARIABLES.iter().copied());
        section("ENVIRONMENT", variables).to_writer(&mut page)?;
        section("FILES", FILES.iter().copied()).to_writer(&mut page)?;
        section("EXIT STATUS", EXIT_CODES.iter().copied()).to_writer(&mut page)?;
    }
    Ok(page)
}

fn section<'a>(title: &str, items: impl Iterator<Item = (&'a str, &'a str)>) -> Roff {
    let mut roff = Roff::new();
    roff.control("SH", [title]);
    for (term, meaning) in items {
        roff.control("TP", []);
        roff.text([bold(term)]);
        roff.text([roman(meaning)]);
    }
    roff
}

/// `gua-config-check`, as the page and the file are called.
fn page_name(command: &clap::Command) -> String {
    command
        .get_display_name()
        .unwrap_or_else(|| command.get_name())
        .to_owned()
}

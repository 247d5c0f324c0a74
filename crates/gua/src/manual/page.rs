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
    (
        "1",
        "It could not be done, or a check found something; `gua doctor` says so only with --strict.",
    ),
    (
        "2",
        "Wrong use: unknown command or flag, bad value, broken configuration.",
    ),
    (
        "3",
        "Nothing is available: `gua available` found no free card.",
    ),
];

const OTHER_NAMES: &[(&str, &str)] = &[
    (
        "nvgpu, nvl",
        "Called as nvgpu, it lists the cards and the free ones with that tool's table, rules and wording; nvl is `nvgpu list`.",
    ),
    (
        "gpu-usage-audit",
        "Called so, it will do the work of that tool. This version has its `daemon`, `help` and `version`.",
    ),
];

/// Prints one page, or writes all of them.
pub fn run(args: &ManArgs) -> anyhow::Result<()> {
    let Some(dir) = &args.dir else {
        return output::raw(&page(&super::find(&args.command)?)?);
    };
    fs::create_dir_all(dir).with_context(|| format!("cannot create `{}`", dir.display()))?;
    write_all(&super::built(), dir)
}

fn write_all(command: &clap::Command, dir: &Path) -> anyhow::Result<()> {
    for below in super::visible_commands(command) {
        write_all(below, dir)?;
    }
    let path = dir.join(format!("{}.1", page_name(command)));
    fs::write(&path, page(command)?).with_context(|| format!("cannot write `{}`", path.display()))
}

fn page(command: &clap::Command) -> anyhow::Result<Vec<u8>> {
    let title = page_name(command);
    let is_whole_program = title == "gua";
    let has_subcommands = command.get_subcommands().any(|below| !below.is_hide_set());
    let after = command
        .get_after_long_help()
        .or_else(|| command.get_after_help());
    let after = after.map(ToString::to_string).unwrap_or_default();
    // clap_mangen lists positional arguments among the options, so each of the two sections hides the other.
    let only = |keep: fn(&clap::Arg) -> bool| {
        let hide = |argument: clap::Arg| match keep(&argument) {
            true => argument,
            false => argument.hide(true),
        };
        Man::new(command.clone().mut_args(hide))
    };
    let (arguments, options) = (
        only(clap::Arg::is_positional),
        only(|argument| !argument.is_positional()),
    );
    let man = Man::new(command.clone());

    let mut page = Vec::new();
    man.render_name_section(&mut page)?;
    man.render_synopsis_section(&mut page)?;
    man.render_description_section(&mut page)?;
    let mut positional = Vec::new();
    arguments.render_options_section(&mut positional)?;
    let positional = String::from_utf8(positional)?;
    page.extend(
        positional
            .replacen(".SH OPTIONS", ".SH ARGUMENTS", 1)
            .bytes(),
    );
    options.render_options_section(&mut page)?;
    if has_subcommands {
        man.render_subcommands_section(&mut page)?;
    }
    if is_whole_program {
        let variables = ENTRIES.iter().map(|entry| (entry.env, entry.doc.trim()));
        let variables = variables.chain(OTHER_VARIABLES.iter().copied());
        section("ENVIRONMENT", variables).to_writer(&mut page)?;
        section("FILES", FILES.iter().copied()).to_writer(&mut page)?;
        section("EXIT STATUS", EXIT_CODES.iter().copied()).to_writer(&mut page)?;
        section("OTHER NAMES", OTHER_NAMES.iter().copied()).to_writer(&mut page)?;
    }
    closing(&after).to_writer(&mut page)?;
    Ok(tidied(&title, &String::from_utf8(page)?).into_bytes())
}

/// The title, the preamble once instead of before every section, and no line break twice in a row.
fn tidied(title: &str, sections: &str) -> String {
    let preamble = Roff::new().render();
    // Written out because Roff leaves an empty argument (the date) out, and the following ones move up.
    let heading = format!(
        ".TH \"{}\" \"1\" \"\" \"gua {}\" \"gua manual\"\n",
        title.to_uppercase(),
        env!("CARGO_PKG_VERSION")
    );
    let sections = sections
        .replace(&preamble, "")
        .replace("\n.br\n\n.br\n", "\n.br\n");
    preamble + &heading + &sections
}

/// What `--help` ends with: notes, then examples, which keep their lines.
fn closing(after: &str) -> Roff {
    let mut roff = Roff::new();
    let is_heading = |line: &&str| matches!(*line, "Example:" | "Examples:");
    let notes: Vec<&str> = after.lines().take_while(|line| !is_heading(line)).collect();
    if notes.iter().any(|line| !line.is_empty()) {
        roff.control("SH", ["NOTES"]);
        for line in notes {
            match line {
                "" => roff.control("PP", []),
                line => roff.text([roman(line)]),
            };
        }
    }
    let mut examples = after.lines().skip_while(|line| !is_heading(line));
    if examples.next().is_some() {
        roff.control("SH", ["EXAMPLES"]);
        roff.control("nf", []);
        for line in examples {
            roff.text([roman(line.strip_prefix("  ").unwrap_or(line))]);
        }
        roff.control("fi", []);
    }
    roff
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

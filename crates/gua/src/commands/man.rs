//! `gua man`: manual pages, one per command. `gua.1` also lists the environment variables, files and exit codes.

use std::fs;
use std::path::Path;

use clap_mangen::Man;
use clap_mangen::roff::{Roff, bold, roman};
use gua_settings::ENTRIES;

use super::help;
use crate::commands::prelude::*;

/// Definitions, one per line: the term, a tab and its meaning.
type Definitions = &'static str;

/// Environment variables that do not correspond to a setting.
const OTHER_VARIABLES: Definitions = "\
GUA_CONFIG\tA configuration file to read instead of the user's.
NO_COLOR\tIf set, output is not colored unless --color requests it.
FORCE_COLOR\tIf set, output is colored without a terminal too, unless NO_COLOR is set or --color forbids it.
LC_ALL, LC_MESSAGES, LANG\tIf the locale is Korean, reports and charts are in Korean unless --lang is given.";

const FILES: Definitions = "\
~/.gua/config.toml\tThe user's configuration. GUA_CONFIG replaces it with another file.
/etc/gua/config.toml\tThe configuration for all users of the host.
~/.gua/gua.db\tThe user's history.
/var/lib/gua/gua.db\tThe history of the host's service.
/run/gua.sock\tThe socket through which users ask the service.
~/.gua/cloud.json\tThe enrolment at a board.
~/.gua/gua.log, ~/.gua/gua.pid\tThe log and the PID file of the background daemon.
~/gpu_stats\tThe daily CSV files of `gua csv`.";

const EXIT_CODES: Definitions = "\
0\tSuccess. Writing to a closed pipe (EPIPE) also exits with 0.
1\tFailure, or a check found a problem. `gua doctor` uses this code only with --strict.
2\tUsage error: unknown command or flag, invalid value or invalid configuration.
3\tNo GPU is available: `gua available` found no free GPU.";

const OTHER_NAMES: Definitions = "\
nvgpu, nvl\tIf called as nvgpu, the program lists GPUs and free GPUs with the table, rules and wording of that tool. nvl is `nvgpu list`.
gpu-usage-audit\tIf called as gpu-usage-audit, the program provides `daemon`, `report`, `demo`, `help` and `version` of that tool.
gpu_stats\tIf called as gpu_stats, the program takes one sample as `gua csv sample` does.";

/// Prints one page, or writes all pages to a directory.
pub fn run(args: &ManArgs) -> anyhow::Result<()> {
    let Some(dir) = &args.dir else {
        return output::raw(&page(&help::find(&args.command)?)?);
    };
    fs::create_dir_all(dir).with_context(|| format!("cannot create `{}`", dir.display()))?;
    write_all(&built(), dir)
}

fn write_all(command: &clap::Command, dir: &Path) -> anyhow::Result<()> {
    for below in visible_commands(command) {
        write_all(below, dir)?;
    }
    let path = dir.join(format!("{}.1", page_name(command)));
    let written = gua_files::replace(&path, &page(command)?, 0o644);
    Ok(written.map_err(Failure::cannot("write", &path))?)
}

fn page(command: &clap::Command) -> anyhow::Result<Vec<u8>> {
    let title = page_name(command);
    let is_whole_program = title == "gua";
    let has_subcommands = visible_commands(command).next().is_some();
    let after = command.get_after_help();
    let after = after.map(ToString::to_string).unwrap_or_default();
    // clap_mangen lists positional arguments among the options, so each of the two sections hides the other kind.
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
        let variables = variables.chain(definitions(OTHER_VARIABLES));
        section("ENVIRONMENT", variables).to_writer(&mut page)?;
        section("FILES", definitions(FILES)).to_writer(&mut page)?;
        section("EXIT STATUS", definitions(EXIT_CODES)).to_writer(&mut page)?;
        section("OTHER NAMES", definitions(OTHER_NAMES)).to_writer(&mut page)?;
    }
    closing(&after).to_writer(&mut page)?;
    Ok(tidied(&title, &String::from_utf8(page)?).into_bytes())
}

/// Adds the title, keeps the preamble only once instead of before every section, and removes repeated line breaks.
fn tidied(title: &str, sections: &str) -> String {
    let preamble = Roff::new().render();
    // Written by hand because Roff omits an empty argument (the date), which would shift the following ones.
    let heading = format!(
        ".TH \"{}\" \"1\" \"\" \"gua {}\" \"gua manual\"\n",
        title.to_uppercase(),
        VERSION
    );
    let sections = sections
        .replace(&preamble, "")
        .replace("\n.br\n\n.br\n", "\n.br\n");
    preamble + &heading + &sections
}

/// Final sections from the text after the options: notes, then examples, which keep their line breaks.
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

fn definitions(text: Definitions) -> impl Iterator<Item = (&'static str, &'static str)> {
    text.lines().filter_map(|line| line.split_once('\t'))
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

/// Name of the page and of its file, such as `gua-config-check`.
fn page_name(command: &clap::Command) -> String {
    command
        .get_display_name()
        .unwrap_or_else(|| command.get_name())
        .to_owned()
}

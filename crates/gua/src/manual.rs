//! Help, completions and manual pages, all made from the declarations in `cli`.

use std::fs;
use std::path::Path;

use anyhow::Context as _;
use clap_mangen::Man;

use crate::cli::{self, ManArgs};
use crate::failure::Failure;
use crate::output;

/// The long help of a command, or of the whole program for an empty path.
pub fn help(path: &[String]) -> Result<String, Failure> {
    let mut command = find(path)?;
    Ok(command.render_long_help().ansi().to_string())
}

/// The completion script of one shell.
#[must_use]
pub fn completions(shell: clap_complete::Shell) -> Vec<u8> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut visible(cli::tree()), "gua", &mut script);
    script
}

/// Prints one page, or writes all of them.
pub fn run(args: &ManArgs) -> anyhow::Result<()> {
    let Some(dir) = &args.dir else {
        return output::raw(&page(find(&args.command)?)?);
    };
    fs::create_dir_all(dir).with_context(|| format!("cannot create `{}`", dir.display()))?;
    write_all(built(), dir)
}

fn write_all(command: clap::Command, dir: &Path) -> anyhow::Result<()> {
    for sub in command.get_subcommands().filter(|sub| !sub.is_hide_set()) {
        write_all(sub.clone(), dir)?;
    }
    let path = dir.join(format!("{}.1", page_name(&command)));
    fs::write(&path, page(command)?).with_context(|| format!("cannot write `{}`", path.display()))
}

fn page(command: clap::Command) -> anyhow::Result<Vec<u8>> {
    let mut page = Vec::new();
    let title = page_name(&command);
    Man::new(command)
        .title(title)
        .manual("gua manual")
        .render(&mut page)?;
    Ok(page)
}

/// `gua-config-check`, as the page and the file are called.
fn page_name(command: &clap::Command) -> String {
    command
        .get_display_name()
        .unwrap_or_else(|| command.get_name())
        .to_owned()
}

fn find(path: &[String]) -> Result<clap::Command, Failure> {
    let mut command = built();
    for name in path {
        command = match command.find_subcommand(name) {
            Some(found) => found.clone(),
            None => {
                let message = format!("there is no command `{}`", path.join(" ").escape_debug());
                return Err(Failure::usage(message).hint("`gua help` lists the commands"));
            }
        };
    }
    Ok(command)
}

/// The tree with every derived name filled in.
fn built() -> clap::Command {
    let mut tree = cli::tree();
    tree.build();
    tree
}

/// The tree without hidden commands: the generators would offer them otherwise.
fn visible(tree: clap::Command) -> clap::Command {
    tree
}

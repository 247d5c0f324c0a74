//! `gua service`: the collector as a systemd service, for the whole host or for one user.

use gua_collector::service::{Install, Output, Place, Scope, collector, sync};

use crate::commands::prelude::*;

pub fn run(command: &ServiceCommand, context: &Context) -> anyhow::Result<()> {
    let place = |args: &ServiceScopeArgs| place(args, context);
    match command {
        ServiceCommand::Install(args) => {
            let (install, place) = (install(args, context)?, place(&args.scope)?);
            print(&match args.sync_once {
                true => sync::install(&install, &place, &context.loaded)?,
                false => collector::install(&install, &place, &context.loaded)?,
            })
        }
        ServiceCommand::Uninstall(args) => {
            let place = place(&args.scope)?;
            output::data(&match args.sync_once {
                true => sync::uninstall(&place)?,
                false => collector::uninstall(&place)?,
            })
        }
        ServiceCommand::Status(args) => output::data(&collector::status(&place(args)?)),
    }
}

fn install(args: &ServiceInstallArgs, context: &Context) -> Result<Install, Failure> {
    let db = &context.settings().history.db.value;
    // The service does not start in this directory.
    let absolute = || std::path::absolute(db).map_err(Failure::cannot("find", db));
    Ok(Install {
        db: args.db.as_ref().map(|_| absolute()).transpose()?,
        interval: args.interval,
        metrics: args.metrics,
        readable_by: args.readable_by.clone(),
        every: args.every,
        cloud: args.cloud,
        archive: args.archive,
        ..args.unit.into()
    })
}

fn place(args: &ServiceScopeArgs, context: &Context) -> Result<Place, Failure> {
    let scope = match (args.system, args.user) {
        (true, _) => Some(Scope::System),
        (_, true) => Some(Scope::User),
        _ => None,
    };
    context.place(scope, args.root.clone())
}

/// Prints the output of a command about units.
pub(super) fn print(printed: &Output) -> anyhow::Result<()> {
    output::eprint(&printed.notes);
    output::data(&printed.text)
}

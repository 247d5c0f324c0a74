//! `gua metrics`: prints the metrics of this host once, or a Grafana dashboard for them.

use gua_collector::metrics;
use gua_render::metrics::HostMetrics;
use gua_render::metrics::dashboard::dashboard;

use crate::commands::prelude::*;
use crate::context::sample;

pub fn run(args: &MetricsArgs, context: &Context) -> anyhow::Result<()> {
    if args.dashboard {
        return write(args, &dashboard());
    }
    // The reader must run until its cost is measured.
    let mut reader = context.reader();
    match sample(&mut reader) {
        Ok(sample) => {
            let metrics = metrics::once(&context.loaded, &sample);
            let accounts = metrics.accounts.iter();
            balance::warn("gua metrics", accounts.flat_map(|all| &all.unbalanced));
            write(args, &metrics.text(args.format))
        }
        Err(fault) => {
            // Otherwise the file would keep showing old readings as current.
            if args.output.is_some() {
                write(args, &HostMetrics::without_gpus(VERSION).text(args.format))?;
            }
            Err(fault.into())
        }
    }
}

fn write(args: &MetricsArgs, text: &str) -> anyhow::Result<()> {
    match &args.output {
        Some(path) => Ok(gua_files::replace(path, text.as_bytes(), 0o644)
            .map_err(Failure::cannot("write", path))?),
        None => output::data(text),
    }
}

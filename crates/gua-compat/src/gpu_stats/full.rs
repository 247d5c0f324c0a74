//! Extended form of a day: one line for each process of each GPU, and one for a GPU without processes. Times are the
//! times of the ticks, in seconds; unavailable values are empty.

use gua_model::text::csv_text;
use gua_model::{Gpu, Process, ProcessKind, Reading, Sample, Thresholds, classify};

use super::{field, name_of, owner_name};

/// First line of every file.
pub const HEADER: &str = "timestamp,gpu,uuid,name,state,usage,memory_used_mb,memory_total_mb,power_w,temperature_c,\
pid,user,owner,owner_from,process,type,process_memory_mb";

pub(super) fn lines(sample: &Sample, thresholds: &Thresholds) -> String {
    let mut text = String::new();
    for gpu in sample.gpus.iter().filter(|gpu| gpu.place.counts()) {
        let of_gpu = of_gpu(sample, gpu, thresholds);
        let mut line = |of_process: [String; 7]| {
            let fields: Vec<String> = of_gpu
                .iter()
                .chain(&of_process)
                .map(|text| field(text))
                .collect();
            text.push_str(&fields.join(","));
            text.push('\n');
        };
        match gpu.processes.as_slice() {
            [] => line(Default::default()),
            processes => processes
                .iter()
                .for_each(|process| line(of_process(process))),
        }
    }
    text
}

fn of_gpu(sample: &Sample, gpu: &Gpu, thresholds: &Thresholds) -> [String; 10] {
    [
        sample.at.as_second().to_string(),
        gpu.index.to_string(),
        gpu.uuid.to_string(),
        gpu.name.as_ref().map(|name| text(name)).unwrap_or_default(),
        classify(gpu, thresholds, None).state.as_str().to_owned(),
        shown(gpu.util.map(|util| util.get())),
        shown(gpu.memory_used.map(|bytes| bytes.whole_mb())),
        shown(gpu.memory_total.map(|bytes| bytes.whole_mb())),
        shown(gpu.power.map(|power| power.whole_watts())),
        shown(gpu.temperature.map(|celsius| celsius.0)),
    ]
}

fn of_process(process: &Process) -> [String; 7] {
    let who = process.identity.as_ref().ok();
    let own = who.and_then(|who| who.own.as_ref().ok());
    let owner = who.and_then(|who| who.owner());
    let comm = who.and_then(|who| who.comm.as_ref().ok());
    let kind = match process.kind {
        ProcessKind::Compute => "compute",
        ProcessKind::Graphics => "graphics",
        ProcessKind::Both => "both",
    };
    [
        process.pid.0.to_string(),
        own.map(|user| text(&name_of(user))).unwrap_or_default(),
        owner
            .as_ref()
            .map(|owner| text(&owner_name(&owner.who)))
            .unwrap_or_default(),
        owner
            .map(|owner| owner.source.as_str().to_owned())
            .unwrap_or_default(),
        comm.map(|comm| text(comm)).unwrap_or_default(),
        kind.to_owned(),
        shown(process.memory.map(|bytes| bytes.whole_mb())),
    ]
}

/// Escapes a name, so that a spreadsheet does not evaluate it as a formula.
fn text(name: &str) -> String {
    csv_text(name).into_owned()
}

fn shown<T: ToString>(reading: Reading<T>) -> String {
    reading.map(|value| value.to_string()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_no_formula_for_a_spreadsheet() {
        assert_eq!(text("=1+1"), "'=1+1");
        assert_eq!(text("ada"), "ada");
    }
}

//! Extended form of a day: one line for each process of each GPU, and one for a GPU without processes. Times are the
//! times of the ticks, in seconds; unavailable values are empty.

use gua_model::csv::csv_lines;
use gua_model::table::Cell;
use gua_model::{Gpu, Process, Sample, Thresholds, classify};

use super::{name_of, owner_name};

/// First line of every file.
pub const HEADER: &str = "timestamp,gpu,uuid,name,state,usage,memory_used_mb,memory_total_mb,power_w,temperature_c,\
pid,user,owner,owner_from,process,type,process_memory_mb";

/// Returns the lines of a sample and their number.
pub(super) fn lines(sample: &Sample, thresholds: &Thresholds) -> (String, usize) {
    let mut rows = 0;
    let text = csv_lines(|lines| {
        for gpu in sample.gpus.iter().filter(|gpu| gpu.place.counts()) {
            let of_gpu = of_gpu(sample, gpu, thresholds);
            let processes = gpu.processes.iter().map(of_process);
            let nobody = [const { Cell::Missing }; 7];
            let nobody = gpu.processes.is_empty().then_some(nobody);
            for of_process in processes.chain(nobody) {
                lines.row(of_gpu.iter().chain(&of_process))?;
                rows += 1;
            }
        }
        Ok(())
    });
    (text, rows)
}

fn of_gpu(sample: &Sample, gpu: &Gpu, thresholds: &Thresholds) -> [Cell; 10] {
    [
        sample.at.as_second().into(),
        gpu.index.into(),
        gpu.uuid.to_string().into(),
        gpu.name.clone().ok().into(),
        classify(gpu, thresholds, None).state.as_str().into(),
        gpu.util.ok().map(|util| u32::from(util.get())).into(),
        gpu.memory_used.ok().map(|bytes| bytes.whole_mb()).into(),
        gpu.memory_total.ok().map(|bytes| bytes.whole_mb()).into(),
        gpu.power.ok().map(|power| power.whole_watts()).into(),
        gpu.temperature.ok().map(|celsius| celsius.0).into(),
    ]
}

fn of_process(process: &Process) -> [Cell; 7] {
    let who = process.identity.as_ref().ok();
    let own = who.and_then(|who| who.own.as_ref().ok());
    let owner = who.and_then(|who| who.owner());
    let comm = who.and_then(|who| who.comm.clone().ok());
    [
        process.pid.0.into(),
        own.map(name_of).into(),
        owner.as_ref().map(|owner| owner_name(&owner.who)).into(),
        owner.map(|owner| owner.source.as_str()).into(),
        comm.into(),
        process.kind.as_str().into(),
        process.memory.ok().map(|bytes| bytes.whole_mb()).into(),
    ]
}

#[cfg(test)]
mod tests {
    use gua_model::{BootId, Celsius, Driver, Missing};
    use jiff::Timestamp;

    use super::*;

    #[test]
    fn a_name_is_no_formula_for_a_spreadsheet_and_a_negative_number_is_none() {
        let gpu = Gpu {
            name: Ok("=1+1, \"x\"".to_owned()),
            temperature: Ok(Celsius(-5)),
            ..Gpu::without_readings("GPU-1".parse().unwrap(), 0, Missing::Unsupported)
        };
        let sample = Sample {
            at: Timestamp::UNIX_EPOCH,
            since_boot: std::time::Duration::ZERO,
            boot: Ok(BootId(1)),
            driver: Driver {
                version: Err(Missing::Unsupported),
                cuda: Err(Missing::Unsupported),
            },
            gpus: vec![gpu],
            problems: Vec::new(),
        };
        assert_eq!(
            lines(&sample, &Thresholds::default()).0,
            "0,0,GPU-1,\"'=1+1, \"\"x\"\"\",unobserved,,,,,-5,,,,,,,\n"
        );
    }
}

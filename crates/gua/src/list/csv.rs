//! The listing as one table of comma-separated values, a line a card; several holders stand in one field, with blanks.

use gua_model::since::Start;
use gua_model::text::harmless;
use gua_model::{Process, Sample, State};

use super::row::Row;
use crate::look::people;

const COLUMNS: &str = "at,index,uuid,parent_uuid,name,status,state,state_since,util_percent,memory_used_bytes,\
memory_total_bytes,power_milliwatts,temperature_celsius,sm_clock_megahertz,oldest_holder_seconds,owners,pids,comms,\
containers,pods,jobs,claimed_by,state_since_is_bound";

#[must_use]
pub fn table(sample: &Sample, rows: &[Row<'_>], with_header: bool) -> String {
    let mut text = match with_header {
        true => format!("{COLUMNS}\n"),
        false => String::new(),
    };
    for row in rows {
        let fields: Vec<String> = fields(sample, row)
            .iter()
            .map(|field| quoted(field))
            .collect();
        text.push_str(&fields.join(","));
        text.push('\n');
    }
    text
}

fn fields(sample: &Sample, row: &Row<'_>) -> Vec<String> {
    let of = |text: Option<String>| text.unwrap_or_default();
    let of_holders = |what: &dyn Fn(&Process) -> Option<String>| {
        let texts = row.holders.iter().map(|process| what(process));
        // An unknown one keeps its place, so that the fields of one line can be read side by side.
        let texts: Vec<String> = texts
            .map(|text| text.unwrap_or_else(|| "?".to_owned()))
            .collect();
        texts.join(" ")
    };
    let workload = |what: &dyn Fn(&gua_model::Workload) -> Option<String>| {
        let names = row.holders.iter().filter_map(|process| {
            let identity = process.identity.as_ref().ok()?;
            what(&identity.workload)
        });
        people::distinct(names).join(" ")
    };
    vec![
        sample.at.to_string(),
        row.index.to_string(),
        of(row.gpu.map(|gpu| gpu.uuid.to_string())),
        of(row
            .gpu
            .and_then(|gpu| Some(gpu.place.parent()?.to_string()))),
        of(row
            .gpu
            .and_then(|gpu| gpu.name.as_ref().ok())
            .map(|name| harmless(name))),
        row.sign.word().to_owned(),
        of(row.state.map(|state: State| state.word().to_owned())),
        of(row.since.map(|since| since.at.to_string())),
        of(row
            .reading(|gpu| gpu.util)
            .map(|util| util.get().to_string())),
        of(row
            .reading(|gpu| gpu.memory_used)
            .map(|bytes| bytes.0.to_string())),
        of(row
            .reading(|gpu| gpu.memory_total)
            .map(|bytes| bytes.0.to_string())),
        of(row
            .reading(|gpu| gpu.power)
            .map(|power| power.0.to_string())),
        of(row
            .reading(|gpu| gpu.temperature)
            .map(|degrees| degrees.0.to_string())),
        of(row
            .reading(|gpu| gpu.sm_clock)
            .map(|clock| clock.0.to_string())),
        of(row.oldest.map(|age| age.as_secs().to_string())),
        of_holders(&people::owner),
        of_holders(&|process| Some(process.pid.to_string())),
        of_holders(&|process| {
            let identity = process.identity.as_ref().ok()?;
            identity.comm.as_ref().ok().map(|comm| harmless(comm))
        }),
        workload(&|workload| workload.container.as_ref().map(ToString::to_string)),
        workload(&|workload| workload.pod.as_ref().map(ToString::to_string)),
        workload(&|workload| workload.job.as_ref().map(ToString::to_string)),
        people::distinct(row.claims.iter().map(|claim| claim.user.clone())).join(" "),
        of(row
            .since
            .map(|since| (since.start == Start::AtLatest).to_string())),
    ]
}

/// In quotes where it needs them.
fn quoted(field: &str) -> String {
    match field.contains([',', '"', '\n', '\r']) {
        true => format!("\"{}\"", field.replace('"', "\"\"")),
        false => field.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_would_break_a_line_stands_in_quotes() {
        assert_eq!(quoted("plain text"), "plain text");
        assert_eq!(quoted("a,b"), "\"a,b\"");
        assert_eq!(quoted("say \"hi\""), "\"say \"\"hi\"\"\"");
    }
}

//! Metric files of a watched job: any line is counted or left out, and the summary is finite.
#![no_main]

use arbitrary::Arbitrary;
use gua_wire::run::kind::RunFile;
use gua_wire::run::summary::Tally;
use libfuzzer_sys::fuzz_target;

#[derive(Arbitrary, Debug)]
enum Line {
    Gpu([f32; 6]),
    Dmon(Vec<i16>),
    Cpu(f64, f64),
    Header(Vec<String>),
    Text(String),
}

fuzz_target!(|lines: Vec<Line>| {
    let mut tally = Tally::default();
    for line in lines {
        let text = match line {
            Line::Gpu(values) => {
                let values: Vec<String> = values.iter().map(f32::to_string).collect();
                format!("2026/11/15 22:45:00.000, {}", values.join(", "))
            }
            Line::Dmon(values) => {
                let values: Vec<String> = values.iter().map(i16::to_string).collect();
                values.join(" ")
            }
            Line::Cpu(usr, idle) => format!("{{\"ts\":1.0,\"usr\":{usr},\"idle\":{idle}}}"),
            Line::Header(words) => format!("# {}", words.join(" ")),
            Line::Text(text) => text,
        };
        let _ = RunFile::of_line(&text);
        tally.gpu_line(&text);
        tally.dmon_line(&text);
        tally.cpu_line(&text);
    }
    let _ = (tally.missing(), tally.guessed_mem_util());
    for (name, value) in tally.summary().entries() {
        assert!(value.is_finite(), "{name}: {value}");
    }
});

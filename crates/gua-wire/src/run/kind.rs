//! Detection of a run file's type, by one of its lines or, if it has none, by its name.

use serde_json::Value;

use super::metrics::{CPU_HEADER, GPU_FIELDS};
use super::summary::{DMON_FIELDS, is_dmon_head};

gua_model::words! {
    /// A file that a run's summary is computed from, and its name in the directory of a run.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum RunFile {
        Gpu = "hw_metrics.csv",
        Cpu = "cpu_metrics.csv",
        Dmon = "hw_dmon.csv",
        Log = "run.jsonl",
    }
}

impl RunFile {
    /// Detects the file that contains such a line, written by gua or by the original program.
    ///
    /// ```
    /// use gua_wire::run::kind::RunFile;
    ///
    /// assert_eq!(RunFile::of_line("# gpu     sm    mem     fb"), Some(RunFile::Dmon));
    /// assert_eq!(RunFile::of_line("root:x:0:0:root:/root:/bin/sh"), None);
    /// ```
    pub fn of_line(line: &str) -> Option<Self> {
        let line = line.trim();
        if let Some(head) = line.strip_prefix('#') {
            return is_dmon_head(head).then_some(RunFile::Dmon);
        }
        if line.starts_with('{') {
            let entry: Value = serde_json::from_str(line).ok()?;
            let is_entry = entry["ts"].is_string() && entry["type"].is_string();
            return is_entry.then_some(RunFile::Log);
        }
        let fields: Vec<&str> = line.split(',').map(str::trim).collect();
        let first = fields[0];
        match fields.len() {
            GPU_FIELDS.. if is_date(first, b'/') || first == "timestamp" => Some(RunFile::Gpu),
            3.. if line == CPU_HEADER || is_date(first, b'-') => Some(RunFile::Cpu),
            1 if is_dmon_row(line) => Some(RunFile::Dmon),
            _ => None,
        }
    }

    /// Detects a file by its name. Users add prefixes to these names, but no suffixes.
    pub fn of_name(name: &str) -> Option<Self> {
        Self::ALL
            .into_iter()
            .find(|file| name.ends_with(file.as_str()))
    }
}

/// Whether a text begins with a date such as `2026/05/11`, with `between` as the separator.
fn is_date(text: &str, between: u8) -> bool {
    let pattern = *b"dddd-dd-dd";
    let bytes = text.as_bytes();
    bytes.len() >= pattern.len()
        && bytes
            .iter()
            .zip(pattern)
            .all(|(byte, wanted)| match wanted {
                b'd' => byte.is_ascii_digit(),
                _ => *byte == between,
            })
}

fn is_dmon_row(line: &str) -> bool {
    let mut cells = line.split_ascii_whitespace();
    let is_cell = |cell: &str| cell == "-" || cell.parse::<f64>().is_ok_and(f64::is_finite);
    cells.clone().count() >= DMON_FIELDS && cells.all(is_cell)
}

#[cfg(test)]
mod tests {
    use super::super::metrics::DMON_HEADER;
    use super::*;

    #[test]
    fn a_file_is_known_by_its_lines() {
        let check = |line: &str, expected| assert_eq!(RunFile::of_line(line), expected, "{line}");
        let gpu = "2026/05/11 00:00:00.000, 40, 5, 1024, 40960, [N/A], 41, 1410, 1215";
        check(gpu, Some(RunFile::Gpu));
        check(
            "timestamp, utilization.gpu [%], utilization.memory [%], memory.used [MiB], memory.total [MiB], power.draw [W], temperature.gpu, clocks.sm, clocks.mem",
            Some(RunFile::Gpu),
        );
        check(CPU_HEADER, Some(RunFile::Cpu));
        check(
            "2026-05-11T01:02:03.045+00:00,12.3,80.0\n",
            Some(RunFile::Cpu),
        );
        check(DMON_HEADER.lines().next().unwrap(), Some(RunFile::Dmon));
        check("#Date       Time        gpu     sm", Some(RunFile::Dmon));
        check("    0     45      -      0", Some(RunFile::Dmon));
        check(
            r#"{"ts": "2026-05-11T00:00:00.000+00:00", "type": "event", "event": "x"}"#,
            Some(RunFile::Log),
        );
        for other in [
            "",
            "root:x:0:0:root:/root:/bin/sh",
            "# a comment",
            "{\"name\": \"gua\"}",
            "{ not json",
            "a,b,c",
            "a,b,c,d,e,f,g,h,i",
            "NVIDIA-SMI has failed because it could not talk to the driver",
            "1 2",
            "2026/05/11 00:00:00.000, 40, 5",
        ] {
            check(other, None);
        }
    }

    #[test]
    fn a_file_without_lines_is_known_by_its_name() {
        let check = |name: &str, expected| assert_eq!(RunFile::of_name(name), expected, "{name}");
        for file in RunFile::ALL {
            check(file.as_str(), Some(file));
        }
        check("seven-hw_dmon.csv", Some(RunFile::Dmon));
        check("notes.txt", None);
    }
}

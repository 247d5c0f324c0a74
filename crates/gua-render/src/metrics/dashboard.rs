//! A Grafana dashboard for the metrics of hosts, as JSON that Grafana imports. `gua metrics --dashboard` prints it.

use std::collections::BTreeMap;

use crate::document::{documents, pretty};

/// Title, unit, legend and query of a panel. Units are those of Grafana.
type Row = (&'static str, &'static str, &'static str, &'static str);

/// Declares the panels: title and unit, legend, query.
macro_rules! panels {
    ($($title:literal in $unit:literal, $legend:literal, $query:literal;)*) => {
        const PANELS: &[Row] = &[$(($title, $unit, $legend, $query)),*];
    };
}

panels! {
    "GPUs by state" in "short", "{{gua_gpu_state}}",
        "sum by (gua_gpu_state) (gua_gpu_state{instance=~\"$instance\"})";
    "GPUs with a fault" in "short", "{{gua_gpu_fault}}",
        "sum by (gua_gpu_fault) (gua_gpu_fault{instance=~\"$instance\"}) > 0";
    "Idle-held share of the observed time (1 h)" in "percentunit", "{{instance}}",
        "sum by (instance) (rate(gua_gpu_idle_held_seconds_total{instance=~\"$instance\"}[1h])) / \
         sum by (instance) (rate(gua_gpu_state_seconds_total{instance=~\"$instance\"}[1h]))";
    "Time since a held GPU was active" in "s", "{{instance}} GPU {{gpu}}",
        "(time() - gua_gpu_last_active_timestamp_seconds{instance=~\"$instance\"}) and on (instance, uuid) \
         gua_gpu_holders > 0";
    "Utilisation" in "percentunit", "{{instance}} GPU {{gpu}}",
        "gua_gpu_utilization_ratio{instance=~\"$instance\"}";
    "Memory in use" in "percentunit", "{{instance}} GPU {{gpu}}",
        "gua_gpu_memory_used_bytes{instance=~\"$instance\"} / gua_gpu_memory_size_bytes";
    "Power" in "watt", "{{instance}} GPU {{gpu}}",
        "gua_gpu_power_watts{instance=~\"$instance\"}";
    "Temperature" in "celsius", "{{instance}} GPU {{gpu}}",
        "gua_gpu_temperature_celsius{instance=~\"$instance\"}";
    "Energy in the last day" in "joule", "{{instance}}",
        "sum by (instance) (increase(gua_gpu_energy_joules_total{instance=~\"$instance\"}[1d]))";
    "Unobserved share of the time by reason (1 h)" in "percentunit", "{{instance}} {{reason}}",
        "sum by (instance, reason) (rate(gua_gpu_unobserved_seconds_total{instance=~\"$instance\"}[1h])) / \
         on (instance) group_left () count by (instance) (gua_gpu_info)";
    "Held hours by user (needs metrics.users)" in "h", "{{user}}",
        "sum by (user) (increase(gua_user_held_seconds_total{instance=~\"$instance\"}[1d])) / 3600";
    "CPU of gua" in "percentunit", "{{instance}} {{process}}",
        "rate(gua_collector_cpu_seconds_total{instance=~\"$instance\"}[5m]) and on (instance) gua_collector_interval_seconds";
}

documents! {
    #[serde(rename_all = "camelCase")]
    struct Dashboard from () {
        title: &'static str = "GPUs: held, used, idle",
        uid: &'static str = "gua-hosts",
        tags: [&'static str; 2] = ["gpu", "gua"],
        schema_version: u32 = 39,
        editable: bool = true,
        refresh: &'static str = "1m",
        time: BTreeMap<&'static str, &'static str> = BTreeMap::from([("from", "now-24h"), ("to", "now")]),
        templating: Templating = Templating::new(),
        panels: Vec<Panel> = {
            let panels = PANELS.iter().enumerate();
            panels.map(|(number, row)| Panel::new(number, row)).collect()
        },
    }

    struct Templating from () {
        list: [Variable; 2] = [
            Variable::new("datasource", "Data source", "datasource", "prometheus"),
            Variable::new("instance", "Host", "query", "label_values(gua_build_info, instance)"),
        ],
    }

    #[serde(rename_all = "camelCase")]
    struct Variable from (name: &'static str, label: &'static str, kind: &'static str, query: &'static str) {
        name: &'static str = name,
        label: &'static str = label,
        #[serde(rename = "type")]
        kind: &'static str = kind,
        query: &'static str = query,
        #[serde(skip_serializing_if = "Option::is_none")]
        datasource: Option<Source> = (kind == "query").then(source),
        multi: bool = kind == "query",
        include_all: bool = kind == "query",
        refresh: u32 = 1,
    }

    #[serde(rename_all = "camelCase")]
    struct Panel from (number: usize, row: &Row) {
        id: usize = number + 1,
        title: &'static str = row.0,
        #[serde(rename = "type")]
        kind: &'static str = "timeseries",
        datasource: Source = source(),
        grid_pos: Grid = Grid::new(number),
        field_config: FieldConfig = FieldConfig::new(row),
        targets: [Target; 1] = [Target::new(row)],
    }

    struct Grid from (number: usize) {
        x: usize = 12 * (number % 2),
        y: usize = 8 * (number / 2),
        w: usize = 12,
        h: usize = 8,
    }

    struct FieldConfig from (row: &Row) {
        defaults: Defaults = Defaults::new(row),
        overrides: [(); 0] = [],
    }

    struct Defaults from (row: &Row) {
        unit: &'static str = row.1,
        min: u32 = 0,
    }

    #[serde(rename_all = "camelCase")]
    struct Target from (row: &Row) {
        ref_id: &'static str = "A",
        expr: &'static str = row.3,
        legend_format: &'static str = row.2,
    }
}

/// Type and name of a data source.
type Source = BTreeMap<&'static str, &'static str>;

fn source() -> Source {
    BTreeMap::from([("type", "prometheus"), ("uid", "${datasource}")])
}

/// Returns the dashboard as JSON.
pub fn dashboard() -> String {
    pretty(&Dashboard::new())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::fs;

    use super::super::host::FAMILIES;
    use super::*;

    /// Returns the words that look like metrics of gua; those that rules record begin with `gua:`.
    fn metric_names(text: &str) -> Vec<&str> {
        let words =
            text.split(|letter: char| !letter.is_ascii_alphanumeric() && !"_:".contains(letter));
        words
            .map(|word| word.trim_end_matches(':'))
            .filter(|word| word.starts_with("gua_"))
            .collect()
    }

    /// Names of samples. The label of a state set has the same name.
    fn declared() -> BTreeSet<String> {
        let families = FAMILIES.iter();
        families.map(|(family, _)| family.sample()).collect()
    }

    #[test]
    fn queries_use_only_metrics_that_exist() {
        let samples = declared();
        for (title, _, legend, query) in PANELS {
            for name in metric_names(query).into_iter().chain(metric_names(legend)) {
                assert!(samples.contains(name), "{title}: {name}");
            }
            assert!(query.contains("gua_"), "{title}");
        }
        for unknown in [
            "gua_gpu_power_milliwatts",
            "gua_gpu_held_seconds",
            "gua_gpu",
        ] {
            assert!(!samples.contains(unknown), "{unknown}");
        }
    }

    #[test]
    fn the_shipped_dashboard_is_current() {
        let path = concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/../../contrib/grafana/gua.json"
        );
        let shipped = fs::read_to_string(path).unwrap_or_default();
        assert!(
            shipped == dashboard(),
            "run `gua metrics --dashboard > contrib/grafana/gua.json`"
        );
    }

    #[test]
    fn shipped_rules_use_only_metrics_that_exist() {
        let samples = declared();
        let directory = concat!(env!("CARGO_MANIFEST_DIR"), "/../../contrib/prometheus");
        let mut read = 0;
        for entry in fs::read_dir(directory).unwrap() {
            let path = entry.unwrap().path();
            let text = fs::read_to_string(&path).unwrap();
            for name in metric_names(&text) {
                assert!(samples.contains(name), "{}: {name}", path.display());
                read += 1;
            }
        }
        assert!(read > 10);
    }

    #[test]
    fn every_family_is_documented() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/metrics.md");
        let docs = fs::read_to_string(path).unwrap();
        for (family, _) in FAMILIES {
            let row = format!("| `{}` |", family.sample());
            assert!(
                docs.contains(&row),
                "docs/metrics.md needs: {row} ... {}",
                family.help
            );
        }
    }
}

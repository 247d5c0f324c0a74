//! A Grafana dashboard for the metrics of hosts, as JSON that Grafana imports. `gua metrics --dashboard` prints it.

use serde::Serialize;

use crate::document::pretty;

/// Title, unit, legend and query of a panel. Units are those of Grafana.
type Row = (&'static str, &'static str, &'static str, &'static str);

const PANELS: &[Row] = &[
    (
        "GPUs by state",
        "short",
        "{{gua_gpu_state}}",
        "sum by (gua_gpu_state) (gua_gpu_state{instance=~\"$instance\"})",
    ),
    (
        "GPUs with a fault",
        "short",
        "{{gua_gpu_fault}}",
        "sum by (gua_gpu_fault) (gua_gpu_fault{instance=~\"$instance\"}) > 0",
    ),
    (
        "Idle-held share of the observed time (1 h)",
        "percentunit",
        "{{instance}}",
        "sum by (instance) (rate(gua_gpu_idle_held_seconds_total{instance=~\"$instance\"}[1h])) / \
         sum by (instance) (rate(gua_gpu_state_seconds_total{instance=~\"$instance\"}[1h]))",
    ),
    (
        "Time since a held GPU was active",
        "s",
        "{{instance}} GPU {{gpu}}",
        "(time() - gua_gpu_last_active_timestamp_seconds{instance=~\"$instance\"}) and on (instance, uuid) \
         gua_gpu_holders > 0",
    ),
    (
        "Utilisation",
        "percentunit",
        "{{instance}} GPU {{gpu}}",
        "gua_gpu_utilization_ratio{instance=~\"$instance\"}",
    ),
    (
        "Memory in use",
        "percentunit",
        "{{instance}} GPU {{gpu}}",
        "gua_gpu_memory_used_bytes{instance=~\"$instance\"} / gua_gpu_memory_size_bytes",
    ),
    (
        "Power",
        "watt",
        "{{instance}} GPU {{gpu}}",
        "gua_gpu_power_watts{instance=~\"$instance\"}",
    ),
    (
        "Temperature",
        "celsius",
        "{{instance}} GPU {{gpu}}",
        "gua_gpu_temperature_celsius{instance=~\"$instance\"}",
    ),
    (
        "Energy in the last day",
        "joule",
        "{{instance}}",
        "sum by (instance) (increase(gua_gpu_energy_joules_total{instance=~\"$instance\"}[1d]))",
    ),
    (
        "Unobserved share of the time by reason (1 h)",
        "percentunit",
        "{{instance}} {{reason}}",
        "sum by (instance, reason) (rate(gua_gpu_unobserved_seconds_total{instance=~\"$instance\"}[1h])) / \
         on (instance) group_left () count by (instance) (gua_gpu_info)",
    ),
    (
        "Held hours by user (needs metrics.users)",
        "h",
        "{{user}}",
        "sum by (user) (increase(gua_user_held_seconds_total{instance=~\"$instance\"}[1d])) / 3600",
    ),
    (
        "CPU of gua",
        "percentunit",
        "{{instance}} {{process}}",
        "rate(gua_collector_cpu_seconds_total{instance=~\"$instance\"}[5m])",
    ),
];

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Dashboard {
    title: &'static str,
    uid: &'static str,
    tags: [&'static str; 2],
    schema_version: u32,
    editable: bool,
    refresh: &'static str,
    time: TimeRange,
    templating: Templating,
    panels: Vec<Panel>,
}

#[derive(Serialize)]
struct TimeRange {
    from: &'static str,
    to: &'static str,
}

#[derive(Serialize)]
struct Templating {
    list: [Variable; 2],
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Variable {
    name: &'static str,
    label: &'static str,
    #[serde(rename = "type")]
    kind: &'static str,
    query: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    datasource: Option<DataSource>,
    multi: bool,
    include_all: bool,
    refresh: u32,
}

#[derive(Serialize)]
struct DataSource {
    #[serde(rename = "type")]
    kind: &'static str,
    uid: &'static str,
}

const SOURCE: DataSource = DataSource {
    kind: "prometheus",
    uid: "${datasource}",
};

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Panel {
    id: usize,
    title: &'static str,
    #[serde(rename = "type")]
    kind: &'static str,
    datasource: DataSource,
    grid_pos: Grid,
    field_config: FieldConfig,
    targets: [Target; 1],
}

#[derive(Serialize)]
struct Grid {
    x: usize,
    y: usize,
    w: usize,
    h: usize,
}

#[derive(Serialize)]
struct FieldConfig {
    defaults: Defaults,
    overrides: [(); 0],
}

#[derive(Serialize)]
struct Defaults {
    unit: &'static str,
    min: u32,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Target {
    ref_id: &'static str,
    expr: &'static str,
    legend_format: &'static str,
}

/// Returns the dashboard as JSON.
#[must_use]
pub fn dashboard() -> String {
    let variable = |name, label, kind, query| Variable {
        name,
        label,
        kind,
        query,
        datasource: (kind == "query").then_some(SOURCE),
        multi: kind == "query",
        include_all: kind == "query",
        refresh: 1,
    };
    let panel = |(number, (title, unit, legend, expr)): (usize, &Row)| Panel {
        id: number + 1,
        title,
        kind: "timeseries",
        datasource: SOURCE,
        grid_pos: Grid {
            x: 12 * (number % 2),
            y: 8 * (number / 2),
            w: 12,
            h: 8,
        },
        field_config: FieldConfig {
            defaults: Defaults { unit, min: 0 },
            overrides: [],
        },
        targets: [Target {
            ref_id: "A",
            expr,
            legend_format: legend,
        }],
    };
    pretty(&Dashboard {
        title: "GPUs: held, used, idle",
        uid: "gua-hosts",
        tags: ["gpu", "gua"],
        schema_version: 39,
        editable: true,
        refresh: "1m",
        time: TimeRange {
            from: "now-24h",
            to: "now",
        },
        templating: Templating {
            list: [
                variable("datasource", "Data source", "datasource", "prometheus"),
                variable(
                    "instance",
                    "Host",
                    "query",
                    "label_values(gua_build_info, instance)",
                ),
            ],
        },
        panels: PANELS.iter().enumerate().map(panel).collect(),
    })
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

    /// Names of samples, and of the labels that state sets have.
    fn declared() -> BTreeSet<String> {
        let families = FAMILIES.iter();
        families
            .flat_map(|family| [family.sample(), family.name.to_owned()])
            .collect()
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
        assert!(!samples.contains("gua_gpu_power_milliwatts"));
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
        for family in FAMILIES {
            let row = format!("| `{}` |", family.sample());
            assert!(
                docs.contains(&row),
                "docs/metrics.md needs: {row} ... {}",
                family.help
            );
        }
    }
}

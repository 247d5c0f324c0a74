//! DuckDB and pandas from PyPI read the Parquet files with their types and compute the sums of the report.

use std::process::Command;

use serde_json::Value;

use super::{home, window};
use gua_test::python::PARQUET_READERS;

/// Sums by GPU and by user in both tools, and the column types they see.
const SCRIPT: &str = r#"
import json, sys, duckdb, pandas
totals, people, samples = sys.argv[1:]
def of_duckdb(path, key, columns):
    sums = ", ".join(f"sum({column})::DOUBLE" for column in columns)
    rows = duckdb.sql(f"select {key}, {sums} from '{path}' group by 1").fetchall()
    return {row[0] or "unknown": list(row[1:]) for row in rows}
def of_pandas(path, key, columns):
    frame = pandas.read_parquet(path)
    sums = frame.groupby(key, dropna=False)[columns].sum()
    return {("unknown" if pandas.isna(name) else name): [float(x) for x in row] for name, row in zip(sums.index, sums.values)}
states, held = ["active_us", "idle_held_us", "truly_idle_us"], ["held_us", "idle_held_us"]
types = {name: kind for name, kind, *_ in duckdb.sql(f"describe select * from '{samples}'").fetchall()}
frame = pandas.read_parquet(samples)
print(json.dumps({
    "duckdb": {"totals": of_duckdb(totals, "gpu_uuid", states), "samples": of_duckdb(samples, "gpu_uuid", states), "users": of_duckdb(people, '"user"', held)},
    "pandas": {"totals": of_pandas(totals, "gpu_uuid", states), "samples": of_pandas(samples, "gpu_uuid", states), "users": of_pandas(people, "user", held)},
    "types": [types[name] for name in ("at", "gpu_uuid", "active_us", "is_counted", "util_mean_percent")],
    "pandas_at": str(frame["at"].dtype),
    "compression": duckdb.sql(f"select distinct compression from parquet_metadata('{samples}')").fetchall(),
}))
"#;

#[test]
fn duckdb_and_pandas_compute_the_sums_of_the_report() {
    let (home, until) = home();
    let window = window(until, 240);
    for what in ["totals", "user-totals", "samples"] {
        home.fine(&format!(
            "export --db both.db --what {what} {window} -o {what}.parquet"
        ));
    }
    let output = Command::new(PARQUET_READERS.program("python"))
        .args([
            "-c",
            SCRIPT,
            "totals.parquet",
            "user-totals.parquet",
            "samples.parquet",
        ])
        .current_dir(home.directory())
        .output()
        .unwrap();
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let found: Value = serde_json::from_slice(&output.stdout).unwrap();
    let report: Value =
        serde_json::from_str(&home.fine(&format!("report --db both.db --json {window}"))).unwrap();
    for tool in ["duckdb", "pandas"] {
        for table in ["totals", "samples"] {
            let keys = ["active_hours", "idle_held_hours", "truly_idle_hours"];
            check(
                &found[tool][table],
                &report["gpus"],
                "gpu_uuid",
                &keys,
                tool,
            );
        }
        check(
            &found[tool]["users"],
            &report["users"],
            "user",
            &["held_hours", "idle_held_hours"],
            tool,
        );
    }
    let types = [
        "TIMESTAMP WITH TIME ZONE",
        "VARCHAR",
        "BIGINT",
        "BOOLEAN",
        "DOUBLE",
    ];
    assert_eq!(found["types"], serde_json::json!(types));
    assert_eq!(found["pandas_at"], "datetime64[us, UTC]");
    assert_eq!(found["compression"], serde_json::json!([["ZSTD"]]));
}

fn check(found: &Value, rows: &Value, key: &str, keys: &[&str], tool: &str) {
    let rows = rows.as_array().unwrap();
    assert_eq!(
        found.as_object().unwrap().len(),
        rows.len(),
        "{tool}: {found}"
    );
    for row in rows {
        let name = row[key].as_str().unwrap();
        for (place, column) in keys.iter().enumerate() {
            let hours = found[name][place].as_f64().unwrap() / 3.6e9;
            let expected = row[column].as_f64().unwrap();
            assert!(
                (hours - expected).abs() < 1e-6,
                "{tool}: {name} {column} {hours} and {expected}"
            );
        }
    }
}

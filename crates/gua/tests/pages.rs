//! The pages that commands write and `gua serve` shows, in headless Chromium: accessible by axe-core, not wider than the
//! screen, and small enough to print and to send. `GUA_TEST_PICTURES=DIR` keeps the screenshots.

use gua_test::browser::{Browser, Screen};
use gua_test::{TestHost, wait_until};

use crate::board::served::url;
use crate::{TWO_GPUS, after_the_month, host};

/// Charts of `gua plot`.
const CHARTS: [&str; 5] = ["states", "hours", "heat", "sessions", "quiet"];

const PRICES: &str = "[[price]]\nper_gpu_hour = \"2 EUR\"\nmodel = \"*A100*\"\n\
                      [[price]]\nper_gpu_hour = \"0.50 EUR\"\n";

/// Writes pages of the demo's month, of an empty history and of a statement. Returns their names and addresses.
fn write_pages(home: &TestHost) -> Vec<(String, String)> {
    std::fs::write(home.path(".gua/config.toml"), PRICES).unwrap();
    home.fine("demo --db empty.db --ticks 0");
    for (name, line) in [
        ("month", "report --since 30d"),
        ("hour", "report --since 6h"),
        ("compare", "report --since 7d --compare"),
        ("people", "report --since 7d --by user"),
        ("person", "report --since 7d --user ada"),
        ("korean", "report --since 7d --lang ko"),
        ("empty", "report --db empty.db"),
        ("statement", "statement --month 2026-10"),
    ] {
        home.fine(&format!("{line} -o {name}.html"));
    }
    let charts = CHARTS.map(|chart| {
        let svg = home.fine(&format!("plot {chart} --since 7d --format svg"));
        format!("<section><h2>{chart}</h2>{svg}</section>")
    });
    let page = format!(
        "<!DOCTYPE html><html lang=\"en\"><head><meta charset=\"utf-8\"><title>Plots</title>\
         <style>svg {{ max-width: 100%; height: auto }}</style></head>\
         <body><main><h1>Plots</h1>{}</main></body></html>",
        charts.join("\n")
    );
    home.write("plots.html", page);
    let names = "month hour compare people person korean empty statement plots";
    let address = |name: &str| format!("file://{}", home.path(&format!("{name}.html")).display());
    names
        .split(' ')
        .map(|name| (name.to_owned(), address(name)))
        .collect()
}

/// Problems of pages: rules of axe-core that they violate, and pixels that they are wider than the screen.
fn problems(browser: &Browser, kind: &str, pages: &[(String, String)]) -> Vec<String> {
    let mut wrong = Vec::new();
    for (name, url) in pages {
        browser.go(url);
        browser.keep_picture(&format!("{kind}-{name}"));
        let found = browser.accessibility_problems().into_iter();
        wrong.extend(found.map(|problem| format!("{kind} {name}: {problem}")));
        let wide = browser.run("return document.documentElement.scrollWidth - innerWidth");
        if wide.as_i64().unwrap() > 0 {
            wrong.push(format!("{kind} {name}: {wide} pixels too wide"));
        }
    }
    wrong
}

const PHONE_IN_THE_DARK: Screen = Screen {
    is_dark: true,
    ..Screen::PHONE
};

#[test]
fn pages_that_commands_write_are_accessible() {
    let home = after_the_month();
    let Some(desk) = Browser::start(Screen::DESK) else {
        return;
    };
    let pages = write_pages(&home);
    let mut wrong = problems(&desk, "desk", &pages);
    drop(desk);
    let phone = Browser::start(PHONE_IN_THE_DARK).unwrap();
    wrong.extend(problems(&phone, "phone-dark", &pages));
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn pages_of_one_host_are_accessible() {
    let Some(browser) = Browser::start(Screen::DESK) else {
        return;
    };
    let host = host(TWO_GPUS);
    let daemon = host.foreground("daemon --foreground --interval 100ms");
    wait_until("three ticks", || daemon.stdout().lines().count() >= 3);
    let serve = host.foreground("serve --listen 127.0.0.1:0");
    let base = url(&serve);
    let pages = ["", "report?since=24h", "people?since=7d", "people/nobody"];
    let pages = pages.map(|path| {
        (
            format!("serve-{path}").replace(['/', '?'], "-"),
            format!("{base}/{path}"),
        )
    });
    let mut wrong = problems(&browser, "desk", &pages);
    drop(browser);
    let phone = Browser::start(PHONE_IN_THE_DARK).unwrap();
    wrong.extend(problems(&phone, "phone-dark", &pages));
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// The page has every session of the month; the printed one must be small enough to send.
#[test]
fn a_printed_month_has_less_than_a_megabyte() {
    let home = after_the_month();
    let Some(browser) = Browser::start(Screen::DESK) else {
        return;
    };
    home.fine("report --since 30d -o month.html");
    let sessions = home.json("plot sessions --since 30d --format json");
    let sessions = sessions["rows"].as_array().unwrap().len();
    assert!(sessions > 200, "{sessions} sessions are drawn");
    browser.go(&format!("file://{}", home.path("month.html").display()));
    let paper = browser.print();
    assert!(paper.starts_with(b"%PDF"));
    assert!(paper.len() < 1_000_000, "{} bytes", paper.len());
}

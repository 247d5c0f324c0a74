//! The pages of a real board in headless Chromium: a first start, an agent, live changes, roles, and what everyone can read.

use std::time::Duration;

use gua_probe::clock;
use gua_test::browser::{Browser, Screen};
use gua_test::{Running, TestHost, wait_for};

use crate::{TWO_GPUS, host, without_driver};

const PASSWORD: &str = "correct horse battery";

/// The simulated fleet, and the link that opens it once.
struct Demo {
    home: TestHost,
    running: Running,
    link: String,
}

impl Demo {
    fn start() -> Self {
        let home = without_driver();
        let running = home.foreground("board demo");
        let link = printed(&running, "open once: ");
        Self {
            home,
            running,
            link,
        }
    }

    fn at(&self, path: &str) -> String {
        let (base, _) = self.link.split_once("/demo/").unwrap();
        format!("{base}{path}")
    }
}

/// Rest of the line that begins with a mark.
fn printed(running: &Running, mark: &str) -> String {
    wait_for(mark, || {
        let said = running.stdout();
        let (_, rest) = said.split_once(mark)?;
        let (line, _) = rest.split_once('\n')?;
        Some(line.to_owned())
    })
}

/// Pages of the demonstration. The host and its GPU are those that the guide links.
fn pages(browser: &Browser) -> Vec<(&'static str, String)> {
    let link = |number: u32| {
        let script =
            format!("return document.querySelector('.guide li:nth-child({number}) a').href");
        browser.run(&script).as_str().unwrap().to_owned()
    };
    let tab = |path: &str| browser.url().replace("/w/default", path);
    vec![
        ("availability", browser.url()),
        ("compact", tab("/w/default?form=compact")),
        ("host", link(1)),
        ("gpu", link(2)),
        ("servers", tab("/w/default/servers")),
        ("members", tab("/w/default/members")),
        ("tokens", tab("/w/default/tokens")),
        ("settings", tab("/w/default/settings")),
        ("audit", tab("/w/default/audit")),
        ("me", tab("/w/default/me")),
        ("log-in", tab("/login")),
        ("join", tab("/join")),
        ("reset", tab("/reset")),
        ("screen", wall_screen(browser)),
    ]
}

/// Adds a wall screen on the page of tokens, and returns its link.
fn wall_screen(browser: &Browser) -> String {
    browser.go(&browser.url().replace("/w/default", "/w/default/tokens"));
    browser.run("document.querySelector('[name=scope]').value = 'screen'");
    browser.fill("[name=expiresInDays]", "1");
    browser.click("form[action$=tokens] button");
    wait_for("the link of the screen", || browser.text(".note code"))
}

/// Looks at every page: nothing is inaccessible, nothing is wider than the screen, and no page is large.
fn look_at_all(screen: Screen, name: &str, language: &str) {
    let demo = Demo::start();
    let Some(browser) = Browser::start(screen) else {
        return;
    };
    browser.go(&demo.link);
    browser.go(&demo.at(&format!("/w/default?lang={language}")));
    browser.go(&demo.at("/w/default"));
    let mut wrong = Vec::new();
    for (page, url) in pages(&browser) {
        browser.go(&url);
        browser.keep_picture(&format!("{name}-{page}"));
        for problem in browser.accessibility_problems() {
            wrong.push(format!("{name} {page}: {problem}"));
        }
        let wide = browser.run("return document.documentElement.scrollWidth - innerWidth");
        if wide.as_i64().unwrap() > 0 {
            wrong.push(format!("{name} {page}: {wide} pixels too wide"));
        }
        let bytes =
            browser.run("return performance.getEntriesByType('navigation')[0].decodedBodySize");
        if bytes.as_u64().unwrap() > 100_000 {
            wrong.push(format!("{name} {page}: {bytes} bytes"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn every_page_is_accessible_on_a_desk() {
    look_at_all(Screen::DESK, "desk", "en");
}

#[test]
fn every_page_is_accessible_on_a_phone_in_the_dark_and_in_korean() {
    let screen = Screen {
        is_dark: true,
        ..Screen::PHONE
    };
    look_at_all(screen, "phone-dark-ko", "ko");
}

#[test]
fn the_demonstration_changes_every_second_and_leaves_nothing_behind() {
    let began = clock::monotonic();
    let mut demo = Demo::start();
    let took = clock::monotonic() - began;
    // A fraction of a second on an idle machine; tests run at the same time.
    assert!(took < Duration::from_secs(30), "{took:?}");
    if let Some(browser) = Browser::start(Screen::DESK) {
        browser.go(&demo.link);
        let line = browser.text("h1").unwrap();
        assert!(line.starts_with("Free now: "), "{line}");
        assert!(
            browser
                .text(".guide")
                .unwrap()
                .contains("12 servers with 96 GPUs")
        );
        let rows = || browser.run("return document.querySelector('[data-part=gpus]').innerText");
        let mut shown = rows();
        for _ in 0..3 {
            let before = shown.clone();
            shown = wait_for("a live change", || {
                Some(rows()).filter(|now| *now != before)
            });
        }
        // A free GPU that matches the filter is announced; otherwise the page waits.
        let watch = "document.querySelector('[data-watch]').click()";
        let title = || browser.run("return document.title").to_string();
        let has_changed = || title().starts_with("\"●").then_some(());
        browser.run(watch);
        wait_for("the announcement of a free GPU", has_changed);
        browser.go(&demo.at("/w/default?memory=100"));
        browser.run(watch);
        let pressed = "return document.querySelector('[data-watch]').ariaPressed";
        assert_eq!(browser.run(pressed), "true");
        assert_eq!(has_changed(), None);
        // The link worked once.
        let other = Browser::start(Screen::DESK).unwrap();
        other.go(&demo.link);
        assert_eq!(other.text("h1").as_deref(), Some("Not found"));
    }
    demo.running.stop();
    let left = std::fs::read_dir(demo.home.path("tmp")).unwrap();
    assert_eq!(left.count(), 0);
}

/// A person without JavaScript can search, and see a host.
#[test]
fn the_pages_work_without_a_script() {
    let demo = Demo::start();
    let screen = Screen {
        without_script: true,
        ..Screen::DESK
    };
    let Some(browser) = Browser::start(screen) else {
        return;
    };
    browser.go(&demo.link);
    browser.fill("[name=memory]", "40");
    browser.click(".filter button");
    wait_for("the filtered page", || {
        browser.url().contains("memory=40").then_some(())
    });
    let page = browser.text("main").unwrap();
    assert!(
        page.contains("A6000") && !page.contains("#0\nGeForce"),
        "{page}"
    );
    // The compact form keeps the filter.
    browser.click(".filter .form");
    wait_for("the compact form", || {
        let hosts = browser.text(".hosts")?;
        (hosts.contains("A6000") && !hosts.contains("GeForce")).then_some(())
    });
    browser.click(".hosts a");
    wait_for("the page of a host", || {
        browser.text("h1").filter(|title| title.starts_with("lab-"))
    });
}

#[test]
fn from_a_first_start_to_a_live_host() {
    let home = without_driver();
    let board = home.foreground("board serve --listen 127.0.0.1:0");
    let link = printed(&board, "create the first account: ");
    let base = link.split_once("/join").unwrap().0.to_owned();
    let Some(browser) = Browser::start(Screen::DESK) else {
        return;
    };
    let began = clock::monotonic();
    browser.go(&link);
    browser.fill("[name=name]", "ada");
    browser.fill("[name=password]", PASSWORD);
    browser.click("form.stack button");
    arrive(&browser, "/w/default");
    wait_for("the link to the servers", || browser.text("a.button"));
    browser.click("a.button");
    wait_for("the form for a host", || browser.text("form.row"));
    browser.fill("[name=uses]", "2");
    browser.click("[action$=keys] button");
    let line = wait_for("the line to copy", || browser.text(".note code"));
    let token = line.split(' ').nth(1).unwrap().to_owned();

    let agent = agent(&base, &token);
    let mut daemon = agent.foreground(DAEMON);
    // The page that shows the line updates by itself.
    wait_for("the host on the open page", || rows(&browser, 1));
    // `gua board serve`, and the two commands of the line that was copied.
    let took = clock::monotonic() - began;
    assert!(took < Duration::from_secs(60), "{took:?}");
    // The same line adds the next host.
    let second = self::agent(&base, &token);
    second.play(&busy());
    second.fine("sync-once");
    wait_for("the second host on the open page", || rows(&browser, 2));
    browser
        .run("document.querySelector('[data-part=servers] tr:nth-child(2) details').open = true");
    browser.fill("tr:nth-child(2) [name=note]", "new cooler");
    browser.click("tr:nth-child(2) [action$=maintenance] button");
    wait_for("the note", || {
        let servers = browser.text("[data-part=servers]")?;
        servers.contains("Maintenance: new cooler").then_some(())
    });
    browser
        .run("document.querySelector('[data-part=servers] tr:nth-child(2) details').open = true");
    browser.click("tr:nth-child(2) [action$=end] button");
    wait_for("the end of the maintenance", || {
        let servers = browser.text("[data-part=servers]")?;
        (!servers.contains("Maintenance")).then_some(())
    });
    browser.go(&format!("{base}/w/default"));
    wait_for("a free GPU", || {
        browser
            .text("h1")
            .filter(|line| line.starts_with("Free now: 1 ×"))
    });
    agent.play(&busy());
    wait_for("a live update", || {
        browser
            .text("h1")
            .filter(|line| line.starts_with("No GPU is free"))
    });
    daemon.stop();

    // An invited viewer sees states and no administration.
    browser.go(&format!("{base}/w/default/members"));
    browser.run("document.querySelector('[action$=invitations] select').value = 'viewer'");
    browser.click("[action$=invitations] button");
    browser.keep_picture("invitation");
    let invitation = wait_for("the invitation", || browser.text(".note code"));
    let other = Browser::start(Screen::DESK).unwrap();
    other.go(&invitation);
    other.fill("[name=name]", "viewer");
    other.fill("[name=password]", PASSWORD);
    other.click("form.stack button");
    let pages = wait_for("the pages of a viewer", || other.text("nav"));
    assert!(!pages.contains("Members"), "{pages}");
    other.go(&format!("{base}/w/default/members"));
    assert_eq!(other.text("h1").as_deref(), Some("Not allowed"));

    // Log out, and in again to the page that was asked for.
    browser.click(".right button");
    arrive(&browser, "/login");
    browser.go(&format!("{base}/w/default/servers"));
    browser.fill("[name=name]", "ada");
    browser.fill("[name=password]", "wrong password");
    browser.click("form.stack button");
    wait_for("the refusal", || {
        browser.text(".note").filter(|text| text.contains("wrong"))
    });
    browser.fill("[name=name]", "ada");
    browser.fill("[name=password]", PASSWORD);
    browser.click("form.stack button");
    wait_for("the page that was asked for", || browser.text("nav"));
    arrive(&browser, "/w/default/servers");
}

const DAEMON: &str = "daemon --foreground --cloud --interval 200ms";

/// A host that has enrolled.
fn agent(base: &str, token: &str) -> TestHost {
    let agent = host(TWO_GPUS).variable("GUA_ENROLLMENT_TOKEN", token);
    agent.fine(&format!("enroll --server-url {base}"));
    agent
}

/// The GPUs of a host of which none is free.
fn busy() -> String {
    TWO_GPUS.replace("uuid = \"GPU-b\"", "uuid = \"GPU-b\"\nutil = 60")
}

/// Whether the page of servers lists this many, all of which have reported.
fn rows(browser: &Browser, count: usize) -> Option<()> {
    let servers = browser.text("[data-part=servers]")?;
    (servers.matches("of 2 free").count() == count).then_some(())
}

/// Waits until the browser shows a page: a click returns before the next page is loaded.
fn arrive(browser: &Browser, path: &str) {
    wait_for(path, || browser.url().ends_with(path).then_some(()));
}

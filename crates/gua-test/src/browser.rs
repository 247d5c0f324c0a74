//! Headless Chromium, driven over the WebDriver protocol of chromedriver. Both are packages of Debian (`chromium`,
//! `chromium-driver`), as is `npm`, which fetches axe-core. A machine without them skips the tests that need a browser,
//! and says so.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::{not_tested, python, variable};

/// Key of an element in the protocol.
const ELEMENT: &str = "element-6066-11e4-a52e-4f735466cecf";
/// Messages of the browser driver about an element that a live update has replaced.
const STALE: [&str; 2] = ["stale element reference", "does not belong to the document"];

/// A browser with an empty profile.
#[derive(Debug)]
pub struct Browser {
    driver: Child,
    port: u16,
    session: String,
    _profile: TempDir,
}

/// Size and mode of the browser window.
#[derive(Clone, Copy, Debug, Default)]
pub struct Screen {
    pub width: u32,
    pub height: u32,
    pub is_dark: bool,
    pub without_script: bool,
}

impl Screen {
    pub const DESK: Screen = Screen {
        width: 1280,
        height: 1000,
        is_dark: false,
        without_script: false,
    };
    pub const PHONE: Screen = Screen {
        width: 390,
        height: 844,
        ..Screen::DESK
    };
}

/// Reports whether everything that a browser test needs is installed.
pub fn is_installed() -> bool {
    let is_there = |name: &str| Path::new("/usr/bin").join(name).exists();
    ["chromium", "chromedriver", "npm"]
        .into_iter()
        .all(is_there)
}

impl Browser {
    /// Starts a browser; `None` if it is not installed.
    pub fn start(screen: Screen) -> Option<Self> {
        if !is_installed() {
            not_tested("no chromium, chromium-driver or npm", "pages in a browser");
            return None;
        }
        let profile = tempfile::tempdir().unwrap();
        let mut driver = Command::new("/usr/bin/chromedriver")
            .arg("--port=0")
            .env("HOME", profile.path())
            .env("TMPDIR", profile.path())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let output = BufReader::new(driver.stdout.take().unwrap());
        let port = { output }.lines().find_map(|line| {
            let line = line.ok()?;
            let port = line.split_once("successfully on port ")?.1;
            port.trim_end_matches('.').parse().ok()
        });
        let mut browser = Self {
            driver,
            port: port.expect("chromedriver states its port"),
            session: String::new(),
            _profile: profile,
        };
        let answer = browser.call("POST", "/session", &browser.capabilities(screen));
        browser.session = answer["sessionId"].as_str().unwrap().to_owned();
        Some(browser)
    }

    fn capabilities(&self, screen: Screen) -> Value {
        let mut arguments = vec![
            "--headless=new".to_owned(),
            "--no-sandbox".to_owned(),
            "--disable-gpu".to_owned(),
            "--disable-quic".to_owned(),
            "--no-first-run".to_owned(),
            "--disable-background-networking".to_owned(),
            "--disable-component-update".to_owned(),
            "--disable-sync".to_owned(),
            "--disable-dev-shm-usage".to_owned(),
            "--hide-scrollbars".to_owned(),
            "--force-device-scale-factor=1".to_owned(),
            format!(
                "--user-data-dir={}",
                self._profile.path().join("profile").display()
            ),
            format!("--window-size={},{}", screen.width, screen.height),
        ];
        if screen.is_dark {
            arguments.push("--blink-settings=preferredColorScheme=0".to_owned());
        }
        let script = if screen.without_script { 2 } else { 1 };
        let mut options = json!({
            "args": arguments,
            "binary": "/usr/bin/chromium",
            "prefs": {"profile.managed_default_content_settings.javascript": script},
        });
        // A desktop window cannot be narrower than 500 pixels.
        if screen.width < 500 {
            let metrics =
                json!({"width": screen.width, "height": screen.height, "pixelRatio": 1.0});
            options["mobileEmulation"] = json!({"deviceMetrics": metrics});
        }
        // After a click, the next page may still be loading, so the driver waits up to 2 s for an element.
        json!({"capabilities": {"alwaysMatch": {
            "browserName": "chrome",
            "goog:chromeOptions": options,
            "timeouts": {"implicit": 2000},
        }}})
    }

    /// Loads a page and waits until it is complete.
    pub fn go(&self, url: &str) {
        self.ask("POST", "/url", &json!({"url": url}));
    }

    pub fn url(&self) -> String {
        self.ask("GET", "/url", &Value::Null)
            .as_str()
            .unwrap()
            .to_owned()
    }

    /// Visible text of the first element that the CSS selector finds; `None` if there is none.
    pub fn text(&self, selector: &str) -> Option<String> {
        let text = self.of_element("GET", selector, "text", &Value::Null)?;
        Some(text.as_str().unwrap().to_owned())
    }

    /// Clicks the first element that the CSS selector finds.
    #[track_caller]
    pub fn click(&self, selector: &str) {
        let clicked = self.of_element("POST", selector, "click", &json!({}));
        clicked.expect(selector);
    }

    /// Replaces the content of a field.
    #[track_caller]
    pub fn fill(&self, selector: &str, text: &str) {
        let cleared = self.of_element("POST", selector, "clear", &json!({}));
        cleared.expect(selector);
        let filled = self.of_element("POST", selector, "value", &json!({"text": text}));
        filled.expect(selector);
    }

    /// Runs a function body in the page and returns its result.
    pub fn run(&self, script: &str) -> Value {
        self.ask(
            "POST",
            "/execute/sync",
            &json!({"script": script, "args": []}),
        )
    }

    /// Runs a function body that calls its last argument with the result.
    pub fn run_async(&self, script: &str) -> Value {
        self.ask(
            "POST",
            "/execute/async",
            &json!({"script": script, "args": []}),
        )
    }

    /// Picture of the visible part of the page, as PNG.
    pub fn picture(&self) -> Vec<u8> {
        let picture = self.ask("GET", "/screenshot", &Value::Null);
        data_encoding::BASE64
            .decode(picture.as_str().unwrap().as_bytes())
            .unwrap()
    }

    /// The page as it is printed, as PDF.
    pub fn print(&self) -> Vec<u8> {
        let paper = self.ask("POST", "/print", &json!({"background": true}));
        data_encoding::BASE64
            .decode(paper.as_str().unwrap().as_bytes())
            .unwrap()
    }

    /// Returns the rules of axe-core that the page violates, with the elements. Elements that satisfy the rules are not
    /// described: that took most of the time on a page with thousands of them.
    pub fn accessibility_problems(&self) -> Vec<String> {
        self.run(&format!("{};return 0", python::axe_core()));
        let found = self.run_async(
            "const done = arguments[arguments.length - 1];
             axe.run({preload: false, resultTypes: ['violations']}).then((found) => done(found.violations.map((one) =>
                 one.id + ': ' + one.nodes.map((node) => node.html).slice(0, 3).join(' '))), (error) => done([String(error)]));",
        );
        let found = found.as_array().unwrap().iter();
        found.map(|one| one.as_str().unwrap().to_owned()).collect()
    }

    /// Writes a picture of the page to `GUA_TEST_PICTURES`, if that is set.
    pub fn keep_picture(&self, name: &str) {
        if let Some(directory) = variable("GUA_TEST_PICTURES") {
            let path = Path::new(&directory).join(format!("{name}.png"));
            std::fs::write(path, self.picture()).unwrap();
        }
    }

    fn find(&self, selector: &str) -> Option<String> {
        let wanted = json!({"using": "css selector", "value": selector});
        let found = self.ask("POST", "/elements", &wanted);
        Some(found.get(0)?[ELEMENT].as_str().unwrap().to_owned())
    }

    /// Calls a command of the first element that the selector finds. A live update can replace the element after it was
    /// found; it is then looked up again.
    #[track_caller]
    fn of_element(&self, method: &str, selector: &str, name: &str, body: &Value) -> Option<Value> {
        loop {
            let element = self.find(selector)?;
            let path = format!("/session/{}/element/{element}/{name}", self.session);
            match self.try_call(method, &path, body) {
                Err(reason) if STALE.iter().any(|stale| reason.contains(stale)) => {}
                answer => return Some(answer.unwrap()),
            }
        }
    }

    #[track_caller]
    fn ask(&self, method: &str, path: &str, body: &Value) -> Value {
        self.call(method, &format!("/session/{}{path}", self.session), body)
    }

    #[track_caller]
    fn call(&self, method: &str, path: &str, body: &Value) -> Value {
        self.try_call(method, path, body).unwrap()
    }

    fn try_call(&self, method: &str, path: &str, body: &Value) -> Result<Value, String> {
        let body = match body {
            Value::Null => String::new(),
            body => body.to_string(),
        };
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).unwrap();
        let head = format!(
            "{method} {path} HTTP/1.1\r\nHost: 127.0.0.1:{}\r\nConnection: close\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n",
            self.port,
            body.len()
        );
        stream.write_all((head + &body).as_bytes()).unwrap();
        // The driver keeps the connection open, whatever it is asked.
        let mut answer = BufReader::new(stream);
        let mut length = 0;
        loop {
            let mut line = String::new();
            answer.read_line(&mut line).unwrap();
            let line = line.trim_end().to_lowercase();
            if let Some(value) = line.strip_prefix("content-length:") {
                length = value.trim().parse().unwrap();
            }
            if line.is_empty() {
                break;
            }
        }
        let mut body = vec![0; length];
        answer.read_exact(&mut body).unwrap();
        let answer: Value = serde_json::from_slice(&body).unwrap();
        let value = answer["value"].clone();
        match value["error"].is_null() {
            true => Ok(value),
            false => Err(format!("{method} {path}: {value}")),
        }
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        // Without this a failed test would leave its browser running.
        if !self.session.is_empty() {
            let _ = self.try_call(
                "DELETE",
                &format!("/session/{}", self.session),
                &Value::Null,
            );
        }
        // The driver ends its browser when it is asked to end.
        let pid = rustix::process::Pid::from_child(&self.driver);
        let _ = rustix::process::kill_process(pid, rustix::process::Signal::TERM);
        let _ = self.driver.wait();
    }
}

//! Outputs of the replaced tools: taken live where a Python that runs them is found, else read from a recording.
//!
//! A recording is a JSON file in `crates/gua-test/recordings` with the values that a test took from the real releases, in
//! order, and with its date and versions. `scripts/record-originals` writes them by running the tests live. A test asks for
//! every value of an original through [`Tape::take`] or [`Tape::file`], so that both ways run the same assertions on ours.

use std::cell::{Cell, RefCell};
use std::path::{Path, PathBuf};
use std::process::Command;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use sha2::Digest as _;

use crate::{TestHost, clock, originals, variable};

/// Set by `scripts/record-originals`.
const RECORD: &str = "GUA_RECORD_ORIGINALS";

/// A recording as it is stored.
#[derive(Debug, Serialize, Deserialize)]
struct Recording {
    /// The UTC day of the recording.
    recorded: String,
    python: String,
    /// The packages that were run, in pip's notation.
    packages: Vec<String>,
    values: Vec<Value>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mode {
    Live,
    Recording,
    Replaying,
}

/// The values that one test takes from originals.
#[derive(Debug)]
pub struct Tape {
    path: PathBuf,
    mode: Mode,
    packages: Vec<String>,
    values: RefCell<Vec<Value>>,
    next: Cell<usize>,
}

impl Tape {
    /// The tape of this name, for releases of gpu-usage-audit. Prints whether the test runs them or reads the recording.
    pub fn open(name: &str, releases: &[&str]) -> Self {
        let path = Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("recordings")
            .join(format!("{name}.json"));
        let packages: Vec<String> = releases
            .iter()
            .map(|version| format!("gpu-usage-audit=={version}"))
            .collect();
        let mut tape = Self {
            mode: Mode::Live,
            packages,
            values: RefCell::default(),
            next: Cell::new(0),
            path,
        };
        match originals::find_python() {
            Some(python) => {
                eprintln!("originals: live, with {}", python.display());
                if variable(RECORD).is_some() {
                    tape.mode = Mode::Recording;
                }
            }
            None => {
                let recording = tape.read();
                eprintln!(
                    "originals: recorded on {} with Python {} from {}",
                    recording.recorded,
                    recording.python,
                    recording.packages.join(", ")
                );
                tape.mode = Mode::Replaying;
                tape.values = recording.values.into();
            }
        }
        tape
    }

    /// Whether the originals run now.
    pub fn is_live(&self) -> bool {
        self.mode != Mode::Replaying
    }

    /// A value of an original: of `live` where it runs, else the next one of the recording.
    #[track_caller]
    pub fn take<T: Serialize + DeserializeOwned>(&self, live: impl FnOnce() -> T) -> T {
        if self.mode == Mode::Replaying {
            let next = self.next.get();
            self.next.set(next + 1);
            let values = self.values.borrow();
            let value = values.get(next).unwrap_or_else(|| {
                let path = self.path.display();
                panic!("{path} has {next} values; run scripts/record-originals")
            });
            return serde_json::from_value(value.clone()).unwrap();
        }
        let value = live();
        if self.mode == Mode::Recording {
            let stored = serde_json::to_value(&value).unwrap();
            self.values.borrow_mut().push(stored);
        }
        value
    }

    /// A file that `live` writes or changes, else the recorded content at the same path.
    #[track_caller]
    pub fn file(&self, path: &Path, live: impl FnOnce()) {
        let content = self.take(|| {
            live();
            Content::of(&std::fs::read(path).unwrap())
        });
        if self.mode == Mode::Replaying {
            std::fs::write(path, content.bytes()).unwrap();
        }
    }

    /// Stops the wall clock of a host now, or when the recording was made.
    pub fn stop_clock(&self, host: &mut TestHost) {
        clock::stop(host, &self.take(clock::now));
    }

    /// A history that a release's own demo writes, or continues.
    #[track_caller]
    pub fn demo(&self, version: &str, db: &Path, ticks: u32) {
        self.file(db, || originals::demo(version, db, ticks));
    }

    /// Holds that an original is about to read the same input as in the recording, of which its recorded output tells.
    #[track_caller]
    pub fn input(&self, input: &str) {
        let recorded = self.take(|| input.to_owned());
        assert_eq!(input, recorded, "not the input of the recording");
    }

    fn read(&self) -> Recording {
        let text = std::fs::read_to_string(&self.path).unwrap_or_else(|error| {
            let path = self.path.display();
            panic!("{path}: {error}; run scripts/record-originals where there is Python 3.12")
        });
        serde_json::from_str(&text).unwrap()
    }
}

impl Drop for Tape {
    fn drop(&mut self) {
        if self.mode != Mode::Recording || std::thread::panicking() {
            return;
        }
        let recording = Recording {
            recorded: printed(Command::new("date").args(["-u", "+%F"])),
            python: printed(
                Command::new(originals::python())
                    .args(["-c", "import platform; print(platform.python_version())"]),
            ),
            packages: self.packages.clone(),
            values: self.values.take(),
        };
        std::fs::create_dir_all(self.path.parent().unwrap()).unwrap();
        let text = serde_json::to_string_pretty(&recording).unwrap();
        std::fs::write(&self.path, text + "\n").unwrap();
    }
}

fn printed(command: &mut Command) -> String {
    let output = originals::run(command);
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

/// The content of a file, compressed as text: a history has many zeros.
#[derive(Debug, Serialize, Deserialize)]
struct Content {
    gzip_base64: String,
}

impl Content {
    fn of(bytes: &[u8]) -> Self {
        let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
        std::io::Write::write_all(&mut gzip, bytes).unwrap();
        Self {
            gzip_base64: data_encoding::BASE64.encode(&gzip.finish().unwrap()),
        }
    }

    fn bytes(&self) -> Vec<u8> {
        let gzip = data_encoding::BASE64
            .decode(self.gzip_base64.as_bytes())
            .unwrap();
        let mut bytes = Vec::new();
        std::io::Read::read_to_end(
            &mut flate2::read::GzDecoder::new(gzip.as_slice()),
            &mut bytes,
        )
        .unwrap();
        bytes
    }
}

/// The values of a recording, for a test that sends them to a board of ours.
pub fn recording(name: &str) -> Vec<Value> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("recordings");
    let text = std::fs::read_to_string(folder.join(format!("{name}.json"))).unwrap();
    serde_json::from_str::<Recording>(&text).unwrap().values
}

/// Returns the SHA-256 digest of a text, in hexadecimal.
pub fn digest(text: &str) -> String {
    data_encoding::HEXLOWER.encode(&sha2::Sha256::digest(text.as_bytes()))
}

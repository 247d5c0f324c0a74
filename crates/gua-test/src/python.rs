//! Python environments beside the build, each made at first use and shared by all tests. An environment that cannot be made
//! fails the test with the reason; nothing is skipped.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::Command;

/// First line of requirements whose dependencies must not be installed. pip knows this as a flag only.
const ALONE: &str = "--no-deps\n";

/// The Python of the machine.
pub fn system() -> PathBuf {
    let works = Command::new("python3").arg("--version").output();
    assert!(
        works.is_ok_and(|output| output.status.success()),
        "python3 is not on PATH: install Python 3.9 or later, with venv and pip"
    );
    PathBuf::from("python3")
}

/// The Python that environments are made with: the distribution's if it can make them, because a container has no other.
fn of_environments() -> PathBuf {
    let makes = |python: &Path| {
        let mut venv = Command::new(python);
        venv.args(["-c", "import venv, ensurepip"]);
        venv.output().is_ok_and(|output| output.status.success())
    };
    let distribution = PathBuf::from("/usr/bin/python3");
    if makes(&distribution) {
        distribution
    } else {
        system()
    }
}

/// Python packages that tests need together.
#[derive(Clone, Copy, Debug)]
pub struct Environment {
    name: &'static str,
    /// In the format of pip's file.
    requirements: &'static str,
}

/// The GPU listing programs that people use today and a JSON schema validator.
pub const PEERS: Environment = Environment {
    name: "look-peers",
    requirements: include_str!("peers.txt"),
};

/// Programs that read the driver, and its C header.
pub const CLIENTS: Environment = Environment {
    name: "nvml-clients",
    requirements: include_str!("clients.txt"),
};

/// An imitation of nvidia-smi, which runs with the Python of [`CLIENTS`].
pub const NVIDIA_SMI: &str = include_str!("nvidia_smi.py");

/// The original of `gua run`'s files. The module in question needs none of the package's requirements.
pub const RUN_MONITOR: Environment = Environment {
    name: "run-monitor",
    requirements: "--no-deps\npytyche==0.2.1\n",
};

/// Programs that read Parquet files, of any release: users have the newest.
pub const PARQUET_READERS: Environment = Environment {
    name: "parquet-readers",
    requirements: "duckdb\npandas\npyarrow\n",
};

/// Programs that check the files in `contrib/`: manifests of Kubernetes and roles of Ansible. Ansible brings PyYAML.
pub const CONTRIB_CHECKERS: Environment = Environment {
    name: "contrib-checkers",
    requirements: "ansible-core==2.19.14\nkubernetes-validate==1.37.0\n",
};

/// Every environment for the Python of the machine, for those who make them before the tests run.
pub const ALL: [Environment; 5] = [
    PEERS,
    CLIENTS,
    RUN_MONITOR,
    PARQUET_READERS,
    CONTRIB_CHECKERS,
];

impl Environment {
    /// Its directory. Makes it at first use.
    pub fn directory(self) -> PathBuf {
        environment(of_environments, self.name, self.requirements)
    }

    /// A program in it, such as `python`.
    pub fn program(self, name: &str) -> PathBuf {
        self.directory().join("bin").join(name)
    }
}

/// The environment of this name with these requirements, in the format of pip's file. `python` makes it at first use.
pub fn environment(python: fn() -> PathBuf, name: &str, requirements: &str) -> PathBuf {
    let tools = directory();
    let environment = tools.join(name);
    let finished = environment.join("requirements.txt");
    let is_finished = || std::fs::read_to_string(&finished).ok().as_deref() == Some(requirements);
    // One that is there already is also found where nothing can be written.
    if is_finished() {
        return environment;
    }
    std::fs::create_dir_all(&tools).unwrap();
    // Tests run side by side, in this process and in others; one of them makes the environment.
    let lock = File::create(tools.join(format!("{name}.lock"))).unwrap();
    lock.lock().unwrap();
    if !is_finished() {
        make(&python(), &environment, requirements);
        std::fs::write(&finished, requirements).unwrap();
    }
    environment
}

/// Fetches axe-core, which finds what makes a page inaccessible, with npm.
const FETCH_AXE: &str = r#"
import hashlib, io, pathlib, subprocess, sys, tarfile, tempfile
with tempfile.TemporaryDirectory() as home:
    npm = ["npm", "pack", "--silent", "--cache", home, "--pack-destination", home, "axe-core@4.14.0"]
    subprocess.run(npm, check=True, stdout=subprocess.DEVNULL, timeout=120)
    archive = next(pathlib.Path(home).glob("*.tgz")).read_bytes()
assert hashlib.sha512(archive).hexdigest() == "f564d9c448ec67b6f5dd31fc24f99b576cfc0876e5f34ff6866dd73c41b826035d40b2bcd480515e64b11df3003a44aa41e4714ffd1dc0d0f3d863a6df3ce971", "unexpected content"
sys.stdout.buffer.write(tarfile.open(fileobj=io.BytesIO(archive)).extractfile("package/axe.min.js").read())
"#;

/// Fetches the schema of cloud-init from Debian's package. The package is not installed, because it changes how a machine boots.
const FETCH_CLOUD_INIT: &str = r#"
set -e
directory=$(mktemp -d)
trap 'rm -r "$directory"' EXIT
cd "$directory"
apt-get download -q cloud-init >&2 || { apt-get update -q >&2 && apt-get download -q cloud-init >&2; }
dpkg-deb --fsys-tarfile cloud-init_*.deb | tar --extract --to-stdout --wildcards '*/schema-cloud-config-v1.json'
"#;

/// The script of axe-core. Fetches it at first use.
pub fn axe_core() -> String {
    let mut fetch = Command::new(system());
    let path = fetched("axe-core-4.14.0.min.js", fetch.args(["-c", FETCH_AXE]));
    std::fs::read_to_string(path).unwrap()
}

/// The JSON schema of cloud-init's `#cloud-config` files; `None` on a system without apt-get. Fetches it at first use.
pub fn cloud_init_schema() -> Option<PathBuf> {
    let apt = Command::new("apt-get").arg("--version").output();
    apt.ok()?;
    let mut fetch = Command::new("bash");
    let fetch = fetch.args(["-o", "pipefail", "-c", FETCH_CLOUD_INIT]);
    Some(fetched("cloud-init-schema.json", fetch))
}

/// Returns the path of a file next to the environments. At first use, the output of a command is written to it.
fn fetched(name: &str, fetch: &mut Command) -> PathBuf {
    let path = directory().join(name);
    if path.exists() {
        return path;
    }
    let output = fetch.output().unwrap();
    let reason = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "cannot fetch {name}\n{reason}");
    std::fs::create_dir_all(directory()).unwrap();
    // Tests run side by side: each writes a file of its own and renames it.
    let part = path.with_extension(std::process::id().to_string());
    std::fs::write(&part, &output.stdout).unwrap();
    std::fs::rename(&part, &path).unwrap();
    path
}

/// The directory of all environments, beside the build.
fn directory() -> PathBuf {
    target_directory().join("test-tools")
}

fn make(python: &Path, environment: &Path, requirements: &str) {
    if environment.exists() {
        std::fs::remove_dir_all(environment).unwrap();
    }
    run(
        Command::new(python).args(["-m", "venv"]).arg(environment),
        "cannot make a Python environment: install Python 3.9 or later with its venv module (python3-venv on Debian)",
    );
    let wanted = environment.join("wanted.txt");
    let alone = requirements.strip_prefix(ALONE);
    std::fs::write(&wanted, alone.unwrap_or(requirements)).unwrap();
    run(
        Command::new(environment.join("bin/python"))
            .args(["-m", "pip", "install", "--quiet"])
            .arg("--disable-pip-version-check")
            .args(alone.map(|_| ALONE.trim_end()))
            .arg("-r")
            .arg(wanted),
        "cannot fetch what the tests compare with: connect to a Python package index, or point pip at a mirror, and run \
         the tests again",
    );
}

fn run(command: &mut Command, otherwise: &str) {
    match command.output() {
        Ok(output) if output.status.success() => {}
        Ok(output) => panic!("{otherwise}\n{}", String::from_utf8_lossy(&output.stderr)),
        Err(error) => panic!("{otherwise}\n{error}"),
    }
}

/// The build directory: a test runs from `TARGET/PROFILE/deps`, a program from `TARGET/PROFILE`.
pub(crate) fn target_directory() -> PathBuf {
    let program = std::env::current_exe().unwrap();
    let mut folders = program.ancestors().skip(1);
    let profile = folders.find(|folder| !folder.ends_with("deps"));
    let target = profile.and_then(Path::parent);
    target
        .expect("a test runs from TARGET/PROFILE/deps")
        .to_owned()
}

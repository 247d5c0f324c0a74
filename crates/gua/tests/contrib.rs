//! The examples in `contrib/`: each is checked by the tool that reads it, and its commands and configuration by gua itself.
//! The files for Prometheus are tested in `metrics.rs`.

use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use gua_model::{Tick, Workload};
use gua_probe::clock;
use gua_store::{NewRun, OpenMode, Store, WriterOptions};
use gua_test::python::{CONTRIB_CHECKERS, cloud_init_schema};
use gua_test::{Sleeper, TestHost, not_tested, samples, wait_for};
use jiff::SignedDuration;
use serde_json::Value;

use crate::{GUA, OWN_ETC, TWO_GPUS, host};

fn contrib(path: &str) -> PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../contrib");
    std::fs::canonicalize(root.join(path)).unwrap()
}

/// The documents of a YAML file.
fn yaml(path: &Path) -> Vec<Value> {
    let script =
        "import json, sys, yaml\nprint(json.dumps(list(yaml.safe_load_all(open(sys.argv[1])))))";
    let output = Command::new(CONTRIB_CHECKERS.program("python"))
        .args(["-c", script])
        .arg(path)
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");
    serde_json::from_slice(&output.stdout).unwrap()
}

fn words(list: &Value) -> Vec<&str> {
    let words = list.as_array().unwrap().iter();
    words.map(|word| word.as_str().unwrap()).collect()
}

/// A configuration with the paths of the test instead of those of the system.
fn with_own_paths(host: &TestHost, config: &str) -> String {
    config
        .replace("/var/lib/gua", &host.path("state").display().to_string())
        .replace("0.0.0.0:19400", "127.0.0.1:0")
}

/// Checks a configuration as the user's own.
fn check_config(host: &TestHost, config: &str) {
    host.write(".gua/config.toml", with_own_paths(host, config));
    let checked = host.gua("config check");
    assert_eq!(checked.code, 0, "{checked:?}");
}

#[test]
fn the_manifest_is_valid_and_the_agent_in_it_becomes_healthy() {
    let manifest = contrib("kubernetes/gua.yaml");
    let output = Command::new(CONTRIB_CHECKERS.program("kubernetes-validate"))
        .arg("--strict")
        .arg(&manifest)
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");
    let documents = yaml(&manifest);
    let of_kind = |kind: &str| documents.iter().find(|one| one["kind"] == kind).unwrap();

    let host = host(TWO_GPUS).variable("GUA_INTERVAL", "100ms");
    std::fs::create_dir(host.path("state")).unwrap();
    check_config(
        &host,
        of_kind("ConfigMap")["data"]["config.toml"]
            .as_str()
            .unwrap(),
    );
    let agent = &of_kind("DaemonSet")["spec"]["template"]["spec"]["containers"][0];
    let probe = words(&agent["readinessProbe"]["exec"]["command"])[1..].join(" ");
    let before = host.gua(&probe);
    assert_eq!(before.code, 1, "{before:?}");
    assert!(before.stdout.starts_with("unhealthy: "), "{before:?}");

    let command = words(&agent["command"]);
    assert_eq!(command[0], "gua");
    let mut daemon = host.foreground(&command[1..].join(" "));
    let ready = wait_for("health", || {
        Some(host.gua(&probe)).filter(|probe| probe.code == 0)
    });
    assert!(ready.stdout.starts_with("healthy: last tick "), "{ready:?}");
    assert_eq!(ready.stdout.lines().count(), 1);
    // Every line of the container's log is a JSON object.
    daemon.stop();
    let log = daemon.stderr();
    let stored: Vec<Value> = log
        .lines()
        .map(|line| serde_json::from_str(line).unwrap_or_else(|_| panic!("{line}")))
        .collect();
    assert!(
        stored
            .iter()
            .any(|line| line["message"] == "serving metrics")
    );
    assert_eq!(host.read("foreground.out"), "");
    let after = host.gua(&probe);
    assert_eq!(after.code, 1, "{after:?}");
    assert!(after.stdout.contains("the daemon stopped"), "{after:?}");
}

/// Mounts the ConfigMap as the kubelet does, with a copy of /etc. The volume is world-writable
/// (<https://github.com/kubernetes/kubernetes/issues/133641>).
const MOUNT_CONFIGURATION: &str = r#"
mkdir /etc/gua
chmod 777 "$HOME/volume"
ln -s ..data/config.toml "$HOME/volume/config.toml"
[ -d "$MOUNT_PATH" ] || touch "$MOUNT_PATH"
mount --bind "$HOME/volume/$SUB_PATH" "$MOUNT_PATH"
unset GUA_TEST_SYSTEM_CONFIG
exec "$@"
"#;

#[test]
fn the_agent_in_the_manifest_trusts_its_configuration() {
    if !gua_test::can_mount("the mounts of the manifest") {
        return;
    }
    let documents = yaml(&contrib("kubernetes/gua.yaml"));
    let of_kind = |kind: &str| documents.iter().find(|one| one["kind"] == kind).unwrap();
    let config = of_kind("ConfigMap")["data"]["config.toml"]
        .as_str()
        .unwrap();
    let agent = &of_kind("DaemonSet")["spec"]["template"]["spec"]["containers"][0];
    let mut mounts = agent["volumeMounts"].as_array().unwrap().iter();
    let mount = mounts.find(|one| one["name"] == "configuration").unwrap();

    let host = host(TWO_GPUS);
    std::fs::create_dir(host.path("state")).unwrap();
    host.write("volume/..data/config.toml", with_own_paths(&host, config));
    let mut command = host.command("/usr/bin/unshare");
    command
        .args(["--mount", "/bin/sh", "-ec"])
        .arg(OWN_ETC.to_owned() + MOUNT_CONFIGURATION)
        .args(["sh", GUA])
        .args(&words(&agent["command"])[1..])
        .env("MOUNT_PATH", mount["mountPath"].as_str().unwrap())
        .env("SUB_PATH", mount["subPath"].as_str().unwrap_or_default());
    let mut daemon = host.start(command);
    wait_for("the configured metrics", || {
        let log = daemon.stderr();
        assert!(!log.contains("not trusted"), "{log}");
        log.contains("serving metrics").then_some(())
    });
    daemon.stop();
}

/// A host whose scripts find gua, and a `logger` that writes to a file.
fn slurm_node(scenario: &str) -> TestHost {
    let host = host(scenario);
    host.write(
        "bin/logger",
        "#!/bin/sh\nprintf '%s\\n' \"$*\" >>\"$HOME/syslog\"\n",
    );
    let mode = std::fs::Permissions::from_mode(0o755);
    std::fs::set_permissions(host.path("bin/logger"), mode).unwrap();
    std::os::unix::fs::symlink(GUA, host.path("bin/gua")).unwrap();
    let path = format!("{}:/usr/bin:/bin", host.path("bin").display());
    host.variable("PATH", path)
        .variable("SLURM_JOB_ID", "4711")
        .variable("SLURM_JOB_GPUS", "0,1")
}

/// Runs a script of a Slurm node and returns its exit code and the lines that it logs.
fn run_script(host: &TestHost, script: &Path) -> (i32, String) {
    host.write("syslog", "");
    let ended = host.run("/bin/sh", &script.display().to_string());
    (ended.code, host.read("syslog"))
}

#[test]
fn the_prolog_logs_gpus_that_are_not_free() {
    let sleeper = Sleeper::new();
    let held = format!(
        "[[gpu]]\n[[gpu]]\n[[gpu.process]]\npid = {}\nmemory_mib = 900\n",
        sleeper.pid()
    );
    let host = slurm_node(&held);
    let prolog = contrib("slurm/prolog.sh");
    let (code, log) = run_script(&host, &prolog);
    assert_eq!(code, 0);
    assert!(
        log.starts_with("-t gua-prolog job 4711: gpu 1 is held by "),
        "{log}"
    );
    assert_eq!(log.lines().count(), 1, "{log}");
    let text = std::fs::read_to_string(&prolog).unwrap();
    let draining = host.write("drain.sh", text.replace("DRAIN=no", "DRAIN=yes"));
    assert_eq!(run_script(&host, &draining).0, 1);

    host.play("[[gpu]]\n[[gpu]]\n");
    assert_eq!(run_script(&host, &draining), (0, String::new()));
    // The driver has lost GPU 1.
    host.play("[[gpu]]\n");
    let (code, log) = run_script(&host, &draining);
    assert_eq!(code, 1);
    assert_eq!(
        log,
        "-t gua-prolog job 4711: gpu 1 is not listed as a whole GPU\n"
    );
    // A driver that cannot be read stops no job.
    host.play("[[gpu]]\n[[fault]]\nfunction = \"nvmlInit*\"\ncode = 9\n");
    let (code, log) = run_script(&host, &draining);
    assert_eq!(code, 0);
    assert!(log.contains("job 4711: GPUs not checked: "), "{log}");
}

#[test]
fn the_epilog_logs_the_hours_of_the_job_and_what_it_left_behind() {
    let sleeper = Sleeper::new();
    let held = format!(
        "[[gpu]]\n[[gpu.process]]\npid = {}\nmemory_mib = 900\n[[gpu]]\n",
        sleeper.pid()
    );
    let now = clock::now();
    let started = now - SignedDuration::from_secs(3600);
    let host = slurm_node(&held).variable("SLURM_JOB_START_TIME", started.as_second().to_string());
    record_workload(
        &host,
        &Workload {
            job: "4711".parse().ok(),
            ..Workload::default()
        },
    );
    let (code, log) = run_script(&host, &contrib("slurm/epilog.sh"));
    assert_eq!(code, 0);
    let lines: Vec<&str> = log.lines().collect();
    assert!(
        lines[0].starts_with("-t gua-epilog job 4711: held 0.5"),
        "{log}"
    );
    assert!(lines[0].ends_with(" of them idle"), "{log}");
    let left = "-t gua-epilog job 4711: after the job, gpu 0 is held by ";
    assert!(lines[1].starts_with(left), "{log}");
    assert_eq!(lines.len(), 2, "{log}");
    let other = host.variable("SLURM_JOB_ID", "4712");
    other.play("[[gpu]]\n");
    let epilog = contrib("slurm/epilog.sh");
    let (code, log) = run_script(&other, &epilog);
    assert_eq!(code, 0);
    let lines: Vec<&str> = log.lines().collect();
    let expected = [
        "-t gua-epilog job 4712: no recorded use of a GPU",
        "-t gua-epilog job 4712: after the job, gpu 1 is not listed as a whole GPU",
    ];
    assert_eq!(lines, expected);
    other.play("[[gpu]]\n[[fault]]\nfunction = \"nvmlInit*\"\ncode = 9\n");
    let (code, log) = run_script(&other, &epilog);
    assert_eq!(code, 0);
    assert!(log.contains("job 4712: GPUs not checked: "), "{log}");
}

#[test]
fn reports_have_the_hours_of_jobs_pods_and_containers() {
    let container = "3f1c09a7b2d4e6f83f1c09a7b2d4e6f83f1c09a7b2d4e6f83f1c09a7b2d4e6f8";
    let in_pod = Workload {
        pod: "8f6e2c1a-3c5d-4f7b-9a43-1d2e3f4a5b6c".parse().ok(),
        pod_name: Some("vision/train-0".to_owned()),
        container: container.parse().ok(),
        ..Workload::default()
    };
    let alone = Workload {
        container: container.parse().ok(),
        container_name: Some("web".to_owned()),
        ..Workload::default()
    };
    let job = Workload {
        job: "4711".parse().ok(),
        ..Workload::default()
    };
    for (workload, by, name) in [
        (&job, "job", "4711"),
        (&in_pod, "pod", "vision/train-0"),
        (&in_pod, "container", container),
        (&alone, "container", "web"),
    ] {
        let host = host(TWO_GPUS);
        record_workload(&host, workload);
        let csv = host.fine(&format!("report --since 1d --by {by} --csv"));
        let mut lines = csv.lines().map(|line| line.split(',').collect::<Vec<_>>());
        let header = lines.next().unwrap();
        let held = header.iter().position(|name| *name == "held_hours");
        let named = lines.find(|line| line[0] == name).expect(&csv);
        let hours: f64 = named[held.unwrap()].parse().unwrap();
        assert!((0.49..0.52).contains(&hours), "{by}: {csv}");
        let json = host.fine(&format!("report --since 1d --by {by} --json"));
        let text = host.fine(&format!("report --since 1d --by {by}"));
        for output in [json, text] {
            assert!(output.contains(name.get(..12).unwrap_or(name)), "{output}");
        }
    }
}

/// Records a process that held a GPU for half an hour, until a few minutes ago.
fn record_workload(host: &TestHost, workload: &Workload) {
    let interval = Duration::from_secs(60);
    let started = clock::now() - SignedDuration::from_mins(40);
    let path = host.path(".gua/gua.db");
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    let mut store = Store::open(&path, OpenMode::Create, &WriterOptions::default()).unwrap();
    let run = NewRun {
        started,
        interval,
        host: "node".to_owned(),
        version: "0".to_owned(),
        boot: None,
    };
    let run = store.begin_run(&run).unwrap();
    for minute in 0..=30 {
        let at = started + SignedDuration::from_mins(minute);
        let mut process = samples::process(7, samples::user(1000, "ada"), 900);
        if let Ok(identity) = &mut process.identity {
            identity.workload = workload.clone();
        }
        let holders = Vec::from_iter((minute < 30).then_some(process));
        let sample = samples::sample(at, vec![samples::gpu(0, "GPU-a", 0, holders)]);
        store.record(run, &Tick { sample, interval }).unwrap();
    }
    store.close().unwrap();
}

/// A program of Ansible in the directory of the example.
fn ansible(host: &TestHost, program: &Path) -> Command {
    let mut command = host.command(program);
    // Ansible refuses a locale that is not UTF-8, and writes to HOME and to the user's directory in /etc/passwd.
    command
        .current_dir(contrib("ansible"))
        .env("ANSIBLE_LOCAL_TEMP", host.path("tmp"))
        .env("ANSIBLE_REMOTE_TMP", host.path("tmp"))
        .env(
            "ANSIBLE_INTERPRETER_PYTHON_FALLBACK",
            CONTRIB_CHECKERS.program("python"),
        )
        .stdin(Stdio::null());
    command
}

#[test]
fn the_role_of_ansible_is_valid_and_writes_a_valid_configuration() {
    let host = host(TWO_GPUS);
    let directory = contrib("ansible");
    let playbook = |program: &str| ansible(&host, &CONTRIB_CHECKERS.program(program));
    let output = playbook("ansible-playbook")
        .args(["--syntax-check", "-i", "gpu_servers,", "site.yml"])
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");

    let play = yaml(&directory.join("site.yml"));
    let variables = &play[0][0]["roles"][0]["vars"];
    let defaults = &yaml(&directory.join("roles/gua/defaults/main.yml"))[0];
    for variables in [variables, defaults] {
        let arguments = format!(
            "src={}/roles/gua/templates/config.toml.j2 dest={}",
            directory.display(),
            host.path("config.toml").display()
        );
        let output = playbook("ansible")
            .args(["localhost", "-i", "localhost,", "-c", "local"])
            .args(["-m", "ansible.builtin.template", "-a", &arguments])
            .args(["-e", &variables.to_string()])
            .output()
            .unwrap();
        assert!(output.status.success(), "{output:?}");
        check_config(&host, &host.read("config.toml"));
    }
    let shown = host.fine("config show");
    assert!(shown.contains("30s"), "{shown}");
}

/// Runs the example with a copy of /etc, and without systemd: with `--check`, with a wrong setting, to install
/// although a later task fails, after the service was removed, and again.
const PLAY: &str = r#"
# The settings of the test's host.
unset $(env | sed -n 's/^\(GUA_[A-Z_]*\)=.*/\1/p')
for directory in /run /var/lib /usr/local/bin; do mount -t tmpfs -o mode=755 tmpfs $directory; done
play() { "$PLAYBOOK" -i "$HOME/hosts" -e ansible_become=false -e gua_binary="$PROGRAM" "$@"; }
status() { /usr/local/bin/gua service status --system; }
play --check site.yml
test ! -e /usr/local/bin/gua -a ! -e /etc/gua
! play -e '{"gua_config": {"collect": {"intervall": "30s"}}}' "$HOME/fails-later.yml"
test ! -e /etc/gua/config.toml
! play "$HOME/fails-later.yml"
status
getent passwd gua
/usr/local/bin/gua config check
/usr/local/bin/gua service uninstall --system
echo 'removed:'
status
play site.yml
echo 'again:'
play site.yml
status
"#;

/// The role in a play with a task that fails.
const FAILS_LATER: &str =
    "- hosts: gpu_servers\n  roles: [gua]\n  post_tasks:\n    - ansible.builtin.fail:\n";

#[test]
fn the_role_of_ansible_installs_the_service_on_a_fresh_host() {
    if !gua_test::can_mount("the role of Ansible on a fresh host") {
        return;
    }
    let host = host(TWO_GPUS);
    host.write(
        "hosts",
        "[gpu_servers]\nlocalhost ansible_connection=local\n",
    );
    host.write("fails-later.yml", FAILS_LATER);
    let output = ansible(&host, Path::new("/usr/bin/unshare"))
        .args(["--mount", "/bin/sh", "-ec", &(OWN_ETC.to_owned() + PLAY)])
        .env("ANSIBLE_ROLES_PATH", contrib("ansible/roles"))
        .env("PLAYBOOK", CONTRIB_CHECKERS.program("ansible-playbook"))
        .env("PROGRAM", GUA)
        .env("ANSIBLE_GATHERING", "explicit")
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{output:?}");
    let (first, rest) = text.split_once("removed:\n").unwrap();
    let (second, again) = rest.split_once("again:\n").unwrap();
    let installed = "gua service: installed at /etc/systemd/system/gua.service";
    assert!(first.contains(installed), "{first}");
    assert!(second.starts_with("gua service: not installed"), "{second}");
    assert!(again.contains(installed), "{again}");
    assert!(
        again.contains(" changed=0 ") && again.contains(" failed=0 "),
        "{again}"
    );
}

#[test]
fn the_example_of_cloud_init_is_valid_and_has_a_valid_configuration() {
    let path = contrib("cloud-init/user-data.yaml");
    let text = std::fs::read_to_string(&path).unwrap();
    assert!(
        text.starts_with("#cloud-config\n"),
        "cloud-init ignores other files"
    );
    let document = &yaml(&path)[0];
    let files = document["write_files"].as_array().unwrap();
    let config = files
        .iter()
        .find(|file| file["path"] == "/etc/gua/config.toml")
        .unwrap();
    check_config(&host(TWO_GPUS), config["content"].as_str().unwrap());
    // A list of words runs without a shell, so nothing in it is expanded.
    for command in document["runcmd"].as_array().unwrap() {
        assert!(!words(command).is_empty());
    }
    let Some(schema) = cloud_init_schema() else {
        not_tested("no apt-get", "the schema of the example of cloud-init");
        return;
    };
    let is_valid = |document: &Value| {
        let script = "import json, jsonschema, sys\n\
                      schema = json.load(open(sys.argv[1]))\n\
                      jsonschema.Draft4Validator(schema).validate(json.loads(sys.argv[2]))";
        let checked = Command::new(CONTRIB_CHECKERS.program("python"))
            .args(["-c", script])
            .arg(&schema)
            .arg(document.to_string())
            .output()
            .unwrap();
        let error = String::from_utf8_lossy(&checked.stderr);
        let is_mistake = error.contains("ValidationError");
        assert!(checked.status.success() || is_mistake, "{error}");
        !is_mistake
    };
    assert!(is_valid(document));
    let mut wrong = document.clone();
    wrong["write_files"][0]["permissions"] = 644.into();
    assert!(!is_valid(&wrong), "the schema is not checked");
}

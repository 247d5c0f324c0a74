//! The stream of the real agent, on simulated GPUs, into a WebSocket server that keeps its first frame.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};

use gua_model::{Bytes, Percent};
use gua_wire::server_url::STREAM;
use gua_wire::snapshot::Form;
use gua_wire::stream::UtilFrame;
use nvml_sim::driver::{self, Generation};
use nvml_sim::scenario::Scenario;

use crate::gpus::sample;
use crate::sent::{compact, enrolment};
use gua_test::originals::released;
use gua_test::tape::Tape;

const GPUS: &str = r#"
[[gpu]]
uuid = "GPU-00000000-0000-4000-8000-00000000000a"
util = 37
memory_total_mib = 40000
memory_used_mib = 12345
[[gpu]]
uuid = "GPU-00000000-0000-4000-8000-00000000000b"
util = 0
memory_total_mib = 40000
memory_used_mib = 0
"#;

/// Uses the same WebSocket library as the agent. Prints its port, then path, authorization and text of a frame.
const SERVER: &str = r#"
import asyncio, websockets
async def main():
    done = asyncio.Event()
    async def keep(connection):
        if not done.is_set():
            text = await connection.recv()
            print(connection.request.path, connection.request.headers["Authorization"], text, sep="\n", flush=True)
            done.set()
    async with websockets.serve(keep, "127.0.0.1", 0) as server:
        print(server.sockets[0].getsockname()[1], flush=True)
        await done.wait()
asyncio.run(main())
"#;

/// A program that is killed at the end of the test.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Port of the server, and path, authorization and text of the first frame that the real agent sends.
fn streamed() -> (String, String, String, String) {
    let home = tempfile::tempdir().unwrap();
    driver::install(home.path(), Generation::LATEST).unwrap();
    let scenario = Scenario::parse(GPUS).unwrap_or_else(|error| panic!("{error}"));
    scenario.write(home.path().join("scenario.toml")).unwrap();

    let agent = released("1.8.0");
    let server = Command::new(agent.with_file_name("python"))
        .args(["-c", SERVER])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn();
    let mut server = Running(server.unwrap());
    let mut lines = BufReader::new(server.0.stdout.take().unwrap()).lines();
    let mut line = || lines.next().unwrap().unwrap();
    let port = line();
    std::fs::write(
        home.path().join("cloud.json"),
        enrolment(&address(&port)).write(),
    )
    .unwrap();

    // The server answers no push; the agent and its stream continue.
    let daemon = Command::new(agent)
        .args(["daemon", "--cloud", "--foreground", "--interval", "60s"])
        .args(["--db", "gua.db", "--config", "cloud.json"])
        .current_dir(home.path())
        .env("HOME", home.path())
        .env("LD_LIBRARY_PATH", home.path())
        .env(nvml_sim::VARIABLE, home.path().join("scenario.toml"))
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn();
    let _daemon = Running(daemon.unwrap());
    (port, line(), line(), line())
}

fn address(port: &str) -> String {
    format!("http://127.0.0.1:{port}/gua/")
}

#[test]
fn release_1_8_streams_the_same() {
    let tape = Tape::open("wire-stream", &["1.8.0"]);
    let (port, path, authorization, text) = tape.take(streamed);
    let config = enrolment(&address(&port));
    let asked = config.server_url.websocket_at(STREAM);
    assert!(
        asked.starts_with("ws://127.0.0.1:") && asked.ends_with(&path),
        "{asked} {path}"
    );
    assert_eq!(authorization, config.agent_token.bearer());
    let theirs: UtilFrame = serde_json::from_str(&text).unwrap();
    assert_eq!(theirs.text(), compact(&text));
    let mut sample = sample(Form::V1_4, jiff::Timestamp::UNIX_EPOCH);
    sample.gpus.truncate(2);
    for (gpu, (letter, util, used)) in sample.gpus.iter_mut().zip([("a", 37, 12_345), ("b", 0, 0)])
    {
        gpu.uuid = format!("GPU-00000000-0000-4000-8000-00000000000{letter}")
            .parse()
            .unwrap();
        gpu.util = Ok(Percent::new(util).unwrap());
        gpu.memory_used = Ok(Bytes::from_mb(used));
        // Memory reserved by the simulated driver; the agent's call does not report it separately.
        gpu.memory_reserved = Ok(Bytes::from_mb(500));
    }
    assert_eq!(UtilFrame::of(&sample).gpus, theirs.gpus);
    assert!(theirs.ts > 1.7e9, "{text}");
}

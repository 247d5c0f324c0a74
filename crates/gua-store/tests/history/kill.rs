//! The writer is killed at any moment, 200 times, and no stored tick is lost.

use std::io::{BufRead as _, BufReader};
use std::process::{Command, Stdio};
use std::time::Duration;

use crate::{Place, example, read_all};
use gua_test::synthetic::Dice;

const KILLS: u32 = 200;

#[test]
fn two_hundred_kills_lose_no_stored_tick() {
    let place = Place::new();
    let writer = example("write_ticks");
    let mut dice = Dice(3);
    let mut stored: Vec<i64> = Vec::new();
    for _ in 0..KILLS {
        let mut child = Command::new(&writer)
            .arg(place.path())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let out = child.stdout.take().unwrap();
        let mut lines = BufReader::new(out).lines().map_while(Result::ok);
        // After none to five stored ticks, on a machine of any speed. From there the moment is the variable: while it opens,
        // writes, closes a quarter, or waits.
        let after = usize::try_from(dice.roll(6)).unwrap();
        let mut printed: Vec<String> = lines.by_ref().take(after).collect();
        std::thread::sleep(Duration::from_micros(dice.roll(20_000)));
        child.kill().unwrap();
        child.wait().unwrap();
        printed.extend(lines);
        // A truncated line does not count as printed.
        stored.extend(
            printed
                .iter()
                .filter(|line| line.len() == 16)
                .map(|line| line.parse::<i64>().unwrap()),
        );
    }
    assert!(
        stored.len() > 200,
        "only {} ticks were written",
        stored.len()
    );
    let history = place.history();
    let found: Vec<i64> = read_all(&history)
        .iter()
        .map(|tick| tick.sample.at.as_microsecond())
        .collect();
    for at in &stored {
        assert!(found.binary_search(at).is_ok(), "{at} is lost");
    }
    let report = history.check(|_| {}).unwrap();
    assert!(report.is_clean(), "{report:?}");
    assert!(report.quarters_compared > 3, "{report:?}");
    // The next writer continues.
    place.store();
}

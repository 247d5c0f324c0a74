//! Trap 7 of docs/traps.md: events between two ticks.

use gua_model::{Missing, Percent};

use crate::host::{FileHost, only, process_of};

/// Idle at this very moment, busy for half of the time before.
fn square_wave(at: f64) -> String {
    format!(
        r#"
        [clock]
        at = {at}
        origin_unix_ms = 1700000000000
        [[gpu]]
        util = {{ square = {{ low = 0, high = 80, period = 10, duty = 0.5, phase = 0 }} }}
        [[gpu.process]]
        pid = 7
        memory_mib = 900
        sm_util = {{ square = {{ low = 0, high = 60, period = 10, duty = 0.5, phase = 0 }} }}
        "#
    )
}

#[test]
fn trap_7_events_between_two_ticks_come_from_the_drivers_buffer() {
    let host = FileHost::new(&square_wave(1009.0));
    let mut probe = host.probe();
    let first = probe.sample().unwrap();
    assert_eq!(only(&first).util, Ok(Percent::ZERO));
    host.play(&square_wave(1019.0));
    let second = probe.sample().unwrap();
    let gpu = only(&second);
    let window = gpu.window.unwrap();
    assert_eq!(gpu.util, Ok(Percent::ZERO), "the instant reading misses it");
    assert_eq!(window.max, Percent::new(80));
    let mean = window.mean().unwrap();
    assert!((38.0..42.0).contains(&mean), "{mean}");
    let covered = window.covered.as_secs_f64();
    assert!(
        (9.7..10.3).contains(&covered),
        "{covered} s since the last tick, not the whole buffer"
    );
    let sm_util = process_of(gpu, 7).sm_util.unwrap().unwrap().get();
    assert!((27..=33).contains(&sm_util), "{sm_util}");
}

#[test]
fn trap_7_a_process_without_samples_is_not_an_error() {
    let host = FileHost::new(
        "[buffers]\nprocess_samples = 0\n[[gpu]]\n[[gpu.process]]\npid = 7\nmemory_mib = 900\n",
    );
    let fault = "[[fault]]\nfunction = \"nvmlDeviceGetProcessUtilization\"\ncode = \"NOT_FOUND\"\n";
    host.play(&format!(
        "[[gpu]]\n[[gpu.process]]\npid = 7\nmemory_mib = 900\n{fault}"
    ));
    let sample = host.sample();
    assert_eq!(process_of(only(&sample), 7).sm_util, Ok(None));
    assert_eq!(sample.problems, []);
}

#[test]
fn trap_7_values_above_a_hundred_are_dropped_and_not_clamped() {
    let host = FileHost::new(
        "[buffers]\njunk_every = 2\njunk = 4000\n[clock]\nat = 1000.0\n[[gpu]]\nutil = 20\n",
    );
    let sample = host.sample();
    let window = only(&sample).window.unwrap();
    assert_eq!((window.max, window.mean()), (Percent::new(20), Some(20.0)));
    assert!(window.junk > 10, "{window:?}");

    let junk_now = FileHost::new("[[gpu]]\nutil = 101\n").sample();
    assert_eq!(only(&junk_now).util, Err(Missing::Failed));
    assert_eq!(junk_now.problems.len(), 1);

    let process =
        "[clock]\nat = 1000.0\n[[gpu]]\n[[gpu.process]]\npid = 7\nmemory_mib = 9\nsm_util = 250\n";
    let junk_process = FileHost::new(process).sample();
    assert_eq!(process_of(only(&junk_process), 7).sm_util, Ok(None));
}

#[test]
fn trap_7_a_clock_that_went_back_does_not_silence_the_buffers() {
    for without_gpu_buffer in [false, true] {
        let fault = "[[fault]]\nfunction = \"nvmlDeviceGetSamples\"\ncode = \"NOT_SUPPORTED\"\n";
        let scenario = |at| {
            let wave = square_wave(at);
            if without_gpu_buffer {
                format!("{wave}{fault}")
            } else {
                wave
            }
        };
        let host = FileHost::new(&scenario(5000.0));
        let mut probe = host.probe();
        probe.sample().unwrap();
        host.play(&scenario(1000.0));
        // One tick to notice, without samples.
        let noticed = probe.sample().unwrap();
        if !without_gpu_buffer {
            assert_eq!(only(&noticed).window.unwrap().samples(), 0);
        }
        host.play(&scenario(1010.0));
        let sample = probe.sample().unwrap();
        let gpu = only(&sample);
        if !without_gpu_buffer {
            assert!((9.7..10.3).contains(&gpu.window.unwrap().covered.as_secs_f64()));
        }
        // Without the GPU's buffer the newest known time is when the process last worked, five seconds earlier.
        let expected = if without_gpu_buffer { 18..=22 } else { 27..=33 };
        let sm_util = process_of(gpu, 7).sm_util.unwrap().map(Percent::get);
        assert!(
            sm_util.is_some_and(|util| expected.contains(&util)),
            "{sm_util:?}"
        );
    }
}

#[test]
fn trap_7_a_processs_share_covers_the_time_since_the_last_tick() {
    let scenario = |at| {
        format!(
            "[clock]\nat = {at}\norigin_unix_ms = 1700000000000\n[[gpu]]\n[[gpu.process]]\npid = 7\nmemory_mib = 9\nsm_util = {{ steps = [[0, 90], [1010, 20]] }}\n"
        )
    };
    let host = FileHost::new(&scenario(1010.0));
    let mut probe = host.probe();
    probe.sample().unwrap();
    host.play(&scenario(1020.0));
    let sample = probe.sample().unwrap();
    let share = process_of(only(&sample), 7)
        .sm_util
        .unwrap()
        .map(Percent::get);
    // One sample lies half before and half after.
    assert!(
        share.is_some_and(|share| (20..=22).contains(&share)),
        "{share:?}"
    );
}

#[test]
fn trap_7_samples_of_different_length_weigh_by_their_time() {
    let scenario = |at| {
        format!(
            "[clock]\nat = {at}\norigin_unix_ms = 1700000000000\n[[gpu]]\n[[gpu.process]]\npid = 7\nmemory_mib = 9\nsm_util = {{ steps = [[0, 0], [1000, 80], [1009, 20]] }}\n"
        )
    };
    let host = FileHost::new(&scenario(1000.0));
    let mut probe = host.probe();
    probe.sample().unwrap();
    // Nine seconds at 80, then one at 20.
    host.play(&scenario(1009.0));
    probe.drain();
    host.play(&scenario(1010.0));
    let sample = probe.sample().unwrap();
    let share = process_of(only(&sample), 7).sm_util.unwrap().unwrap().get();
    assert!((72..=76).contains(&share), "{share}");
}

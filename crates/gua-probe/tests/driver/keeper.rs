//! The thread that owns the driver: it answers all callers, and a hung driver costs them one deadline.

use std::time::Duration;

use gua_probe::clock;
use gua_probe::fault::DriverFault;
use gua_probe::keeper::Keeper;

use super::host::FileHost;

const HANG: &str = "[[gpu]]\n[[fault]]\nfunction = \"nvmlDeviceGet*\"\nhang = true\n";

fn keeper(host: &FileHost, deadline: Duration) -> Keeper {
    Keeper::start(host.options(), deadline).unwrap()
}

#[test]
fn several_threads_request_and_one_thread_reads() {
    let host = FileHost::new("");
    host.play_with_journal("[[gpu]]\nutil = 7\n");
    let keeper = keeper(&host, Duration::from_secs(30));
    let ask = || keeper.sample().unwrap().gpus.len();
    let answers = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..8).map(|_| scope.spawn(ask)).collect();
        threads
            .into_iter()
            .map(|thread| thread.join().unwrap())
            .sum::<usize>()
    });
    assert_eq!(answers, 8);
    assert_eq!(host.calls("nvmlInit_v2"), 1);
}

#[test]
fn a_hung_driver_costs_one_deadline_and_no_more() {
    let host = FileHost::new("[[gpu]]\n");
    let keeper = keeper(&host, Duration::from_millis(300));
    keeper.sample().unwrap();
    host.play(HANG);
    for _ in 0..2 {
        let began = clock::monotonic();
        let fault = keeper.sample().unwrap_err();
        assert!(matches!(fault, DriverFault::Hung { .. }), "{fault}");
        assert!(clock::monotonic() - began < Duration::from_secs(5));
    }
    let mut pending = keeper.begin();
    assert!(pending.wait(Duration::from_millis(1)).is_none());
    assert!(pending.wait(Duration::MAX).is_some());
}

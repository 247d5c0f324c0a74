//! Opening, reloading and closing the library.

use crate::stage::{Stage, frozen};
use nvml_sim::driver::Generation;
use nvml_sim::scenario::{self, Gpu, Scenario};

const POWER: &str = "nvmlDeviceGetPowerUsage";

fn powered(watts: f64) -> Scenario {
    frozen(
        0.0,
        [Gpu {
            uuid: "GPU-a".to_owned(),
            power_w: Some(watts.into()),
            ..Gpu::default()
        }],
    )
}

#[test]
fn a_running_client_sees_a_new_scenario_and_keeps_the_last_valid_one() {
    let stage = Stage::new(&powered(10.0));
    let gpu = stage.handle(0).unwrap();
    let power = || stage.read::<u32>(POWER, gpu);
    assert_eq!(power(), Ok(10_000));
    stage.rewrite(&powered(20.0));
    assert_eq!(power(), Ok(20_000));
    scenario::write_text(&stage.scenario_path(), "not [ a scenario").unwrap();
    assert_eq!(power(), Ok(20_000));
    std::fs::remove_file(stage.scenario_path()).unwrap();
    assert_eq!(power(), Ok(20_000));
    stage.rewrite(&powered(30.0));
    assert_eq!(power(), Ok(30_000));
}

#[test]
fn a_handle_refers_to_its_gpu_in_any_order() {
    let gpu = |uuid: &str, watts: f64| Gpu {
        uuid: uuid.to_owned(),
        power_w: Some(watts.into()),
        ..Gpu::default()
    };
    let stage = Stage::new(&frozen(0.0, [gpu("GPU-a", 1.0), gpu("GPU-b", 2.0)]));
    let second = stage.handle(1).unwrap();
    stage.rewrite(&frozen(0.0, [gpu("GPU-b", 2.0), gpu("GPU-a", 1.0)]));
    assert_eq!(stage.read::<u32>(POWER, second), Ok(2000));
    stage.rewrite(&frozen(0.0, [gpu("GPU-a", 1.0)]));
    assert_eq!(stage.read::<u32>(POWER, second), Err(15));
}

#[test]
fn without_a_scenario_the_driver_is_not_loaded_and_with_a_broken_one_the_error_is_unknown() {
    let stage = Stage::unopened(&powered(1.0), Generation::LATEST);
    std::fs::remove_file(stage.scenario_path()).unwrap();
    assert_eq!(stage.init(), 9);
    assert_eq!(stage.count(), Err(1));
    std::fs::write(stage.scenario_path(), "util = ").unwrap();
    assert_eq!(stage.init(), 999);
    stage.rewrite(&powered(1.0));
    assert_eq!(stage.init(), 0);
    assert_eq!(stage.count(), Ok(1));
}

#[test]
fn initialisations_are_counted() {
    let stage = Stage::new(&powered(1.0));
    assert_eq!(stage.init(), 0);
    assert_eq!(stage.shutdown(), 0);
    assert_eq!(stage.count(), Ok(1));
    assert_eq!(stage.shutdown(), 0);
    assert_eq!(stage.count(), Err(1));
    assert_eq!(stage.shutdown(), 1);
}

#[test]
fn many_threads_can_read_while_the_scenario_changes() {
    let stage = Stage::new(&powered(10.0));
    let gpu = stage.handle(0).unwrap().expose_provenance();
    std::thread::scope(|scope| {
        let reader = || {
            let readings = (0..3000).map(|_| {
                let gpu = std::ptr::with_exposed_provenance_mut(gpu);
                stage.read::<u32>(POWER, gpu)
            });
            readings.collect::<std::collections::BTreeSet<_>>()
        };
        let readers: Vec<_> = (0..4).map(|_| scope.spawn(reader)).collect();
        for watts in [20.0, 30.0, 40.0] {
            stage.rewrite(&powered(watts));
        }
        let scripted = [Ok(10_000), Ok(20_000), Ok(30_000), Ok(40_000)];
        for reader in readers {
            let seen = reader.join().unwrap();
            assert!(
                seen.iter().all(|reading| scripted.contains(reading)),
                "{seen:?}"
            );
        }
    });
    assert_eq!(
        stage.read::<u32>(POWER, std::ptr::with_exposed_provenance_mut(gpu)),
        Ok(40_000)
    );
}

#[test]
fn closing_the_library_really_unloads_it() {
    let stage = Stage::new(&powered(1.0));
    assert!(stage.read::<u32>(POWER, stage.handle(0).unwrap()).is_ok());
    // A reload, an error message and a delay could each keep it loaded.
    stage.rewrite(&powered(2.0));
    scenario::write_text(&stage.scenario_path(), "broken").unwrap();
    assert_eq!(stage.count(), Ok(1));
    let folder = stage.directory.path().to_str().unwrap().to_owned();
    let mapped = || {
        std::fs::read_to_string("/proc/self/maps")
            .unwrap()
            .contains(&folder)
    };
    assert!(mapped());
    stage.library.close().unwrap();
    assert!(!mapped());
}

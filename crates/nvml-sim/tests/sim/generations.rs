//! Older drivers lack exactly the functions that they lacked.

use crate::stage::{Stage, frozen};
use nvml_sim::driver::Generation;
use nvml_sim::scenario::Gpu;

#[test]
fn a_generation_has_exactly_its_symbols_and_its_version() {
    for generation in Generation::ALL {
        let stage = Stage::unopened(&frozen(0.0, [Gpu::default()]), generation);
        for function in nvml_sim::functions() {
            let name = function.name;
            assert_eq!(
                stage.has(name),
                generation.has(name),
                "{name} in {generation}"
            );
        }
        assert!(stage.has("nvmlErrorString"));
        assert_eq!(stage.init(), 0);
        assert_eq!(stage.version().unwrap(), generation.version());
    }
}

#[test]
fn the_scenario_can_name_another_version() {
    let mut scenario = frozen(0.0, []);
    scenario.driver.version = Some("545.23.08".to_owned());
    assert_eq!(Stage::new(&scenario).version().unwrap(), "545.23.08");
}

#[test]
fn a_file_that_is_not_a_library_is_not_installed() {
    let folder = tempfile::tempdir().unwrap();
    let text = folder.path().join("text");
    std::fs::write(&text, "not a library").unwrap();
    let error = nvml_sim::driver::install_from(&text, folder.path(), Generation::R390).unwrap_err();
    assert!(
        error.to_string().contains("is not the simulated library"),
        "{error}"
    );
    assert!(!folder.path().join("libnvidia-ml.so.1").exists());
}

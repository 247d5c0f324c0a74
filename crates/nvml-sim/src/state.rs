//! State between calls: the world, the initialisations, and the handles.
//!
//! It has no thread and no thread-local data, so that `dlclose` can unload the library.

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::code::Code;
use crate::foreign::Device;
use crate::scenario::Scenario;
use crate::source::{self, Identity};
use crate::world::{Unit, World};

/// Delay until a client notices a new scenario at its next call, unless the old one sets another.
pub(crate) const LOOK_EVERY: f64 = 0.001;

static STATE: Mutex<State> = Mutex::new(State::new());

pub(crate) fn lock() -> MutexGuard<'static, State> {
    STATE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Frees everything when the library is unloaded. A call that hangs does not hold the lock.
pub(crate) fn clear() {
    if let Ok(mut state) = STATE.try_lock() {
        *state = State::new();
    }
}

#[derive(Debug)]
pub(crate) struct State {
    path: Option<PathBuf>,
    seen: Option<Identity>,
    /// Time of the last check whether the scenario has changed, in seconds since 1970.
    looked: Option<f64>,
    look_every: f64,
    world: Option<Arc<World>>,
    journal: Option<(PathBuf, File)>,
    /// Number of initialisations without a shutdown.
    pub(crate) users: u32,
    /// The driver's epoch at the first of them.
    epoch: u64,
    handles: Vec<Handle>,
    owner: Option<String>,
}

/// A handle. It refers to a UUID, regardless of the current order of the GPUs.
#[derive(Debug)]
struct Handle {
    uuid: String,
    epoch: u64,
}

/// Number of the first handle. Handles are numbers that look like pointers.
const FIRST_HANDLE: usize = 0x51_4d00_0000;
const HANDLE_STEP: usize = 64;

impl State {
    const fn new() -> State {
        State {
            path: None,
            seen: None,
            looked: None,
            look_every: LOOK_EVERY,
            world: None,
            journal: None,
            users: 0,
            epoch: 0,
            handles: Vec::new(),
            owner: None,
        }
    }

    /// Returns the world of the current scenario file, or the last valid one. The caller reads the clock once per call:
    /// a simulated driver that spends its time on clocks would distort measurements.
    pub(crate) fn world(&mut self, unix_seconds: f64) -> Option<Arc<World>> {
        let due = self
            .looked
            // If the clock was set back, check at once.
            .is_none_or(|looked| (unix_seconds - looked).abs() >= self.look_every);
        if due {
            self.looked = Some(unix_seconds);
            if self.path.is_none() {
                self.path = source::scenario_path();
            }
            if let Some(path) = self.path.clone() {
                self.look(&path);
            }
        }
        self.world.clone()
    }

    /// Returns the world for a client that initialises: without a scenario file the driver is not loaded.
    pub(crate) fn fresh_world(&mut self, unix_seconds: f64) -> Result<Arc<World>, Code> {
        if self.users == 0 {
            self.path = source::scenario_path();
            self.looked = None;
            let path = self.path.as_deref().ok_or(Code::DRIVER_NOT_LOADED)?;
            if !path.exists() {
                return Err(Code::DRIVER_NOT_LOADED);
            }
        }
        self.world(unix_seconds).ok_or(Code::UNKNOWN)
    }

    fn look(&mut self, path: &Path) {
        let Some(identity) = Identity::of(path) else {
            return;
        };
        if self.seen == Some(identity) {
            return;
        }
        self.seen = Some(identity);
        let text = match std::fs::read(path) {
            Ok(bytes) => String::from_utf8_lossy(&bytes).into_owned(),
            Err(error) => return complain(&format!("cannot read `{}`: {error}", path.display())),
        };
        match Scenario::parse(&text) {
            Ok(scenario) => {
                let folder = path.parent().unwrap_or(path);
                let journal = scenario.journal.as_ref().map(|file| folder.join(file));
                self.open_journal(journal.as_deref());
                let look_every = scenario.look_every_ms.map(|ms| f64::from(ms) / 1000.0);
                self.look_every = look_every.unwrap_or(LOOK_EVERY);
                self.world = Some(Arc::new(World::new(scenario, identity.modified())));
            }
            Err(error) => complain(&format!("`{}` is not a scenario: {error}", path.display())),
        }
    }

    fn open_journal(&mut self, path: Option<&Path>) {
        if self.journal.as_ref().map(|(open, _)| open.as_path()) == path {
            return;
        }
        self.journal = None;
        let Some(path) = path else { return };
        match OpenOptions::new().append(true).create(true).open(path) {
            Ok(file) => self.journal = Some((path.to_owned(), file)),
            Err(error) => complain(&format!(
                "cannot open journal `{}`: {error}",
                path.display()
            )),
        }
    }

    /// Logs the call, and aborts the process if the scenario allows one thread and this is another.
    pub(crate) fn witness(&mut self, world: &World, function: &str, unit: Option<Unit>) {
        if self.journal.is_none() && !world.scenario.one_owner {
            return;
        }
        let thread = source::thread();
        if let Some((_, journal)) = &mut self.journal {
            let gpu = match unit.map(|unit| (unit.gpu, unit.instance)) {
                None => "-".to_owned(),
                Some((gpu, None)) => gpu.to_string(),
                Some((gpu, Some(place))) => format!("{gpu}:{place}"),
            };
            // A failing journal must not change the results for the client; the test that reads the journal fails.
            let _ = journal.write_all(format!("{thread} {function} {gpu}\n").as_bytes());
        }
        if world.scenario.one_owner {
            let pid = |thread: &str| thread.split(' ').next().map(str::to_owned);
            match &self.owner {
                Some(owner) if *owner == thread => {}
                // A forked child is another process with its own thread.
                Some(owner) if pid(owner) == pid(&thread) => {
                    abort(&format!(
                        "{function} called by thread {thread}, NVML is owned by {owner}"
                    ));
                }
                _ => self.owner = Some(thread),
            }
        }
    }

    /// Reports whether calls are answered.
    pub(crate) fn check_session(&self, world: &World) -> Result<(), Code> {
        if self.users == 0 {
            Err(Code::UNINITIALIZED)
        } else if self.epoch != world.scenario.driver.epoch {
            Err(world.scenario.driver.stale_code)
        } else {
            Ok(())
        }
    }

    pub(crate) fn enter(&mut self, world: &World) {
        if self.users == 0 {
            self.epoch = world.scenario.driver.epoch;
        }
        self.users = self.users.saturating_add(1);
    }

    pub(crate) fn leave(&mut self) -> Result<(), Code> {
        self.users = self.users.checked_sub(1).ok_or(Code::UNINITIALIZED)?;
        Ok(())
    }

    /// Returns the handle of a GPU or instance; the same one each time within an epoch.
    pub(crate) fn handle(&mut self, world: &World, unit: Unit) -> Device {
        let uuid = world.uuid(unit);
        let is_it = |handle: &Handle| handle.epoch == self.epoch && handle.uuid == uuid;
        let known = self.handles.iter().position(is_it);
        let place = known.unwrap_or_else(|| {
            self.handles.push(Handle {
                uuid: uuid.to_owned(),
                epoch: self.epoch,
            });
            self.handles.len() - 1
        });
        Device::new(FIRST_HANDLE + place * HANDLE_STEP)
    }

    /// Returns the GPU or instance that a handle refers to now.
    pub(crate) fn resolve(&self, world: &World, device: Device) -> Result<Unit, Code> {
        let offset = device.number().wrapping_sub(FIRST_HANDLE);
        let handle = self
            .handles
            .get(offset / HANDLE_STEP)
            .filter(|handle| offset.is_multiple_of(HANDLE_STEP) && handle.epoch == self.epoch)
            .ok_or(Code::INVALID_ARGUMENT)?;
        world.find_uuid(&handle.uuid).ok_or(Code::GPU_IS_LOST)
    }
}

/// Writes one line to standard error.
pub(crate) fn complain(message: &str) {
    // If standard error is closed, the message is lost.
    let _ = std::io::stderr().write_all(format!("nvml-sim: {message}\n").as_bytes());
}

/// Aborts the process with a message.
pub(crate) fn abort(why: &str) -> ! {
    complain(why);
    std::process::abort();
}

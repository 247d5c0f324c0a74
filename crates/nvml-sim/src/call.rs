//! The entry into every exported function: checks the scenario, logs the call, applies faults, and then runs the
//! function's own code. One macro declares a function for Rust, for C and for the driver generations.
#![expect(
    unsafe_code,
    reason = "exported symbols and the unload hook need unsafe attributes"
)]

use std::ffi::c_uint;
use std::sync::Arc;
use std::time::Duration;

use crate::clock;
use crate::code::Code;
use crate::driver::Generation;
use crate::foreign::{Argument, Device, Out};
use crate::scenario::Sensors;
use crate::state::{self, State};
use crate::world::{Gpu, Instance, Reading, Unit, World};

/// An exported function.
#[derive(Clone, Copy, Debug)]
pub struct Function {
    pub name: &'static str,
    /// First driver generation that has it.
    pub since: Generation,
    pub(crate) parameters: fn() -> Vec<String>,
}

impl Function {
    /// Returns the C prototype.
    pub fn prototype(&self) -> String {
        let parameters = (self.parameters)();
        let parameters = if parameters.is_empty() {
            "void".to_owned()
        } else {
            parameters.join(", ")
        };
        format!("nvmlReturn_t {}({parameters});", self.name)
    }
}

/// Declares exported functions.
///
/// `SINCE KIND fn NAME(PARAMETERS) |SEEN| BODY`, where KIND is
/// - `library`: runs without initialisation, the body gets the name;
/// - `system`: needs initialisation, the body gets the world;
/// - `gpu`: the first parameter is a handle, the body gets what it refers to;
/// - `finder`: takes a key and a place for a handle, the body looks up the key;
/// - `value`: takes a handle and a place for one value, which is the body;
/// - `same`: takes a handle and two places for the same value, which is the body.
macro_rules! exports {
    ($($since:ident $kind:ident fn $name:ident($($argument:ident: $type:ty),*) |$seen:ident| $body:expr;)*) => {
        /// Functions of this file.
        pub(crate) const FUNCTIONS: &[$crate::call::Function] = &[$(
            $crate::call::Function {
                name: stringify!($name),
                since: $crate::driver::Generation::$since,
                parameters: || vec![$(<$type as $crate::foreign::Argument>::c_type()),*],
            },
        )*];

        $(
            #[unsafe(no_mangle)]
            extern "C" fn $name($($argument: $type),*) -> std::ffi::c_uint {
                $crate::call::exports!(@$kind $name ($($argument),*) $seen $body)
            }
        )*
    };
    (@library $name:ident ($($argument:ident),*) $seen:ident $body:expr) => {{
        let $seen = stringify!($name);
        $crate::call::answer($body)
    }};
    (@system $name:ident ($($argument:ident),*) $seen:ident $body:expr) => {
        $crate::call::system(stringify!($name), &[$(&$argument),*], |$seen| $body)
    };
    (@gpu $name:ident ($device:ident $(, $argument:ident)*) $seen:ident $body:expr) => {
        $crate::call::gpu(stringify!($name), $device, &[$(&$argument),*], |$seen| $body)
    };
    (@value $name:ident ($device:ident, $value:ident) $seen:ident $body:expr) => {
        $crate::call::gpu(stringify!($name), $device, &[&$value], |$seen| $value.set($body))
    };
    (@same $name:ident ($device:ident, $one:ident, $other:ident) $seen:ident $body:expr) => {
        $crate::call::gpu(stringify!($name), $device, &[&$one, &$other], |$seen| {
            let value = $body;
            $one.set(value)?;
            $other.set(value)
        })
    };
    (@finder $name:ident ($key:ident, $device:ident) $seen:ident $body:expr) => {
        $crate::call::finder(stringify!($name), $device, |$seen| $body)
    };
}
pub(crate) use exports;

/// The world at the time of a call.
#[derive(Debug)]
pub(crate) struct Now {
    pub(crate) world: Arc<World>,
    pub(crate) time: f64,
}

/// A GPU or instance at the time of a call.
#[derive(Debug)]
pub(crate) struct Seen {
    pub(crate) world: Arc<World>,
    pub(crate) time: f64,
    pub(crate) unit: Unit,
}

impl Seen {
    /// Returns the GPU, also for an instance's handle.
    pub(crate) fn gpu(&self) -> &Gpu {
        &self.world.gpus[self.unit.gpu]
    }

    pub(crate) fn instance(&self) -> Option<&Instance> {
        self.unit.instance.map(|place| &self.gpu().instances[place])
    }

    /// Returns the GPU itself; an instance has no such reading.
    pub(crate) fn sensor(&self) -> Result<&Gpu, Code> {
        self.whole_gpu(Code::NOT_SUPPORTED)
    }

    /// Returns the GPU itself; for an instance the argument is invalid.
    pub(crate) fn hardware(&self) -> Result<&Gpu, Code> {
        self.whole_gpu(Code::INVALID_ARGUMENT)
    }

    /// Returns a reading of the GPU itself at the time of the call.
    pub(crate) fn read(&self, pick: fn(&Sensors) -> &Reading) -> Result<f64, Code> {
        pick(&self.sensor()?.sensors).at(self.time)
    }

    /// Returns a value that is the same for every GPU itself.
    pub(crate) fn constant<T>(&self, value: T) -> Result<T, Code> {
        self.sensor().map(|_| value)
    }

    /// As [`Seen::read`], for a reading that a GPU in MIG mode does not have.
    pub(crate) fn read_without_mig(&self, pick: fn(&Sensors) -> &Reading) -> Result<f64, Code> {
        self.sensor()?.check_no_mig()?;
        self.read(pick)
    }

    fn whole_gpu(&self, otherwise: Code) -> Result<&Gpu, Code> {
        match self.unit.instance {
            None => Ok(self.gpu()),
            Some(_) => Err(otherwise),
        }
    }
}

pub(crate) fn answer(result: Result<(), Code>) -> c_uint {
    match result {
        Ok(()) => Code::SUCCESS.0,
        Err(code) => code.0,
    }
}

/// Implements `nvmlInit` in all its versions.
pub(crate) fn initialise(function: &str) -> Result<(), Code> {
    let mut state = state::lock();
    let now = clock::unix_seconds();
    let world = state.fresh_world(now)?;
    state.witness(&world, function, None);
    let is_first = state.users == 0;
    drop(state);
    if world.is_hidden(function) {
        return Err(Code::FUNCTION_NOT_FOUND);
    }
    play_faults(&world, function, None, world.time(now), &[])?;
    let driver = &world.scenario.driver;
    if is_first {
        clock::sleep(Duration::from_millis(driver.init_delay_ms));
        if driver.init_code != Code::SUCCESS {
            return Err(driver.init_code);
        }
    }
    state::lock().enter(&world);
    Ok(())
}

pub(crate) fn shut_down(function: &str) -> Result<(), Code> {
    let mut state = state::lock();
    let now = clock::unix_seconds();
    if let Some(world) = state.world(now) {
        state.witness(&world, function, None);
        drop(state);
        play_faults(&world, function, None, world.time(now), &[])?;
        state = state::lock();
    }
    state.leave()
}

pub(crate) fn system(
    function: &str,
    arguments: &[&dyn Argument],
    body: impl FnOnce(&Now) -> Result<(), Code>,
) -> c_uint {
    let run = |now: Now, _| body(&now);
    answer(play(function, arguments, |_, _| Ok(None), run))
}

pub(crate) fn gpu(
    function: &str,
    device: Device,
    arguments: &[&dyn Argument],
    body: impl FnOnce(&Seen) -> Result<(), Code>,
) -> c_uint {
    let resolve = |state: &mut State, now: &Now| state.resolve(&now.world, device).map(Some);
    let run = |Now { world, time }: Now, unit: Subject| {
        let unit = unit?.ok_or(Code::INVALID_ARGUMENT)?;
        check_gpu(&world, unit, time)?;
        body(&Seen { world, time, unit })
    };
    answer(play(function, arguments, resolve, run))
}

pub(crate) fn finder(
    function: &str,
    device: Out<Device>,
    find: impl Fn(&Now) -> Result<Unit, Code>,
) -> c_uint {
    let resolve = |_: &mut State, now: &Now| find(now).map(Some);
    let run = |now: Now, unit: Subject| {
        let unit = unit?.ok_or(Code::NOT_FOUND)?;
        check_gpu(&now.world, unit, now.time)?;
        device.set(state::lock().handle(&now.world, unit))
    };
    answer(play(function, &[&device], resolve, run))
}

/// The GPU or instance that a call is about, if it is known.
type Subject = Result<Option<Unit>, Code>;

/// Checks the scenario, resolves the handle, logs the call, rejects calls that cannot be answered, and applies the faults.
/// Then
/// calls `run`, the function's own code, unless a fault has already answered the call with garbage and success.
fn play(
    function: &str,
    arguments: &[&dyn Argument],
    resolve: impl FnOnce(&mut State, &Now) -> Subject,
    run: impl FnOnce(Now, Subject) -> Result<(), Code>,
) -> Result<(), Code> {
    let mut state = state::lock();
    let unix_seconds = clock::unix_seconds();
    let world = state.world(unix_seconds).ok_or(Code::UNINITIALIZED)?;
    let time = world.time(unix_seconds);
    let now = Now { world, time };
    let unit = resolve(&mut state, &now);
    let known = unit.ok().flatten();
    state.witness(&now.world, function, known);
    if now.world.is_hidden(function) {
        return Err(Code::FUNCTION_NOT_FOUND);
    }
    state.check_session(&now.world)?;
    drop(state);
    match play_faults(&now.world, function, known, now.time, arguments)? {
        Played::Spoiled => Ok(()),
        Played::Well => run(now, unit),
    }
}

fn check_gpu(world: &World, unit: Unit, time: f64) -> Result<(), Code> {
    let gpu = &world.gpus[unit.gpu];
    if gpu.is_lost(time) || gpu.is_absent(time) {
        Err(Code::GPU_IS_LOST)
    } else {
        Ok(())
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Played {
    /// The function's own code may run.
    Well,
    /// The outputs are garbage and the call returns success.
    Spoiled,
}

/// The lock is not held here: a call that hangs does not block the others.
fn play_faults(
    world: &World,
    function: &str,
    unit: Option<Unit>,
    time: f64,
    arguments: &[&dyn Argument],
) -> Result<Played, Code> {
    if world.scenario.faults.is_empty() {
        return Ok(Played::Well);
    }
    let (delay_ms, fault) = world.trouble(function, unit, time);
    if delay_ms > 0 {
        clock::sleep(Duration::from_millis(delay_ms));
    }
    match fault {
        Some(fault) if fault.crash => state::abort(&format!("{function} crashes as scripted")),
        Some(fault) if fault.hang => clock::hang(),
        Some(fault) if fault.garbage => {
            let capacity = arguments.iter().find_map(|argument| argument.capacity());
            for argument in arguments {
                argument.spoil(capacity.unwrap_or(0));
            }
            Ok(Played::Spoiled)
        }
        _ => match fault.and_then(|fault| fault.code) {
            None | Some(Code::SUCCESS) => Ok(Played::Well),
            Some(code) => Err(code),
        },
    }
}

/// Runs when the library is unloaded.
extern "C" fn unload() {
    state::clear();
}

#[used]
#[unsafe(link_section = ".fini_array")]
static UNLOAD: extern "C" fn() = unload;

//! Checks that written ticks are read back unchanged, and that altered bytes are rejected.

use super::arbitrary::{alike, tick};
use super::bytes::chain;
use super::*;
use gua_model::{Bytes, Percent};
use proptest::prelude::*;

/// Interning in memory.
#[derive(Default)]
struct Names {
    gpus: Vec<GpuUuid>,
    processes: Vec<Identity>,
    texts: Vec<String>,
}

fn intern<T: Clone + PartialEq>(list: &mut Vec<T>, value: &T) -> u64 {
    let place = list.iter().position(|known| known == value);
    let place = place.unwrap_or_else(|| {
        list.push(value.clone());
        list.len() - 1
    });
    place as u64 + 1
}

fn find<T: Clone>(list: &[T], id: u64) -> Option<T> {
    list.get(usize::try_from(id).ok()?.checked_sub(1)?).cloned()
}

impl super::Names for Names {
    type Error = std::convert::Infallible;

    fn gpu(&mut self, uuid: &GpuUuid) -> Result<u64, Self::Error> {
        Ok(intern(&mut self.gpus, uuid))
    }

    fn process(&mut self, identity: &Identity) -> Result<u64, Self::Error> {
        Ok(intern(&mut self.processes, identity))
    }

    fn text(&mut self, text: &str) -> Result<u64, Self::Error> {
        Ok(intern(&mut self.texts, &text.to_owned()))
    }
}

impl Lookup for Names {
    fn gpu(&mut self, id: u64) -> Option<GpuUuid> {
        find(&self.gpus, id)
    }

    fn process(&mut self, id: u64) -> Option<Identity> {
        find(&self.processes, id)
    }

    fn text(&mut self, id: u64) -> Option<String> {
        find(&self.texts, id)
    }
}

/// Writes the ticks as one chain and returns their bytes.
fn write(ticks: &[Tick], names: &mut Names) -> Vec<Vec<u8>> {
    let mut before: Option<Link> = None;
    let mut bodies = Vec::new();
    for tick in ticks {
        let Ok(frame) = Frame::new(tick, names);
        let (body, link) = encode(frame, before.as_ref(), 0);
        before = Some(link);
        bodies.push(body);
    }
    bodies
}

fn read(bodies: &[Vec<u8>], names: &mut Names) -> Result<Vec<Tick>, Damage> {
    let mut before: Option<Link> = None;
    let mut ticks = Vec::new();
    for body in bodies {
        let link = decode(body, before.as_ref())?;
        ticks.push(link.frame.to_tick(names)?);
        before = Some(link);
    }
    Ok(ticks)
}

#[test]
fn a_gpu_that_does_not_change_costs_one_byte() {
    let mut names = Names::default();
    let first = steady_tick();
    let mut second = first.clone();
    second.sample.at += jiff::SignedDuration::from_secs(30);
    second.sample.since_boot += std::time::Duration::from_secs(30);
    let bodies = write(&[first, second], &mut names);
    // Form, flags, time (six bytes), difference of the clocks, two GPUs, checksum.
    assert_eq!(bodies[1].len(), 2 + 6 + 1 + 2 + 2);
}

/// The stored format must stay readable: these bytes were written by its first release.
#[test]
fn the_bytes_of_form_1_stay_as_they_were() {
    let mut names = Names::default();
    let first = steady_tick();
    let mut second = first.clone();
    second.sample.at += jiff::SignedDuration::from_millis(30_001);
    second.sample.since_boot += std::time::Duration::from_millis(30_001);
    second.sample.gpus[0].util = Ok(Percent::HUNDRED);
    second.sample.gpus[1].processes[0].memory = Ok(Bytes::from_mb(900));
    let bodies = write(&[first.clone(), second.clone()], &mut names);
    let golden: Vec<Vec<u8>> = include_str!("golden.txt").lines().map(unhex).collect();
    assert_eq!(
        bodies,
        golden,
        "{}",
        bodies
            .iter()
            .map(|body| hex(body) + "\n")
            .collect::<String>()
    );
    assert_eq!(read(&golden, &mut names), Ok(vec![first, second]));
}

#[test]
fn a_difference_is_not_applied_to_another_tick() {
    let mut names = Names::default();
    let mut ticks = vec![steady_tick(); 3];
    ticks[1].sample.gpus[0].util = Ok(Percent::HUNDRED);
    ticks[2].sample.gpus[0].util = Ok(Percent::ZERO);
    let bodies = write(&ticks, &mut names);
    assert_eq!(chain(&bodies[0]), Ok((0, true)));
    assert_eq!(chain(&bodies[1]), Ok((0, false)));
    let without_the_second = [bodies[0].clone(), bodies[2].clone()];
    assert_eq!(read(&without_the_second, &mut names), Err(Damage::Checksum));
    assert_eq!(read(&bodies[1..], &mut names), Err(Damage::Chain));
}

#[test]
fn a_form_that_is_not_known_is_named() {
    assert_eq!(chain(&[2, 1, 0]), Err(Damage::Form(2)));
    assert_eq!(decode(&[], None).unwrap_err(), Damage::Short);
}

fn steady_tick() -> Tick {
    use gua_model::*;
    let process = |pid, uid: u32| Process {
        pid: Pid(pid),
        kind: ProcessKind::Compute,
        memory: Ok(Bytes::from_mb(800)),
        sm_util: Ok(None),
        identity: Ok(Identity {
            key: ProcessKey {
                boot: BootId(7),
                pid: Pid(pid),
                start: StartTicks(1234),
            },
            login: Ok(Some(User {
                uid: Uid(uid),
                name: Some("ada".to_owned()),
            })),
            claimed_login: None,
            own: Err(Missing::Denied),
            workload: Workload::default(),
            comm: Ok("python".to_owned()),
        }),
    };
    let card = |index: u32| {
        let uuid = format!("GPU-{index}").parse().unwrap();
        let mut gpu = Gpu::without_readings(uuid, index, Missing::Unsupported);
        gpu.name = Ok("NVIDIA A100".to_owned());
        gpu.util = Ok(Percent::ZERO);
        gpu.temperature = Ok(Celsius(-3));
        gpu.window = Ok(UtilWindow::new(Some(0), &[(166_000, 0), (333_000, 55)]));
        gpu.processes = vec![process(4711 + index, 1000 + index)];
        gpu
    };
    Tick {
        sample: Sample {
            at: jiff::Timestamp::from_nanosecond(1_790_000_000_123_456_789).unwrap(),
            since_boot: std::time::Duration::from_nanos(5_000_000_000_001),
            boot: Ok(BootId(7)),
            driver: Driver {
                version: Ok("580.1".to_owned()),
                cuda: Ok((13, 0)),
            },
            gpus: vec![card(0), card(1)],
            problems: vec![Problem {
                gpu: None,
                index: Some(2),
                call: "nvmlDeviceGetUUID".to_owned(),
                code: Some(15),
                why: Missing::Gone,
                text: "GPU is lost".to_owned(),
            }],
        },
        interval: std::time::Duration::from_secs(30),
    }
}

fn hex(body: &[u8]) -> String {
    body.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn unhex(line: &str) -> Vec<u8> {
    let digits = line.as_bytes().chunks(2);
    digits
        .map(|two| u8::from_str_radix(std::str::from_utf8(two).unwrap(), 16).unwrap())
        .collect()
}

proptest! {
    #[test]
    fn any_ticks_come_back_as_they_were(ticks in prop::collection::vec(tick(), 1..5)) {
        let mut names = Names::default();
        let bodies = write(&ticks, &mut names);
        prop_assert_eq!(read(&bodies, &mut names), Ok(ticks));
    }

    #[test]
    fn ticks_that_are_alike_come_back_as_they_were(ticks in alike()) {
        let mut names = Names::default();
        let bodies = write(&ticks, &mut names);
        prop_assert_eq!(read(&bodies, &mut names), Ok(ticks));
    }

    #[test]
    fn no_bytes_make_it_panic(mut body: Vec<u8>, is_form: bool) {
        if let (true, Some(first)) = (is_form, body.first_mut()) {
            *first = 1;
        }
        let _ = decode_anything(&body);
        let _ = decode(&body, None);
    }

    #[test]
    fn a_flipped_bit_is_noticed(first in tick(), place: prop::sample::Index, bit in 0u32..8) {
        let mut names = Names::default();
        let mut bodies = write(&[first], &mut names);
        let place = place.index(bodies[0].len());
        bodies[0][place] ^= 1 << bit;
        prop_assert!(read(&bodies, &mut names).is_err());
        // The decoder must not rely on the checksum.
        let content = &bodies[0][..bodies[0].len() - 2];
        let _ = decode_anything(content);
    }
}

//! Processes of the simulated month by GPU and user, in minutes since the midnight at which its first day begins.

use super::noise;

const HOUR: i64 = 60;
const DAY: i64 = 24 * HOUR;

/// The end: the last day, a Friday, at 15:00.
pub(super) const END: i64 = 30 * DAY + 15 * HOUR;
pub(super) const LENGTH: i64 = 30 * DAY;
/// A reboot, from Sunday evening to Monday morning.
pub(super) const DOWN: (i64, i64) = (11 * DAY + 22 * HOUR, 12 * DAY + 7 * HOUR);
/// End of a job that still runs.
const OPEN: i64 = i64::MAX;

/// One process on one GPU.
#[derive(Debug)]
pub(super) struct Job {
    pub(super) program: &'static Program,
    pub(super) gpu: u32,
    pub(super) pid: u32,
    pub(super) slurm: Option<u32>,
    pub(super) from: i64,
    pub(super) to: i64,
    pub(super) load: Load,
}

/// A program with its user.
#[derive(Debug)]
pub(super) struct Program {
    pub(super) uid: u32,
    pub(super) name: &'static str,
    /// Container that the process runs in, which then owns it.
    pub(super) container: Option<&'static str>,
    pub(super) comm: &'static str,
    pub(super) memory_mb: u64,
}

const fn program(uid: u32, name: &'static str, comm: &'static str, memory_mb: u64) -> Program {
    Program {
        uid,
        name,
        container: None,
        comm,
        memory_mb,
    }
}

static ADA: Program = program(1001, "ada", "python", 71_400);
static BOB: Program = program(1002, "bob", "ipykernel", 18_600);
static CHEN: Program = program(1003, "chen", "python3", 31_800);
static DANA: Program = program(1004, "dana", "python", 38_900);
static EMRE: Program = program(1005, "emre", "pytest", 6400);
static FARID: Program = program(1006, "farid", "train.py", 43_100);
static LEFT_BEHIND: Program = program(1006, "farid", "train.py", 18_900);
static GRACE: Program = program(1007, "grace", "python", 27_600);
static SERVER: Program = Program {
    container: Some("llm-api"),
    ..program(0, "root", "vllm", 73_200)
};

/// Load that a process puts on its GPU.
#[derive(Clone, Copy, Debug)]
pub(super) enum Load {
    /// Works all the time, at about this utilisation.
    Training(u32),
    /// Works until this minute, then waits.
    Stuck { util: u32, from: i64 },
    /// Works now and then until this minute, then only holds its memory.
    Interactive { until: i64 },
    /// Answers requests, which come by day.
    Serving,
    /// Has exited without its memory being released.
    Leaked,
}

/// Whether a day of the month is from Monday to Friday. Day 0 is a Wednesday.
pub(super) fn is_working_day(day: i64) -> bool {
    !matches!((day + 3).rem_euclid(7), 0 | 6)
}

/// All jobs, without the parts that the reboot ended.
pub(super) fn schedule() -> Vec<Job> {
    let mut jobs = Jobs::default();
    jobs.training_on_two_gpus();
    jobs.notebooks();
    jobs.inference_server();
    jobs.sweeps_at_night();
    jobs.work_by_day();
    jobs.crashed_training();
    jobs.short_tests();
    jobs.all
}

#[derive(Default)]
struct Jobs {
    all: Vec<Job>,
}

impl Jobs {
    /// Adds a job. A job that runs into the reboot ends there; one that would start while the host is down does not start.
    fn add(&mut self, program: &'static Program, gpu: u32, load: Load, (from, to): (i64, i64)) {
        let (down, up) = DOWN;
        if (down..up).contains(&from) {
            return;
        }
        let number = u32::try_from(self.all.len()).unwrap_or_default();
        self.all.push(Job {
            program,
            gpu,
            pid: 2900 + 131 * number,
            slurm: None,
            from,
            to: if from < down { to.min(down) } else { to },
            load,
        });
    }

    /// Gives the last job a number of the batch system.
    fn submitted_as(&mut self, number: u32) {
        if let Some(job) = self.all.last_mut() {
            job.slurm = Some(number);
        }
    }

    /// Minutes from 0 to below `limit`, which look random.
    fn some(&self, limit: u64) -> i64 {
        let value = noise(self.all.len() as u64, limit) % limit;
        i64::try_from(value).unwrap_or_default()
    }

    fn training_on_two_gpus(&mut self) {
        let runs = [
            (-DAY, 4 * DAY + 11 * HOUR),
            (4 * DAY + 16 * HOUR, OPEN),
            (12 * DAY + 9 * HOUR, 18 * DAY + 20 * HOUR),
            (19 * DAY + 10 * HOUR, 25 * DAY + 14 * HOUR),
            (26 * DAY + 9 * HOUR + 30, OPEN),
        ];
        for (number, run) in (4711..).zip(runs) {
            for gpu in [0, 1] {
                self.add(&ADA, gpu, Load::Training(94), run);
                self.submitted_as(number);
            }
        }
    }

    /// A notebook on working days. It is often left open overnight, once over a weekend, and the last one is forgotten.
    fn notebooks(&mut self) {
        let mut free_from = 0;
        for day in (0..27).filter(|day| is_working_day(*day)) {
            let from = (day * DAY + 9 * HOUR + 10 + self.some(50)).max(free_from);
            let until = day * DAY + 16 * HOUR + 40 + self.some(80);
            let to = match day {
                9 => OPEN,
                _ if matches!(day % 7, 0 | 5) => (day + 1) * DAY + 8 * HOUR + 50,
                _ => until + 5 + self.some(40),
            };
            self.add(&BOB, 2, Load::Interactive { until }, (from, to));
            free_from = to.min(DOWN.1 + HOUR);
        }
        let until = 27 * DAY + 17 * HOUR + 20;
        let opened = 27 * DAY + 10 * HOUR + 10;
        self.add(&BOB, 2, Load::Interactive { until }, (opened, OPEN));
    }

    fn inference_server(&mut self) {
        for from in [-9 * DAY, DOWN.1 + 20] {
            self.add(&SERVER, 3, Load::Serving, (from, OPEN));
        }
    }

    fn sweeps_at_night(&mut self) {
        let nights = (0..30).filter(|day| is_working_day(*day));
        for (number, day) in (5200..).zip(nights) {
            let mut from = day * DAY + 18 * HOUR + 30 + self.some(60);
            let morning = (day + 1) * DAY + 6 * HOUR;
            while from < morning {
                let to = from + 100 + self.some(90);
                let util = 72 + u32::try_from(self.some(20)).unwrap_or_default();
                self.add(&CHEN, 4, Load::Training(util), (from, to));
                self.submitted_as(number);
                from = to + 5;
            }
        }
    }

    /// Jobs on working days, and on some of them another person's in the evening.
    fn work_by_day(&mut self) {
        for day in (0..=30).filter(|day| is_working_day(*day)) {
            for (hour, length) in [(9, 190), (13, 235)] {
                let from = day * DAY + hour * HOUR + self.some(40);
                let to = from + length + self.some(30);
                self.add(&DANA, 5, Load::Training(81), (from, to));
            }
            if matches!(day % 7, 0 | 5) {
                let from = day * DAY + 18 * HOUR + 20;
                let to = from + 200 + self.some(60);
                self.add(&GRACE, 5, Load::Training(68), (from, to));
            }
        }
    }

    /// Long runs, of which the last gets stuck, crashes on a Saturday night and leaves memory behind.
    fn crashed_training(&mut self) {
        let crash = 24 * DAY + 3 * HOUR + 20;
        let runs = [
            (DAY + 10 * HOUR, 5 * DAY + 19 * HOUR),
            (8 * DAY + 9 * HOUR, OPEN),
            (12 * DAY + 11 * HOUR, 16 * DAY + 18 * HOUR),
            (20 * DAY + 14 * HOUR, crash),
        ];
        for (number, run) in (4901..).zip(runs) {
            let load = match run {
                // It waits for data that does not come.
                (_, to) if to == crash => Load::Stuck {
                    util: 57,
                    from: crash - 2 * DAY,
                },
                _ => Load::Training(57),
            };
            self.add(&FARID, 6, load, run);
            self.submitted_as(number);
        }
        self.add(&LEFT_BEHIND, 6, Load::Leaked, (crash, OPEN));
    }

    /// Short tests, and sessions in a debugger that are left open.
    fn short_tests(&mut self) {
        for day in (0..30).filter(|day| is_working_day(*day)) {
            for hour in [10, 12, 14] {
                let from = day * DAY + hour * HOUR + self.some(50);
                let to = from + 20 + self.some(25);
                self.add(&EMRE, 7, Load::Training(55), (from, to));
            }
            if matches!(day % 7, 1 | 6) {
                let from = day * DAY + 16 * HOUR;
                let until = from + 40;
                let to = from + 260 + self.some(100);
                self.add(&GRACE, 7, Load::Interactive { until }, (from, to));
            }
        }
        let from = 30 * DAY + 11 * HOUR + 40;
        let until = 30 * DAY + 12 * HOUR + 5;
        self.add(&GRACE, 7, Load::Interactive { until }, (from, OPEN));
    }
}

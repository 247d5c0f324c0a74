use super::finding::{
    IdleHold, KnownGpu, LastContact, UnobservedTime, gap, idle_held, idle_holds, known_gpus,
    nudged, quota, quota_condition, unhealthy,
};
use super::*;
use crate::id::{BootId, GpuUuid, Pid, ProcessKey, StartTicks, Uid};
use crate::idle::{Idle, IdleGpu};
use crate::period::Period;
use crate::quota::{Limit, Measure, NoForecast, Sharing, Standing, Subject, Term, Who};
use crate::reading::Missing;
use crate::readings::Gpu;
use crate::sample::{Driver, MemoryRepairs, Process, ProcessKind, Sample};
use crate::since::{Since, Start};
use crate::state::Thresholds;
use crate::unit::{Bytes, Micros};
use crate::{Identity, User, Workload};

const HOUR: Duration = Duration::from_secs(3600);

fn at(hour: i64) -> Timestamp {
    Timestamp::from_second(1_800_000_000 / 86_400 * 86_400 + hour * 3600).unwrap()
}

fn uuid(number: u32) -> GpuUuid {
    format!("GPU-{number}").parse().unwrap()
}

fn alert(when: When) -> Alert {
    Alert {
        name: "lab".to_owned(),
        by: Sender::Daemon,
        when: vec![when],
        target: Target::Command(vec!["/bin/true".to_owned()]),
        longer_than: None,
        percent: NEAR_PERCENT,
        cool_down: COOL_DOWN,
        quiet: None,
        exempt: Vec::new(),
        title: None,
        text: None,
    }
}

/// A hold that has been idle since an hour.
fn hold(person: &str, gpu: u32, since: i64) -> IdleHold {
    IdleHold {
        person: person.to_owned(),
        uid: None,
        gpu: uuid(gpu),
        gpu_index: gpu,
        memory: Ok(Bytes(3 << 30)),
        idle: idle(since),
    }
}

fn idle(since: i64) -> Idle {
    Idle {
        since: Since {
            at: at(since),
            start: Start::Seen,
        },
        unobserved: Micros(0),
    }
}

/// The subjects of the messages that an alert sends at an hour, and remembers.
fn sent(alert: &Alert, findings: Vec<Finding>, last: &mut LastSent, hour: i64) -> Vec<String> {
    let due = alert.due(findings, last, at(hour), &TimeZone::UTC);
    for finding in &due {
        last.insert(alert.key(finding), at(hour));
    }
    due.into_iter().map(|finding| finding.subject).collect()
}

#[test]
fn a_person_who_holds_idle_gpus_gets_one_message_until_the_cool_down_is_over() {
    let alert = alert(When::IdleHeld);
    let mut last = LastSent::new();
    let holds = [hold("ada", 0, 0), hold("ada", 1, 1), hold("bob", 2, 8)];
    let mut at_hour = |hour: i64| {
        let findings = idle_held(&holds, alert.long_idle(), at(hour));
        sent(&alert, findings, &mut last, hour)
    };
    assert_eq!(at_hour(1), [""; 0], "two hours are needed");
    assert_eq!(at_hour(2), ["ada"]);
    assert_eq!(at_hour(9), [""; 0]);
    assert_eq!(at_hour(10), ["bob"], "each person has a cool-down");
    assert_eq!(at_hour(25), [""; 0]);
    assert_eq!(at_hour(26), ["ada"]);
    assert_eq!(at_hour(1), [""; 0], "the clock was set back, nothing holds");
    assert_eq!(at_hour(20), ["ada"], "before her last message");
}

#[test]
fn exempt_people_and_quiet_hours_send_nothing() {
    let mut alert = alert(When::IdleHeld);
    alert.exempt = vec!["svc-*".to_owned(), "eve".to_owned()];
    alert.quiet = Some("22:00-07:00".parse().unwrap());
    let mut last = LastSent::new();
    let holds = ["svc-web", "eve", "ada"].map(|person| hold(person, 0, 0));
    let findings = idle_held(&holds, HOUR, at(23));
    assert_eq!(sent(&alert, findings.clone(), &mut last, 23), [""; 0]);
    assert_eq!(sent(&alert, findings.clone(), &mut last, 24 + 6), [""; 0]);
    assert_eq!(sent(&alert, findings, &mut last, 24 + 7), ["ada"]);
}

#[test]
fn quiet_hours_may_include_midnight() {
    let check = |text: &str, inside: &[i8], outside: &[i8]| {
        let quiet: QuietHours = text.parse().unwrap();
        assert_eq!(quiet.to_string(), text);
        let contains = |hour: &i8| quiet.contains(jiff::civil::time(*hour, 0, 0, 0));
        assert!(inside.iter().all(contains), "{text}");
        assert!(!outside.iter().any(contains), "{text}");
    };
    check("22:00-07:00", &[22, 23, 0, 6], &[7, 12, 21]);
    check("09:00-17:00", &[9, 16], &[17, 8, 0]);
    for wrong in [
        "",
        "22-7",
        "22:00",
        "24:00-07:00",
        "07:00-07:00",
        "1:00-2:00",
    ] {
        assert!(wrong.parse::<QuietHours>().is_err(), "{wrong}");
    }
}

#[test]
fn the_message_has_the_evidence_and_the_answer() {
    let mut alert = alert(When::IdleHeld);
    let holds = [hold("ada", 0, 0), hold("ada", 3, 2)];
    let finding = idle_held(&holds, HOUR, at(5)).remove(0);
    let message = alert.message(&finding, "lab1");
    assert_eq!(message.title, "lab1: ada holds 2 GPUs without using them");
    let lines: Vec<&str> = message.text.lines().collect();
    assert_eq!(lines[0], message.title);
    assert_eq!(lines[1], "- GPU 0: 3.0 GB held, idle for 5h00m");
    assert_eq!(lines[2], "- GPU 3: 3.0 GB held, idle for 3h00m");
    assert_eq!(lines.len(), 4);
    let template = "{user}@{host} ({alert}):\n{details}";
    alert.text = Some(Template::new(template).unwrap());
    let text = alert.message(&finding, "lab1").text;
    assert!(text.starts_with("ada@lab1 (lab):\n- GPU 0"), "{text}");
    alert.title = Some(Template::new("{user}:\n{details}").unwrap());
    let title = alert.message(&finding, "lab1").title;
    assert!(
        title.starts_with("ada:") && title.lines().count() == 1,
        "{title:?}"
    );
    assert_eq!(Template::new("{gpu} is idle"), Err("gpu".to_owned()));
    assert_eq!(Template::new("{user"), Err("user".to_owned()));
}

#[test]
fn values_are_not_searched_for_placeholders() {
    let mut alert = alert(When::IdleHeld);
    alert.text = Some(Template::new("{user} on {host}").unwrap());
    let finding = idle_held(&[hold("{host}", 0, 0)], HOUR, at(5)).remove(0);
    assert_eq!(alert.message(&finding, "lab1").text, "{host} on lab1");
}

#[test]
fn a_value_adds_no_line_and_no_terminal_control_to_a_message() {
    let mut alert = alert(When::IdleHeld);
    let person = "ada\nroot: all is well\u{1b}[2J";
    let mut finding = idle_held(&[hold(person, 0, 0)], HOUR, at(5)).remove(0);
    finding.details = vec!["GPU 0\r\nGPU 1\u{202e}".to_owned()];
    finding.summary = format!("{person} holds 1 GPU");
    finding.answer = Some("gua\nkeep".to_owned());
    let values = PLACEHOLDERS.map(|name| format!("{{{name}}}"));
    for template in [None, Some(values.join("\n"))] {
        let lines = template.as_ref().map_or(3, |_| PLACEHOLDERS.len());
        alert.text = template.map(|text| Template::new(&text).unwrap());
        let Message { title, text } = alert.message(&finding, "lab\u{7}1\n");
        assert_eq!(text.lines().count(), lines, "{text:?}");
        let is_harmful = |text: &str| {
            text.lines()
                .any(|line| line.contains(crate::text::is_harmful))
        };
        assert!(!is_harmful(&text) && !is_harmful(&title), "{text:?}");
        assert_eq!(title.lines().count(), 1, "{title:?}");
    }
}

fn sample(gpus: Vec<Gpu>) -> Sample {
    Sample {
        at: at(5),
        since_boot: HOUR,
        boot: Err(Missing::Unsupported),
        driver: Driver {
            version: Err(Missing::Unsupported),
            cuda: Err(Missing::Unsupported),
        },
        gpus,
        problems: Vec::new(),
    }
}

fn gpu(number: u32) -> Gpu {
    Gpu::without_readings(uuid(number), number, Missing::Unsupported)
}

#[test]
fn the_processes_of_a_person_on_a_gpu_are_one_hold() {
    let key = |pid: u32| ProcessKey {
        boot: BootId(7),
        pid: Pid(pid),
        start: StartTicks(1),
    };
    let process = |pid: u32, user: u32| Process {
        pid: Pid(pid),
        kind: ProcessKind::Compute,
        memory: Ok(Bytes(1 << 30)),
        identity: Ok(Identity {
            key: key(pid),
            login: Ok(None),
            claimed_login: None,
            own: Ok(User {
                uid: Uid(user),
                name: Some(format!("user{user}")),
            }),
            workload: Workload::default(),
            comm: Err(Missing::Unsupported),
        }),
        sm_util: Ok(None),
    };
    let mut held = gpu(0);
    held.processes = vec![process(1, 1000), process(2, 1000), process(3, 1001)];
    // Of one process of each of two people, the driver hides the memory.
    for (pid, user) in [(4, 1002), (5, 1003), (6, 1003)] {
        held.processes.push(process(pid, user));
    }
    held.processes[3].memory = Err(Missing::Denied);
    held.processes[4].memory = Err(Missing::Denied);
    let times = IdleGpu {
        longest: idle(1),
        holders: vec![
            (key(2), idle(1)),
            (key(1), idle(2)),
            (key(3), idle(3)),
            (key(4), idle(3)),
            (key(5), idle(3)),
            (key(6), idle(3)),
        ],
    };
    let times = BTreeMap::from([(uuid(0), times)]);
    let found = idle_holds(&sample(vec![held, gpu(1)]), &times, &Thresholds::default());
    let found: Vec<_> = found
        .iter()
        .map(|hold| (hold.person.as_str(), hold.idle, hold.evidence(at(5))))
        .collect();
    let expected = [
        ("user1000", idle(1), "GPU 0: 2.0 GB held, idle for 4h00m"),
        ("user1001", idle(3), "GPU 0: 1.0 GB held, idle for 2h00m"),
        ("user1002", idle(3), "GPU 0: memory unknown, idle for 2h00m"),
        ("user1003", idle(3), "GPU 0: memory unknown, idle for 2h00m"),
    ];
    assert_eq!(
        found,
        expected.map(|(person, idle, text)| (person, idle, text.to_owned()))
    );
}

#[test]
fn faults_and_missing_gpus_are_found() {
    let mut faulty = gpu(0);
    faulty.ecc_uncorrected = Ok(2);
    faulty.memory_repairs = Ok(MemoryRepairs(2));
    let mut lost = gpu(1);
    lost.util = Err(Missing::Gone);
    let earlier = known_gpus(&sample(vec![gpu(0), gpu(1), gpu(2)]));
    let found = unhealthy(&sample(vec![faulty, lost, gpu(3)]), &earlier);
    let found: Vec<_> = found
        .iter()
        .map(|finding| {
            (
                finding.when,
                finding.subject.as_str(),
                finding.details.len(),
            )
        })
        .collect();
    assert_eq!(
        found,
        [
            (When::Unhealthy, "GPU-0 uncorrected-errors,remap-failed", 2),
            (When::Lost, "GPU-1", 1),
            (When::Lost, "GPU-2", 1),
        ]
    );
    assert_eq!(unhealthy(&sample(vec![gpu(0)]), &[]), []);
    let known = KnownGpu {
        uuid: uuid(0),
        index: 0,
        name: None,
    };
    assert_eq!(unhealthy(&sample(vec![gpu(0)]), &[known]), []);
}

fn standing(used: u64, most: u64) -> Standing {
    Standing {
        who: Who::Person("ada".to_owned()),
        limit: Limit {
            subject: Subject::Everyone,
            sharing: Sharing::Each,
            measure: Measure::Held,
            per: Term::Week,
            most,
        },
        period: Period::new(at(0), at(7 * 24)),
        at_least: used,
        used: Some(used),
        forecast: Err(NoForecast::TooEarly),
        reached: None,
    }
}

#[test]
fn a_quota_is_near_from_the_share_on_and_over_beyond_the_limit() {
    let check = |used: u64, most: u64, expected: Option<When>| {
        assert_eq!(quota_condition(&standing(used, most), 80), expected);
    };
    check(79, 100, None);
    check(80, 100, Some(When::QuotaNear));
    check(100, 100, Some(When::QuotaNear));
    check(101, 100, Some(When::QuotaOver));
    check(0, 0, None);
    check(1, 0, Some(When::QuotaOver));
    let of = |when: When| quota(&standing(9, 10), when, "held 9.0 of 10.0 h".to_owned());
    let near = of(When::QuotaNear);
    assert_eq!(near.summary, "ada: near a limit on GPU use");
    // Near and over are separate messages, and so is the next week.
    let alert = Alert {
        when: vec![When::QuotaNear, When::QuotaOver],
        ..alert(When::QuotaNear)
    };
    assert_ne!(alert.key(&near), alert.key(&of(When::QuotaOver)));
    let mut next = standing(9, 10);
    next.period = Period::new(at(7 * 24), at(14 * 24));
    let next = quota(&next, When::QuotaNear, String::new());
    assert_ne!(alert.key(&near), alert.key(&next));
}

#[test]
fn a_gap_is_one_subject_while_it_lasts_and_after_its_end() {
    let time = |to: i64, has_ended: bool| UnobservedTime {
        period: Period::new(at(0), at(to)),
        has_ended,
    };
    assert_eq!(gap(&time(1, true), 2 * HOUR), None);
    let lasting = gap(&time(2, false), 2 * HOUR).unwrap();
    let ended = gap(&time(3, true), 2 * HOUR).unwrap();
    assert_eq!(lasting.subject, ended.subject);
    assert_eq!(lasting.summary, "the GPUs are not observed for 2h00m");
    assert_eq!(ended.summary, "the GPUs were not observed for 3h00m");
    let alert = alert(When::Gap);
    let mut last = LastSent::new();
    assert_eq!(sent(&alert, vec![lasting], &mut last, 2).len(), 1);
    assert_eq!(sent(&alert, vec![ended], &mut last, 3).len(), 0);
    assert_eq!(alert.long_gap(), LONG_GAP);
}

#[test]
fn a_gap_on_a_host_of_a_board_is_reported_again_after_the_cool_down() {
    let alert = alert(When::Gap);
    let lasting = |to: i64| {
        let time = UnobservedTime {
            period: Period::new(at(0), at(to)),
            has_ended: false,
        };
        let host = BoardHost {
            id: Some("a".to_owned()),
            workspace: "w".to_owned(),
            name: "lab1".to_owned(),
        };
        vec![gap(&time, HOUR).unwrap().on(host)]
    };
    let mut last = LastSent::new();
    assert_eq!(sent(&alert, lasting(2), &mut last, 2).len(), 1);
    assert_eq!(sent(&alert, lasting(25), &mut last, 25).len(), 0);
    assert_eq!(sent(&alert, lasting(27), &mut last, 27).len(), 1);
}

#[test]
fn a_second_silence_within_the_cool_down_is_reported() {
    let alert = alert(When::Silent);
    let mut last = LastSent::new();
    let mut check = |last_report: i64, hour: i64, expected: usize| {
        let found = finding::silent(LastContact::Report(at(last_report)), at(hour));
        let due = sent(&alert, vec![found], &mut last, hour);
        assert_eq!(due.len(), expected, "hour {hour}");
    };
    check(0, 4, 1);
    check(0, 5, 0);
    check(6, 10, 1);
}

#[test]
fn a_nudge_needs_idle_gpus_of_the_person_and_is_sent_once_a_day() {
    let mut ada = hold("ada", 0, 0);
    ada.uid = Some(Uid(1000));
    let holds = [ada, hold("pod:a/b", 1, 0)];
    let of = |to: u32, hour: i64| nudged(&holds, Uid(to), "eve", LONG_IDLE, at(hour));
    assert_eq!(of(1000, 1), None, "idle for an hour only");
    assert_eq!(of(1001, 5), None, "holds nothing");
    let finding = of(1000, 5).unwrap();
    assert_eq!(finding.summary, "eve asks ada: do you still need 1 GPU?");
    let alert = Alert {
        cool_down: Duration::from_secs(60),
        ..alert(When::Nudge)
    };
    let mut last = LastSent::new();
    // Several people may ask at once.
    let both = vec![finding.clone(), finding];
    let mut at_hour = |hour: i64| sent(&alert, both.clone(), &mut last, hour).len();
    assert_eq!([5, 6, 28, 29].map(&mut at_hour), [1, 0, 0, 1]);
}

#[test]
fn mail_goes_to_the_person_or_to_the_sender() {
    let mut email = Email {
        smtp: ("mail".to_owned(), 587),
        from: "gua@example.com".to_owned(),
        recipient: "{user}@example.com".to_owned(),
        account: None,
    };
    assert_eq!(email.recipient_of(Some("ada")), "ada@example.com");
    assert_eq!(email.recipient_of(None), "gua@example.com");
    email.recipient = "lab@example.com".to_owned();
    assert_eq!(email.recipient_of(Some("ada")), "lab@example.com");
    assert_eq!(email.recipient_of(None), "lab@example.com");
}

#[test]
fn findings_on_two_hosts_of_a_board_have_cool_downs_of_their_own() {
    let alert = alert(When::Silent);
    let mut last = LastSent::new();
    let on = |id: &str, hour: i64| {
        let host = BoardHost {
            id: Some(id.to_owned()),
            workspace: "w".to_owned(),
            name: "lab\u{1b}1".to_owned(),
        };
        finding::silent(LastContact::Report(at(0)), at(hour)).on(host)
    };
    assert_eq!(sent(&alert, vec![on("a", 1)], &mut last, 1).len(), 1);
    let both = vec![on("a", 2), on("b", 2)];
    let due = alert.due(both, &last, at(2), &TimeZone::UTC);
    assert_eq!(due, [on("b", 2)]);
    let message = alert.message(&due[0], "board");
    assert_eq!(
        message.title,
        "lab\u{fffd}1: the agent has sent nothing for 2h00m"
    );
}

#[test]
fn silent_agents_of_many_hosts_are_one_message_of_limited_size() {
    let alert = alert(When::Silent);
    let message = |hosts: usize| {
        let found = (1..=hosts).map(|number| {
            let host = BoardHost {
                id: Some(format!("host_{number}")),
                workspace: "w".to_owned(),
                name: format!("gpu{number}"),
            };
            finding::silent(LastContact::Report(at(0)), at(1)).on(host)
        });
        let found: Vec<Finding> = found.collect();
        let together = finding::all_silent(&found).unwrap();
        let on = together.host.as_ref().unwrap();
        let id = (hosts == 1).then_some("host_1");
        assert_eq!((on.id.as_deref(), on.workspace.as_str()), (id, "w"));
        alert.message(&together, "board")
    };
    assert_eq!(finding::all_silent(&[]), None);
    let title = |hosts: usize| message(hosts).title;
    assert_eq!(title(1), "gpu1: the agent has sent nothing for 1h00m");
    assert_eq!(title(2), "gpu1, gpu2: 2 agents are silent");
    assert_eq!(title(3), "gpu1, gpu2, gpu3: 3 agents are silent");
    assert_eq!(title(7), "gpu1, gpu2, gpu3 and 4 more: 7 agents are silent");
    let text = message(2).text;
    let expected = "gpu1, gpu2: 2 agents are silent\n\
                    - gpu1: last report at 2027-01-15T00:00:00Z\n\
                    - gpu2: last report at 2027-01-15T00:00:00Z\n\
                    `gua status` on the host shows";
    assert!(text.starts_with(expected), "{text}");
    let text = message(12_500).text;
    assert!(text.contains("\n- gpu20: last report at"), "{text}");
    assert!(text.contains("\n- and 12480 more\n"), "{text}");
    assert!(text.len() < 2000, "{text}");
}

#[test]
fn each_condition_can_be_found_by_a_daemon_or_a_board() {
    let found_by = |by: Sender| {
        let all = When::ALL.into_iter();
        let found = all.filter(move |when| when.obstacle(by).is_none());
        found.map(When::as_str).collect::<Vec<_>>()
    };
    assert_eq!(
        found_by(Sender::Board),
        [
            "idle-held",
            "quota-near",
            "quota-over",
            "unhealthy",
            "lost",
            "gap",
            "silent"
        ]
    );
    assert_eq!(found_by(Sender::Daemon).len(), When::ALL.len() - 1);
}

//! Tests of calendar periods, of the limits that apply to each person, and of forecasts.

use proptest::prelude::*;

use super::*;
use crate::state::RollUp;
use crate::total::OwnerTotal;
use crate::unit::Millijoules;

const BERLIN: &str = "CET-1CEST,M3.5.0,M10.5.0/3";
const HOUR: u64 = 3_600_000_000;

fn at(text: &str) -> Timestamp {
    text.parse().unwrap()
}

#[track_caller]
fn check_period(term: Term, now: &str, from: &str, to: &str) {
    let period = term.period(at(now), &TimeZone::posix(BERLIN).unwrap());
    assert_eq!(period, Period::new(at(from), at(to)), "{term:?} of {now}");
}

#[test]
fn a_term_is_the_calendars_and_a_week_begins_on_monday() {
    // A day with 25 hours, a Sunday.
    let now = "2026-10-25T12:00:00Z";
    check_period(
        Term::Day,
        now,
        "2026-10-24T22:00:00Z",
        "2026-10-25T23:00:00Z",
    );
    check_period(
        Term::Week,
        now,
        "2026-10-18T22:00:00Z",
        "2026-10-25T23:00:00Z",
    );
    check_period(
        Term::Month,
        now,
        "2026-09-30T22:00:00Z",
        "2026-10-31T23:00:00Z",
    );
    let rolling = Term::Rolling(Duration::from_secs(86_400));
    check_period(rolling, now, "2026-10-24T12:00:00Z", now);
    // The first moment of a Monday that is also the first of a month.
    let monday = "2026-06-01T00:00:00+02:00";
    check_period(Term::Week, monday, monday, "2026-06-08T00:00:00+02:00");
    check_period(Term::Month, monday, monday, "2026-07-01T00:00:00+02:00");
}

/// Parses people from `ada 3/1/2`: hours held, idle-held, charged.
fn usage(people: &str, observed_share: Option<f64>) -> Usage {
    let row = |text: &str| {
        let (name, hours) = text.trim().split_once(' ').unwrap();
        let hours: Vec<u64> = hours.split('/').map(|text| text.parse().unwrap()).collect();
        let sums = OwnerTotal {
            held: Micros(hours[0] * HOUR),
            idle_held: Micros(hours[1] * HOUR),
            charged: Micros(hours[2] * HOUR),
            energy: Millijoules(hours[0] * 1000),
            energy_known: Micros(hours[0] * HOUR),
            ticks: 1,
            ..OwnerTotal::default()
        };
        PersonRow {
            name: name.to_owned(),
            sums,
        }
    };
    // Ten days of a month have passed.
    Usage {
        period: Period::new(at("2026-11-01T00:00:00Z"), at("2026-12-01T00:00:00Z")),
        now: at("2026-11-11T00:00:00Z"),
        known_from: at("2026-11-01T00:00:00Z"),
        observed_share,
        people: people.split(',').map(row).collect(),
        unbalanced: Vec::new(),
        only: None,
    }
}

/// Parses a limit from `ada held 10`, `@students held 10 each`, `* idle-held 5 together`, in hours.
fn limit(text: &str) -> Limit {
    let words: Vec<&str> = text.split_whitespace().collect();
    let (subject, usual) = match words[0] {
        "*" => (Subject::Everyone, Sharing::Each),
        name => match name.strip_prefix('@') {
            Some(group) => (Subject::Group(group.to_owned()), Sharing::Together),
            None => (Subject::User(name.to_owned()), Sharing::Each),
        },
    };
    let sharing = match words.get(3) {
        Some(&"each") => Sharing::Each,
        Some(_) => Sharing::Together,
        None => usual,
    };
    let measure = Measure::ALL.into_iter().find(|it| it.as_str() == words[1]);
    Limit {
        subject,
        sharing,
        measure: measure.unwrap(),
        per: Term::Month,
        most: words[2].parse::<u64>().unwrap() * HOUR,
    }
}

fn students(group: &str) -> BTreeSet<String> {
    let names: &[&str] = if group == "students" {
        &["bob", "eve"]
    } else {
        &[]
    };
    names.iter().map(|name| (*name).to_owned()).collect()
}

/// Compares the names of those over the limit.
#[track_caller]
fn check(people: &str, limits: &str, expected: &str) {
    let usage = usage(people, Some(1.0));
    let limits: Vec<Limit> = limits.split(',').map(limit).collect();
    let found: Vec<String> = standings(&limits, |_| &usage, students)
        .iter()
        .map(|standing| {
            let who = match &standing.who {
                Who::Person(name) => name.clone(),
                Who::Group(name) => format!("@{name}"),
                Who::Everyone => "*".to_owned(),
            };
            let used = standing.used.map_or(u64::MAX, |used| used / HOUR);
            let over = if standing.is_over() { "!" } else { "" };
            format!("{who} {used}{over}")
        })
        .collect();
    assert_eq!(found.join(", "), expected, "{limits:?}");
}

#[test]
fn each_person_has_their_own_limit_and_the_most_special_counts() {
    let people = "ada 30/1/20, bob 20/2/10, eve 5/5/1, unknown 99/99/99";
    check(people, "* held 10", "ada 30!, bob 20!, eve 5");
    check(people, "* held 10, ada held 40", "bob 20!, eve 5, ada 30");
    check(
        people,
        "* held 10, @students held 25 each",
        "ada 30!, bob 20, eve 5",
    );
    check(
        people,
        "* held 10, @students held 25 each, bob held 5",
        "ada 30!, eve 5, bob 20!",
    );
    // The larger of two group limits applies; a shared limit applies in addition to all others.
    check(
        people,
        "@students held 24, bob held 20",
        "@students 25!, bob 20",
    );
    check(people, "@students held 25", "@students 25");
    check(people, "* charged 30 together", "* 130!");
    check(people, "* idle-held 2", "eve 5!, bob 2, ada 1");
    check(people, "@nobody held 1, zoe held 1", "@nobody 0, zoe 0");
}

#[test]
fn the_pace_so_far_leads_to_a_forecast_and_a_day() {
    let whole = usage("ada 100/0/0", Some(1.0));
    let standing = |usage: &Usage, text: &str| {
        let found = standings(&[limit(text)], |_| usage, students);
        found.into_iter().next().unwrap()
    };
    let found = standing(&whole, "ada held 200");
    assert_eq!(found.forecast, Ok(300 * HOUR));
    assert_eq!(found.reached, Some(at("2026-11-21T00:00:00Z")));
    assert_eq!(found.left(), Some(100 * HOUR));
    assert!(found.will_be_over() && !found.is_over());
    // If half of the time was observed, the rate is twice as high; unobserved time so far is not filled in.
    let half = usage("ada 100/0/0", Some(0.5));
    assert_eq!(standing(&half, "ada held 200").forecast, Ok(500 * HOUR));
    let unseen = usage("ada 0/0/0", None);
    let early = Err(NoForecast::TooEarly);
    assert_eq!(standing(&unseen, "ada held 200").forecast, early);
    // Within the limit at the end of the month.
    let found = standing(&whole, "ada held 400");
    assert_eq!((found.reached, found.will_be_over()), (None, false));
}

#[test]
fn seconds_of_data_are_no_pace() {
    // The start of the known history, and the term.
    let check = |known_from: &str, term: Term, expected: Result<u64, NoForecast>| {
        let mut usage = usage("ada 1/0/0", Some(1.0));
        usage.period = term.period(usage.now, &TimeZone::UTC);
        usage.known_from = at(known_from);
        let limit = Limit {
            per: term,
            ..limit("ada held 2")
        };
        let found = standings(&[limit], |_| &usage, students);
        assert_eq!(found[0].forecast, expected, "{term:?} from {known_from}");
        let is_early = expected.is_err();
        assert!(!is_early || (found[0].reached.is_none() && !found[0].will_be_over()));
    };
    let early = Err(NoForecast::TooEarly);
    let days = |days: u64| Term::Rolling(Duration::from_secs(days * 86_400));
    // A hundredth of a month is 7.2 hours.
    check("2026-11-10T23:59:50Z", Term::Month, early);
    check("2026-11-10T16:48:01Z", Term::Month, early);
    check(
        "2026-11-10T16:48:00Z",
        Term::Month,
        Ok(HOUR + HOUR * 20 * 240 / 72),
    );
    // A hundredth of a day is less than an hour.
    check("2026-11-10T23:00:01Z", days(1), early);
    check("2026-11-10T23:00:00Z", days(1), Ok(24 * HOUR));
    // A window that the history covers completely needs no forecast, however short it is.
    let quarter = Term::Rolling(Duration::from_secs(900));
    check("2026-11-10T23:45:00Z", quarter, Ok(HOUR));
    check("2026-11-10T23:50:00Z", quarter, early);
    // A month that has ended is known completely.
    let mut usage = usage("ada 1/0/0", Some(0.0001));
    usage.now = usage.period.to();
    let found = standings(&[limit("ada held 2")], |_| &usage, students);
    assert_eq!(found[0].forecast, Ok(HOUR));
}

#[test]
fn a_part_that_was_measured_is_a_lower_bound_and_no_whole() {
    let mut usage = usage("ada 10/0/10", Some(1.0));
    for in_use in [RollUp::Active, RollUp::IdleHeld] {
        let sums = &mut usage.people[0].sums;
        sums.add_imported(3, in_use, Micros::from_secs(600));
    }
    let check = |limit_text: &str, over: bool, judged: bool| {
        let found = standings(&[limit(limit_text)], |_| &usage, students);
        let [standing] = found.as_slice() else {
            panic!("one limit, one person")
        };
        assert_eq!((standing.at_least, standing.used), (10 * HOUR, None));
        assert_eq!((standing.is_over(), standing.is_judged()), (over, judged));
        assert_eq!(standing.forecast, Err(NoForecast::NotMeasured));
    };
    check("ada charged 9", true, true);
    check("ada charged 10", false, false);
    check("ada charged 100", false, false);
}

#[test]
fn what_nobody_measured_is_under_no_limit() {
    // Others may be on GPUs that report energy.
    let mut usage = usage("ada 10/0/10, bob 10/0/10", Some(1.0));
    usage.people[0].sums.energy = Millijoules(0);
    usage.people[0].sums.energy_known = Micros(0);
    let energy = Limit {
        measure: Measure::Energy,
        most: 0,
        ..limit("ada held 0")
    };
    let of = |usage: &Usage, limit: &Limit| {
        let found = standings(std::slice::from_ref(limit), |_| usage, students);
        (found[0].used, found[0].left(), found[0].is_over())
    };
    assert_eq!(of(&usage, &energy), (None, None, false));
    let bob = Limit {
        subject: Subject::User("bob".to_owned()),
        ..energy
    };
    assert_eq!(of(&usage, &bob), (Some(10_000), Some(0), true));
    // A GPU may draw less than a millijoule while it is held, and a person without use has no energy. The last
    // tick of a run has no energy count, which does not prevent a verdict; half of the time does.
    usage.people[0].sums.energy_known = Micros(10 * HOUR - HOUR / 2);
    assert_eq!(of(&usage, &energy), (Some(0), Some(0), false));
    usage.people[0].sums.energy_known = Micros(5 * HOUR);
    assert_eq!(of(&usage, &energy), (None, None, false));
    usage.people[0].sums.energy = Millijoules(1);
    assert_eq!(of(&usage, &energy), (None, None, true));
    usage.people[0].sums = OwnerTotal::default();
    assert_eq!(of(&usage, &energy), (Some(0), Some(0), false));
    // Old rows contain held time, but not how a GPU was shared.
    let sums = &mut usage.people[0].sums;
    *sums = OwnerTotal::default();
    sums.add_imported(3, RollUp::Active, Micros::from_secs(600));
    sums.add_imported(3, RollUp::IdleHeld, Micros::from_secs(600));
    assert_eq!(
        of(&usage, &limit("ada held 1")),
        (Some(HOUR), Some(0), false)
    );
    assert_eq!(of(&usage, &limit("ada idle-held 1")).0, Some(HOUR / 2));
    assert_eq!(of(&usage, &limit("ada charged 1")).0, None);
}

#[test]
fn a_rolling_window_that_the_history_does_not_fill_is_filled_at_the_pace() {
    let mut usage = usage("ada 10/0/0", Some(1.0));
    usage.period = Period::new(at("2026-11-01T00:00:00Z"), usage.now);
    usage.known_from = at("2026-11-06T00:00:00Z");
    let limit = Limit {
        per: Term::Rolling(Duration::from_secs(10 * 86_400)),
        ..limit("ada held 15")
    };
    let found = standings(&[limit], |_| &usage, students);
    assert_eq!(found[0].forecast, Ok(20 * HOUR));
    assert_eq!(found[0].reached, None);
}

proptest! {
    #[test]
    fn what_was_used_and_what_is_left_make_the_limit(held in 0u64..1000, most in 0u64..1000, share in 0.0f64..=1.0) {
        let usage = usage(&format!("ada {held}/0/0"), Some(share));
        let limit = limit(&format!("ada held {most}"));
        let found = standings(&[limit], |_| &usage, students);
        let [standing] = found.as_slice() else { panic!("one limit, one person") };
        let (used, left) = (standing.used.unwrap(), standing.left().unwrap());
        prop_assert_eq!(used.max(most * HOUR), used + left);
        prop_assert_eq!(standing.is_over(), held > most);
        prop_assert!(standing.forecast.is_ok_and(|forecast| forecast >= used) || standing.forecast == Err(NoForecast::TooEarly));
        prop_assert!(standing.reached.is_none_or(|reached| usage.period.contains(reached) || reached == usage.period.to()));
        prop_assert!(!(standing.is_over() && standing.reached.is_some()));
    }

    #[test]
    fn a_period_holds_its_moment_and_the_next_begins_where_it_ends(second in 1_760_000_000i64..1_810_000_000) {
        let zone = TimeZone::posix(BERLIN).unwrap();
        let now = Timestamp::from_second(second).unwrap();
        for term in [Term::Day, Term::Week, Term::Month] {
            let period = term.period(now, &zone);
            prop_assert!(period.contains(now));
            prop_assert_eq!(term.period(period.to(), &zone).from(), period.to());
            prop_assert_eq!(term.period(period.from(), &zone), period);
        }
    }
}

#[test]
fn a_limit_on_people_whose_use_is_hidden_is_not_judged() {
    let usage = Usage {
        only: Some("ada".to_owned()),
        ..usage("ada 6/0/6", Some(1.0))
    };
    let limits = [
        "ada held 10",
        "bob held 10",
        "@students held 10",
        "* held 10 together",
    ];
    let limits = limits.map(limit);
    let members = |_: &str| BTreeSet::from(["ada".to_owned(), "bob".to_owned()]);
    let found = standings(&limits, |_| &usage, members);
    let used: Vec<Option<u64>> = found.iter().map(|one| one.used).collect();
    assert_eq!(used, [Some(6 * HOUR), None, None, None]);
    let at_least: Vec<u64> = found.iter().map(|one| one.at_least / HOUR).collect();
    assert_eq!(at_least, [6, 0, 6, 6]);
}

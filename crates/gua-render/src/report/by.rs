//! The one table of a report: by person, card, day, hour of the day, week, month or state.

use gua_model::report::{HoldSums, Report, Sums};
use gua_model::{CalendarUnit, Micros, RollUp, State};

use crate::table::{Cell, Table};

/// What the rows of the table are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum By {
    User,
    Gpu,
    Day,
    Hour,
    Week,
    Month,
    State,
}

impl By {
    /// How the window has to be cut for this table.
    #[must_use]
    pub fn unit(self) -> Option<CalendarUnit> {
        match self {
            By::Day => Some(CalendarUnit::Day),
            By::Week => Some(CalendarUnit::Week),
            By::Month => Some(CalendarUnit::Month),
            By::User | By::Gpu | By::Hour | By::State => None,
        }
    }
}

/// The table, with every row: what is printed of it is the page's business.
#[must_use]
pub fn table(report: &Report, by: By) -> Table {
    match by {
        By::User => users(report),
        By::Gpu => cards(report),
        By::Day => slots(report, "day", "%Y-%m-%d"),
        // By its Monday.
        By::Week => slots(report, "week", "%Y-%m-%d"),
        By::Month => slots(report, "month", "%Y-%m"),
        By::Hour => hours(report),
        By::State => states(report),
    }
}

const OF_A_PERSON: [(&str, &str); 6] = [
    ("samples", "samples"),
    ("held_hours", "held h"),
    ("idle_held_hours", "idle-held h"),
    ("idle_held_share", "idle-held"),
    ("charged_hours", "charged h"),
    ("energy_kwh", "kWh"),
];

const OF_CARDS: [(&str, &str); 11] = [
    ("samples", "samples"),
    ("active_hours", "active h"),
    ("idle_held_hours", "idle-held h"),
    ("truly_idle_hours", "truly-idle h"),
    ("held_unknown_hours", "unknown h"),
    ("gap_hours", "gap h"),
    ("active_share", "active"),
    ("idle_held_share", "idle-held"),
    ("truly_idle_share", "truly-idle"),
    ("util_mean_percent", "mean util"),
    ("energy_kwh", "kWh"),
];

fn of_a_person(sums: &HoldSums) -> Vec<Cell> {
    vec![
        Cell::Count(sums.samples()),
        Cell::Hours(sums.hours()),
        Cell::Hours(sums.idle_hours()),
        Cell::share(sums.idle_share()),
        Cell::time(sums.charged_time()),
        Cell::energy(sums.counted_energy()),
    ]
}

fn of_cards(sums: &Sums, gap: Option<Micros>) -> Vec<Cell> {
    vec![
        Cell::Count(sums.samples()),
        Cell::Hours(sums.hours(RollUp::Active)),
        Cell::Hours(sums.hours(RollUp::IdleHeld)),
        Cell::Hours(sums.hours(RollUp::TrulyIdle)),
        Cell::Hours(sums.unknown_hours()),
        Cell::time(gap),
        Cell::share(sums.share(RollUp::Active)),
        Cell::share(sums.share(RollUp::IdleHeld)),
        Cell::share(sums.share(RollUp::TrulyIdle)),
        sums.util().map_or(Cell::Missing, Cell::Percent),
        Cell::energy(sums.counted_energy()),
    ]
}

/// The columns that rows of cards and of time have: what the cards did, or what one person had of them.
fn sums_columns(report: &Report) -> &'static [(&'static str, &'static str)] {
    match report.person {
        Some(_) => &OF_A_PERSON,
        None => &OF_CARDS,
    }
}

fn sums_cells(report: &Report, sums: &Sums, gap: Option<Micros>) -> Vec<Cell> {
    match report.person {
        Some(_) => of_a_person(&sums.held),
        None => of_cards(sums, gap),
    }
}

fn with_columns(first: &[(&str, &str)], rest: &[(&str, &str)]) -> Table {
    let mut table = Table::default();
    for (key, title) in first.iter().chain(rest) {
        table.columns.push(crate::table::Column {
            key: (*key).to_owned(),
            title: (*title).to_owned(),
        });
    }
    table
}

fn users(report: &Report) -> Table {
    let mut table = with_columns(&[("user", "user")], &OF_A_PERSON);
    for person in &report.people {
        let mut row = vec![Cell::Text(person.name.clone())];
        row.extend(of_a_person(&person.sums));
        table.rows.push(row);
    }
    table
}

fn cards(report: &Report) -> Table {
    let first = [
        ("gpu_uuid", "gpu"),
        ("gpu_index", "#"),
        ("gpu_name", "model"),
    ];
    let mut table = with_columns(&first, sums_columns(report));
    for card in &report.cards {
        let mut row = vec![
            Cell::Text(card.gpu.to_string()),
            card.index
                .map_or(Cell::Missing, |index| Cell::Count(index.into())),
            card.name.clone().map_or(Cell::Missing, Cell::Text),
        ];
        let gap = (card.covered.capacity > Micros(0)).then_some(card.covered.gap);
        row.extend(sums_cells(report, &card.sums, gap));
        table.rows.push(row);
    }
    table
}

fn slots(report: &Report, key: &'static str, form: &str) -> Table {
    let mut table = with_columns(&[(key, key)], sums_columns(report));
    for slot in &report.slots {
        let mut row = vec![Cell::Text(slot.label.strftime(form).to_string())];
        let gap = (report.coverage.capacity > Micros(0)).then_some(slot.gap);
        row.extend(sums_cells(report, &slot.sums, gap));
        table.rows.push(row);
    }
    table
}

/// What the keys of the columns of single cards and people begin with, before a blank and the name.
const OF_EACH_CARD: &str = "active_share";
const OF_EACH_PERSON: &str = "held_hours";

/// Hours of the day: what the cards did, each card's active share, and what each person held.
fn hours(report: &Report) -> Table {
    let first = [("hour", "hour")];
    let mut table = with_columns(&first, sums_columns(report));
    let column = |key: String, title: String| crate::table::Column { key, title };
    if report.person.is_none() {
        for card in &report.cards {
            let title = card
                .index
                .map_or_else(|| card.gpu.to_string(), |index| format!("#{index}"));
            table
                .columns
                .push(column(format!("{OF_EACH_CARD} {}", card.gpu), title));
        }
        for person in &report.people {
            table.columns.push(column(
                format!("{OF_EACH_PERSON} {}", person.name),
                format!("{} h", person.name),
            ));
        }
    }
    for (place, hour) in report.cross.iter().enumerate() {
        let mut row = vec![Cell::Text(format!("{place:02}"))];
        let gap = (report.coverage.capacity > Micros(0)).then_some(hour.gap);
        row.extend(sums_cells(report, &hour.sums, gap));
        if report.person.is_none() {
            row.extend(
                hour.cards
                    .iter()
                    .map(|card| Cell::share(card.sums.share(RollUp::Active))),
            );
            row.extend(hour.people.iter().map(|sums| Cell::Hours(sums.hours())));
        }
        table.rows.push(row);
    }
    table
}

/// The columns of [`hours`] by what they tell of, each by its place. The hour itself is the first of all.
pub(super) struct HourColumns {
    pub(super) all: Vec<usize>,
    pub(super) cards: Vec<usize>,
    pub(super) people: Vec<usize>,
}

pub(super) fn hour_columns(table: &Table) -> HourColumns {
    let (mut all, mut cards, mut people) = (Vec::new(), Vec::new(), Vec::new());
    for (place, column) in table.columns.iter().enumerate() {
        let kind = match column.key.split_once(' ') {
            Some((OF_EACH_CARD, _)) => &mut cards,
            Some((OF_EACH_PERSON, _)) => &mut people,
            _ => &mut all,
        };
        kind.push(place);
    }
    HourColumns { all, cards, people }
}

/// Each state with its hours and energy, then the gap: together the capacity.
fn states(report: &Report) -> Table {
    let columns = [
        ("state", "state"),
        ("hours", "hours"),
        ("share", "share"),
        ("energy_kwh", "kWh"),
    ];
    let mut table = Table::new(columns);
    let all: f64 = RollUp::ALL
        .iter()
        .map(|class| report.all.hours(*class))
        .sum::<f64>()
        + report.all.unknown_hours();
    let share = |hours: f64| Cell::share((all > 0.0).then(|| hours / all));
    for state in State::ALL
        .into_iter()
        .filter(|state| *state != State::Unobserved)
    {
        let own = report.all.state(state);
        // Old rows know the three classes alone, each under the state of its name.
        let old = match state {
            State::Active => report.all.old_hours(RollUp::Active),
            State::IdleHeld => report.all.old_hours(RollUp::IdleHeld),
            State::TrulyIdle => report.all.old_hours(RollUp::TrulyIdle),
            _ => 0.0,
        };
        let hours = own.micros.hours() + old;
        table.rows.push(vec![
            Cell::Text(state.as_str().to_owned()),
            Cell::Hours(hours),
            share(hours),
            Cell::energy(own.counted_energy()),
        ]);
    }
    if report.coverage.capacity > Micros(0) {
        let gap = Cell::Hours(report.coverage.gap.hours());
        table.rows.push(vec![
            Cell::Text("gap".to_owned()),
            gap,
            Cell::Missing,
            Cell::Missing,
        ]);
    }
    table
}

//! The two text formats that Prometheus reads: OpenMetrics 1.0 and the older text format 0.0.4.
//!
//! They differ in details: OpenMetrics names the unit, has the types info and stateset, names a counter's family without
//! `_total`, and ends with `# EOF`. node_exporter's textfile collector accepts only the older one.

use std::fmt::Write as _;

/// A group of samples with one name and meaning.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Family {
    /// Name without the suffix of its samples ([`Family::sample`]). It ends with the unit if there is one.
    pub name: &'static str,
    pub kind: Kind,
    /// Base unit: seconds, bytes, joules, watts, celsius, hertz or ratio.
    pub unit: Option<&'static str>,
    pub help: &'static str,
}

/// Declares a family: `family!(Counter "gua_board_batch_seconds" in "seconds", "Time spent.")`.
#[macro_export]
macro_rules! family {
    ($Kind:ident $name:literal $(in $unit:literal)?, $help:literal) => {
        $crate::metrics::Family {
            name: $name,
            kind: $crate::metrics::Kind::$Kind,
            unit: $crate::family!(@unit $($unit)?),
            help: $help,
        }
    };
    (@unit) => { None };
    (@unit $unit:literal) => { Some($unit) };
}

/// Type of a family.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Gauge,
    Counter,
    /// Facts as labels; the value is 1.
    Info,
    /// One sample for each state; the current one has the value 1. The label has the name of the family.
    StateSet,
}

impl Family {
    /// Returns the name of the family's samples, which queries use.
    pub fn sample(&self) -> String {
        format!("{}{}", self.name, self.suffix())
    }

    fn suffix(&self) -> &'static str {
        match self.kind {
            Kind::Counter => "_total",
            Kind::Info => "_info",
            Kind::Gauge | Kind::StateSet => "",
        }
    }
}

/// A text format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    OpenMetrics,
    /// Version 0.0.4.
    Text,
}

impl Form {
    /// Chooses the format by the `Accept` header of a request. The older format is the default, as in other exporters.
    pub fn accepted(accept: &str) -> Self {
        let quality = |media: &str| -> f64 {
            let parameters = media.split(';').skip(1).map(str::trim);
            let mut given = parameters.filter_map(|word| word.strip_prefix("q="));
            given.next().and_then(|q| q.parse().ok()).unwrap_or(1.0)
        };
        let of = |name: &str| {
            let all = accept.split(',').map(str::trim);
            let named = all.filter(|media| media.split(';').next().map(str::trim) == Some(name));
            named.map(quality).fold(0.0, f64::max)
        };
        let open = of("application/openmetrics-text");
        match open > 0.0 && open >= of("text/plain") {
            true => Form::OpenMetrics,
            false => Form::Text,
        }
    }

    pub fn content_type(self) -> &'static str {
        match self {
            Form::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
            Form::Text => "text/plain; version=0.0.4; charset=utf-8",
        }
    }
}

/// Labels of a sample, escaped.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Labels(String);

impl Labels {
    pub fn new(labels: &[(&str, &str)]) -> Self {
        let mut all = Self::default();
        for (name, value) in labels {
            all.add(name, value);
        }
        all
    }

    /// Returns the labels with one more.
    pub fn with(&self, name: &str, value: &str) -> Self {
        let mut all = self.clone();
        all.add(name, value);
        all
    }

    /// Adds a label. Values such as host names are untrusted text: a line break in them must not begin a new sample.
    fn add(&mut self, name: &str, value: &str) {
        if !self.0.is_empty() {
            self.0.push(',');
        }
        self.0.push_str(name);
        self.0.push_str("=\"");
        for letter in value.chars() {
            match letter {
                '\\' => self.0.push_str("\\\\"),
                '"' => self.0.push_str("\\\""),
                '\n' => self.0.push_str("\\n"),
                other => self.0.push(other),
            }
        }
        self.0.push('"');
    }
}

/// A page of metrics that is being written.
#[derive(Clone, Debug)]
pub struct Page {
    text: String,
    form: Form,
}

impl Page {
    pub fn new(form: Form) -> Self {
        let text = String::with_capacity(64 * 1024);
        Self { text, form }
    }

    /// Writes a family with its samples. Without samples, nothing is written, because a missing value is not zero.
    pub fn family(&mut self, family: &Family, samples: impl FnOnce(&mut Samples<'_>)) {
        let mut writer = Samples {
            page: self,
            family,
            is_begun: false,
        };
        samples(&mut writer);
    }

    /// Writes a family with one sample without labels.
    pub fn one(&mut self, family: &Family, value: Option<f64>) {
        self.family(family, |samples| samples.one(value));
    }

    #[must_use]
    pub fn finish(mut self) -> String {
        if self.form == Form::OpenMetrics {
            self.text.push_str("# EOF\n");
        }
        self.text
    }

    fn header(&mut self, family: &Family) {
        let name = || family.name.to_owned();
        let (name, kind) = match (self.form, family.kind) {
            (Form::OpenMetrics, Kind::Info) => (name(), "info"),
            (Form::OpenMetrics, Kind::StateSet) => (name(), "stateset"),
            (Form::OpenMetrics, Kind::Counter) => (name(), "counter"),
            (Form::Text, Kind::Counter) => (family.sample(), "counter"),
            (_, Kind::Gauge) | (Form::Text, Kind::Info | Kind::StateSet) => {
                (family.sample(), "gauge")
            }
        };
        let help = family.help;
        let _ = writeln!(self.text, "# HELP {name} {help}\n# TYPE {name} {kind}");
        if let (Form::OpenMetrics, Some(unit)) = (self.form, family.unit) {
            let _ = writeln!(self.text, "# UNIT {name} {unit}");
        }
    }
}

/// Samples of the family that is being written.
#[derive(Debug)]
pub struct Samples<'p> {
    page: &'p mut Page,
    family: &'p Family,
    is_begun: bool,
}

impl Samples<'_> {
    pub fn add(&mut self, labels: &Labels, value: f64) {
        if !self.is_begun {
            self.is_begun = true;
            self.page.header(self.family);
        }
        let text = &mut self.page.text;
        text.push_str(self.family.name);
        text.push_str(self.family.suffix());
        if !labels.0.is_empty() {
            text.push('{');
            text.push_str(&labels.0);
            text.push('}');
        }
        let _ = writeln!(text, " {value}");
    }

    /// Adds a sample without labels, if there is a value.
    pub fn one(&mut self, value: Option<f64>) {
        if let Some(value) = value {
            self.add(&Labels::default(), value);
        }
    }

    /// Adds all states of a state set, of which `current` are set.
    pub fn states<'s>(
        &mut self,
        labels: &Labels,
        all: impl IntoIterator<Item = &'s str>,
        current: impl Fn(&str) -> bool,
    ) {
        for state in all {
            let value = f64::from(u8::from(current(state)));
            self.add(&labels.with(self.family.name, state), value);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TIME: Family = family!(Counter "x_held_seconds" in "seconds", "Time held.");
    const STATE: Family = Family {
        name: "x_state",
        kind: Kind::StateSet,
        unit: None,
        help: "State.",
    };

    fn page(form: Form) -> String {
        let mut page = Page::new(form);
        let labels = Labels::new(&[("model", "A \"B\"\\\n# x 1")]);
        page.family(&TIME, |samples| samples.add(&labels, 1.5));
        page.family(&STATE, |samples| {
            samples.states(&Labels::default(), ["on", "off"], |state| state == "on");
        });
        page.one(&family!(Gauge "x_missing", "Never measured."), None);
        page.finish()
    }

    #[test]
    fn openmetrics_names_units_and_types_and_ends() {
        let expected = "# HELP x_held_seconds Time held.\n# TYPE x_held_seconds counter\n# UNIT x_held_seconds seconds\n\
             x_held_seconds_total{model=\"A \\\"B\\\"\\\\\\n# x 1\"} 1.5\n\
             # HELP x_state State.\n# TYPE x_state stateset\nx_state{x_state=\"on\"} 1\nx_state{x_state=\"off\"} 0\n# EOF\n";
        assert_eq!(page(Form::OpenMetrics), expected);
    }

    #[test]
    fn the_older_format_has_gauges_in_place_of_new_types() {
        let expected = "# HELP x_held_seconds_total Time held.\n# TYPE x_held_seconds_total counter\n\
             x_held_seconds_total{model=\"A \\\"B\\\"\\\\\\n# x 1\"} 1.5\n\
             # HELP x_state State.\n# TYPE x_state gauge\nx_state{x_state=\"on\"} 1\nx_state{x_state=\"off\"} 0\n";
        assert_eq!(page(Form::Text), expected);
    }

    #[test]
    fn the_format_follows_the_accept_header() {
        let prometheus = "application/openmetrics-text;version=1.0.0,application/openmetrics-text;version=0.0.1;q=0.75,\
                          text/plain;version=0.0.4;q=0.5,*/*;q=0.1";
        for (accept, expected) in [
            (prometheus, Form::OpenMetrics),
            ("text/plain;version=0.0.4;q=1,*/*;q=0.1", Form::Text),
            (
                "application/openmetrics-text;q=0.2, text/plain;q=0.9",
                Form::Text,
            ),
            ("application/openmetrics-text;q=0", Form::Text),
            ("*/*", Form::Text),
            ("", Form::Text),
        ] {
            assert_eq!(Form::accepted(accept), expected, "{accept}");
        }
    }
}

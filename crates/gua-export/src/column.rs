//! Columns of tables, and the macro that declares them.

/// One column of a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Column {
    /// Name, including the unit.
    pub name: &'static str,
    pub kind: Kind,
    /// Description in one sentence.
    pub about: &'static str,
}

/// Type of the values. Any value may be missing, if it was not measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Microseconds since 1970 in UTC.
    Time,
    Int,
    Float,
    Bool,
    Text,
}

impl Kind {
    /// Returns the name in the documentation.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Kind::Time => "timestamp (UTC, microseconds)",
            Kind::Int => "64-bit integer",
            Kind::Float => "double",
            Kind::Bool => "boolean",
            Kind::Text => "text",
        }
    }
}

/// Descriptions of columns that several tables have.
pub(crate) mod about {
    pub(crate) const HOST: &str = "The host.";
    pub(crate) const SOURCE: &str =
        "`gua`, or `imported` for rows of gpu-usage-audit or gpu_stats.";
    pub(crate) const GPU: &str = "The GPU.";
    pub(crate) const INDEX_THEN: &str = "Index at that time, for display.";
    pub(crate) const INDEX_LAST: &str = "Last known index.";
    pub(crate) const GPU_NAME: &str = "Its model.";
    pub(crate) const MIG_PARENT: &str = "The GPU that this one is a MIG instance of.";
    pub(crate) const TICK_AT: &str = "Time of the tick.";
    pub(crate) const QUARTER_AT: &str = "Start of the quarter hour.";
    pub(crate) const PID: &str = "The process.";
    pub(crate) const USER_OF_PROCESS: &str = "Owner; absent if unknown.";
    pub(crate) const UID: &str = "UID of the owner.";
    pub(crate) const USER_SOURCE: &str =
        "How the owner was determined: `login`, `process`, `job`, `pod` or `container`.";
    pub(crate) const PROCESS: &str = "The short name of the program.";
    pub(crate) const KIND: &str = "`compute`, `graphics` or `both`.";
    pub(crate) const JOB: &str = "Its Slurm job.";
    pub(crate) const POD: &str = "Its Kubernetes pod.";
    pub(crate) const CONTAINER: &str = "Its container.";
}

/// Returns the number of columns of all parts.
pub(crate) const fn count(parts: &[&[Column]]) -> usize {
    let (mut part, mut count) = (0, 0);
    while part < parts.len() {
        count += parts[part].len();
        part += 1;
    }
    count
}

/// Returns the columns of all parts, in order. `COUNT` is their number.
pub(crate) const fn flatten<const COUNT: usize>(parts: &[&[Column]]) -> [Column; COUNT] {
    let mut all = [Column {
        name: "",
        kind: Kind::Int,
        about: "",
    }; COUNT];
    let (mut part, mut filled) = (0, 0);
    while part < parts.len() {
        let mut place = 0;
        while place < parts[part].len() {
            all[filled] = parts[part][place];
            filled += 1;
            place += 1;
        }
        part += 1;
    }
    all
}

/// Declares a row and its table. The fields are the columns, in this order; a field of the kind `Readings` expands to
/// the columns of all readings of a GPU.
macro_rules! columns {
    ($(#[$doc:meta])* $row:ident { $($name:ident: $kind:ident = $about:expr,)* }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default)]
        pub(crate) struct $row<'a> {
            $(pub(crate) $name: crate::column::columns!(@type $kind 'a),)*
            pub(crate) lifetime: std::marker::PhantomData<&'a ()>,
        }

        impl $row<'_> {
            pub(crate) const COLUMNS: &'static [crate::column::Column] = {
                const PARTS: &[&[crate::column::Column]] =
                    &[$(crate::column::columns!(@columns $kind $name $about),)*];
                const ALL: [crate::column::Column; crate::column::count(PARTS)] =
                    crate::column::flatten(PARTS);
                &ALL
            };
        }

        impl crate::batch::Row for $row<'_> {
            fn add_to(&self, batch: &mut crate::batch::Batch) {
                let mut places = batch.row();
                $(crate::column::columns!(@put $kind places self.$name);)*
                places.done();
            }
        }
    };
    (@columns Readings $name:ident $about:expr) => { crate::readings::COLUMNS };
    (@columns $kind:ident $name:ident $about:expr) => {
        &[crate::column::Column {
            name: stringify!($name),
            kind: crate::column::Kind::$kind,
            about: $about,
        }]
    };
    (@type Readings $life:lifetime) => { crate::readings::Values };
    (@type Text $life:lifetime) => { Option<&$life str> };
    (@type Time $life:lifetime) => { Option<jiff::Timestamp> };
    (@type Int $life:lifetime) => { Option<i64> };
    (@type Float $life:lifetime) => { Option<f64> };
    (@type Bool $life:lifetime) => { Option<bool> };
    (@put Readings $places:ident $value:expr) => { $value.put(&mut $places) };
    (@put Text $places:ident $value:expr) => { $places.text($value) };
    (@put Time $places:ident $value:expr) => { $places.time($value) };
    (@put Int $places:ident $value:expr) => { $places.int($value) };
    (@put Float $places:ident $value:expr) => { $places.float($value) };
    (@put Bool $places:ident $value:expr) => { $places.bool($value) };
}

pub(crate) use columns;

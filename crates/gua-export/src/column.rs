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

gua_model::words! {
    /// Type of the values. Any value may be missing, if it was not measured.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum Kind {
        /// Microseconds since 1970 in UTC.
        Time = "timestamp (UTC, microseconds)",
        Int = "64-bit integer",
        Float = "double",
        Bool = "boolean",
        Text = "text",
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
        "How the owner was determined: `login`, `process`, `job`, `pod`, `container` or `rule`.";
    pub(crate) const PROCESS: &str = "The short name of the program.";
    pub(crate) const KIND: &str = "`compute`, `graphics` or `both`.";
    pub(crate) const JOB: &str = "Its Slurm job.";
    pub(crate) const POD: &str = "Its Kubernetes pod.";
    pub(crate) const CONTAINER: &str = "Its container.";
}

/// Declares a table: its columns, and behind each `;` the value of a column in a row of one type. A table may have rows
/// of two types, own and imported ones. `names` has the names of the host and its GPUs. A column of the kind `Readings`
/// expands to those of all readings of a GPU.
macro_rules! columns {
    ($TABLE:ident($names:ident): $row:ident: $Row:ty {
        $($name:ident: $kind:ident = $about:expr; $value:expr,)*
    }) => {
        crate::column::columns!(@table $TABLE $($name $kind $about,)*);
        crate::column::columns!(@row $names $row $Row; $($kind $value,)*);
    };
    ($TABLE:ident($names:ident): $own:ident: $Own:ty, $old:ident: $Old:ty {
        $($name:ident: $kind:ident = $about:expr; $own_value:expr; $old_value:expr,)*
    }) => {
        crate::column::columns!(@table $TABLE $($name $kind $about,)*);
        crate::column::columns!(@row $names $own $Own; $($kind $own_value,)*);
        crate::column::columns!(@row $names $old $Old; $($kind $old_value,)*);
    };
    (@table $TABLE:ident $($name:ident $kind:ident $about:expr,)*) => {
        pub(crate) static $TABLE: std::sync::LazyLock<Vec<crate::column::Column>> =
            std::sync::LazyLock::new(|| {
                [$(crate::column::columns!(@columns $name $kind $about),)*].concat()
            });
    };
    (@columns $name:ident Readings $about:expr) => { crate::readings::columns().collect() };
    (@columns $name:ident $kind:ident $about:expr) => {
        vec![crate::column::Column {
            name: stringify!($name),
            kind: crate::column::Kind::$kind,
            about: $about,
        }]
    };
    (@row $names:ident $row:ident $Row:ty; $($kind:ident $value:expr,)*) => {
        impl crate::batch::Row for $Row {
            fn put(&self, $names: &crate::names::Names, cells: &mut crate::batch::RowCells<'_>) {
                let $row = self;
                $(crate::column::columns!(@put cells $kind $value);)*
            }
        }
    };
    (@put $cells:ident Readings $values:expr) => { $values.for_each(|value| $cells.put(value)) };
    (@put $cells:ident $kind:ident $value:expr) => { $cells.put($value) };
}

pub(crate) use columns;

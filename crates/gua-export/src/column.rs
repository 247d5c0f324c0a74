//! What a column is, and the one way in which tables say theirs.

/// One column of a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Column {
    /// Carries the unit.
    pub name: &'static str,
    pub kind: Kind,
    /// What it says, in one sentence.
    pub about: &'static str,
}

/// What the values of a column are. Any of them may be absent: then nobody measured it.
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
    /// As the documentation calls it.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Kind::Time => "timestamp (UTC, microseconds)",
            Kind::Int => "64-bit integer",
            Kind::Float => "double",
            Kind::Bool => "boolean",
            Kind::Text => "text",
        }
    }
}

/// Declares a row and its table: the fields are the columns, in this order.
macro_rules! columns {
    ($(#[$doc:meta])* $row:ident { $($name:ident: $kind:ident = $about:literal,)* }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default)]
        pub(crate) struct $row<'a> {
            $(pub(crate) $name: crate::column::columns!(@type $kind 'a),)*
            pub(crate) lifetime: std::marker::PhantomData<&'a ()>,
        }

        impl<'a> $row<'a> {
            pub(crate) const COLUMNS: &'static [crate::column::Column] = &[
                $(crate::column::Column {
                    name: stringify!($name),
                    kind: crate::column::Kind::$kind,
                    about: $about,
                },)*
            ];
        }

        impl crate::batch::Row for $row<'_> {
            fn add_to(&self, batch: &mut crate::batch::Batch) {
                let mut places = batch.row();
                $(crate::column::columns!(@put $kind places self.$name);)*
                places.done();
            }
        }
    };
    (@type Text $life:lifetime) => { Option<&$life str> };
    (@type Time $life:lifetime) => { Option<jiff::Timestamp> };
    (@type Int $life:lifetime) => { Option<i64> };
    (@type Float $life:lifetime) => { Option<f64> };
    (@type Bool $life:lifetime) => { Option<bool> };
    (@put Text $places:ident $value:expr) => { $places.text($value) };
    (@put Time $places:ident $value:expr) => { $places.time($value) };
    (@put Int $places:ident $value:expr) => { $places.int($value) };
    (@put Float $places:ident $value:expr) => { $places.float($value) };
    (@put Bool $places:ident $value:expr) => { $places.bool($value) };
}

pub(crate) use columns;

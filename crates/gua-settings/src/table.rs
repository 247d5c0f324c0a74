//! Every setting, once. A new one is a new line here: its file key, variable, default, meaning, `config default`,
//! `config show` and `config check` all follow from it.

use std::ffi::OsStr;

use crate::kind::{
    ActivePercent, BoardAddress, ClaimPlace, CsvFormat, CsvPeriod, CsvPlace, Days, FilePath,
    GraphicsSwitch, Home, Kind, LeaseLength, LibraryName, LogMegabytes, MaybeFile, Megabytes,
    PlainHttp, PushForm, Raw, RawAge, ReadDeadline, TickInterval, UserNames,
};
use crate::quota::Quota;
use crate::{Setting, Source};

/// What is known of a setting without its value.
#[derive(Clone, Copy, Debug)]
pub struct Entry {
    pub section: &'static str,
    /// What the section is about; one sentence.
    pub section_doc: &'static str,
    pub key: &'static str,
    /// The variable that sets it.
    pub env: &'static str,
    /// The default, as it stands in a file.
    pub default_toml: fn() -> String,
    /// What it means; one or more lines.
    pub doc: &'static str,
    /// What may be written.
    pub what: &'static str,
}

/// A setting with its value, for showing.
#[derive(Clone, Debug)]
pub struct Shown<'a> {
    pub entry: &'static Entry,
    pub toml: String,
    pub json: serde_json::Value,
    pub source: &'a Source,
}

macro_rules! settings {
    ($(
        #[doc = $section_doc:literal]
        $section:ident: $Group:ident {
            $(
                $(#[doc = $doc:literal])*
                $key:ident: $Kind:ty = $default:literal, $env:literal;
            )*
        }
    )*) => {
        /// The settings in force.
        #[derive(Clone, Debug)]
        pub struct Settings {
            $( #[doc = $section_doc] pub $section: $Group, )*
            /// Limits on what people may have, which are tables of their own.
            pub quotas: Vec<Quota>,
        }

        $(
            #[doc = $section_doc]
            #[derive(Clone, Debug)]
            pub struct $Group {
                $( $(#[doc = $doc])* pub $key: Setting<<$Kind as Kind>::Value>, )*
            }
        )*

        /// All settings, in the order in which they are shown.
        pub const ENTRIES: &[Entry] = &[
            $( $(
                Entry {
                    section: stringify!($section),
                    section_doc: $section_doc,
                    key: stringify!($key),
                    env: $env,
                    default_toml: || <$Kind as Kind>::toml_of_text($default),
                    doc: concat!($($doc, "\n"),*),
                    what: <$Kind as Kind>::WHAT,
                },
            )* )*
        ];

        impl Settings {
            /// The defaults alone.
            #[must_use]
            pub fn defaults(home: &Home) -> Self {
                Self {
                    $( $section: $Group {
                        $( $key: Setting { value: default_of::<$Kind>($default, home), source: Source::Default }, )*
                    }, )*
                    quotas: Vec::new(),
                }
            }

            /// Sets one value; `None` if there is no such setting, an error if the value is no good.
            pub fn set(
                &mut self,
                section: &str,
                key: &str,
                raw: Raw<'_>,
                home: &Home,
                source: Source,
            ) -> Option<Result<(), String>> {
                match (section, key) {
                    $( $(
                        (stringify!($section), stringify!($key)) => Some(
                            <$Kind as Kind>::parse(raw, home)
                                .map(|value| self.$section.$key = Setting { value, source }),
                        ),
                    )* )*
                    _ => None,
                }
            }

            /// Every setting with its value and source, in the order of [`ENTRIES`].
            #[must_use]
            pub fn shown(&self) -> Vec<Shown<'_>> {
                let mut entries = ENTRIES.iter();
                let mut shown = Vec::with_capacity(ENTRIES.len());
                $( $(
                    if let Some(entry) = entries.next() {
                        let Setting { value, source } = &self.$section.$key;
                        shown.push(Shown {
                            entry,
                            toml: <$Kind as Kind>::toml(value),
                            json: <$Kind as Kind>::json(value),
                            source,
                        });
                    }
                )* )*
                shown
            }
        }
    };
}

settings! {
    /// How the NVIDIA driver is reached.
    driver: DriverSettings {
        /// The driver's library: a file, or a name that the system's loader finds.
        library: LibraryName = "libnvidia-ml.so.1", "GUA_NVML_LIBRARY";
        /// How long the driver may take for one answer before it counts as hung; for the first, which opens it, three times as long.
        deadline: ReadDeadline = "10s", "GUA_DRIVER_DEADLINE";
    }
    /// When a card counts as active, and when as held.
    states: StateSettings {
        /// A card is active from this utilisation on, in percent.
        active_util: ActivePercent = "10", "GUA_ACTIVE_UTIL";
        /// A card is held when its holders have more memory than this, in MB (1048576 bytes).
        held_mb: Megabytes = "100", "GUA_HELD_MB";
        /// Whether a process that only draws (a desktop) holds its card.
        count_graphics: GraphicsSwitch = "false", "GUA_COUNT_GRAPHICS";
    }
    /// Where this host's history is kept.
    history: HistorySettings {
        /// The history file. The flag --db wins over it.
        db: FilePath = "~/.gua/gua.db", "GUA_DB";
    }
    /// Leases on cards, which `gua available --claim` makes.
    claim: ClaimSettings {
        /// The directory that all users of this host share; "auto" takes the first that everyone can write (docs/claims.md).
        dir: ClaimPlace = "auto", "GUA_CLAIM_DIR";
        /// The longest lease that may be asked for; 7d at most.
        longest: LeaseLength = "7d", "GUA_CLAIM_LONGEST";
    }
    /// How the daemon collects. It reads these again on SIGHUP, the two files apart.
    collect: CollectSettings {
        /// The time from one tick to the next.
        interval: TickInterval = "30s", "GUA_INTERVAL";
        /// How long single ticks are kept. Sessions and quarter hours are kept for good.
        keep_raw: RawAge = "90d", "GUA_KEEP_RAW";
        /// Where the number of the daemon in the background stands.
        pid_file: FilePath = "~/.gua/gua.pid", "GUA_PID_FILE";
        /// Where the daemon in the background writes its lines.
        log_file: FilePath = "~/.gua/gua.log", "GUA_LOG_FILE";
        /// How large the log grows before it is put aside, in MB. Two old ones are kept.
        log_mb: LogMegabytes = "5", "GUA_LOG_MB";
    }
    /// The daily CSV of gpu_stats, which the daemon can write too (docs/account.md).
    csv: CsvSettings {
        /// The directory for its files; "off" writes none. `gua csv sample` writes to ~/gpu_stats where this is off.
        dir: CsvPlace = "off", "GUA_CSV_DIR";
        /// The time from one set of rows to the next.
        every: CsvPeriod = "5m", "GUA_CSV_EVERY";
        /// The form: "classic" as gpu_stats writes it, or "full" with every process and card.
        format: CsvFormat = "classic", "GUA_CSV_FORMAT";
    }
    /// The board that this host reports to once it is enrolled (`gua enroll`); nothing leaves it before.
    cloud: CloudSettings {
        /// Where the enrolment is kept. It holds the host's secret.
        config: FilePath = "~/.gua/cloud.json", "GUA_CLOUD_CONFIG";
        /// The board's address, for `gua enroll` without --server-url.
        url: BoardAddress = "none", "GUA_SERVER_URL";
        /// How much of a user's name leaves the host: "plain", "hash" (16 digits that only this site can undo) or "omit".
        users: UserNames = "plain", "GUA_CLOUD_USERS";
        /// The site's secret behind users = "hash". It is made at first use; hosts that share it hide a name alike.
        salt_file: FilePath = "~/.gua/cloud.salt", "GUA_CLOUD_SALT_FILE";
        /// Certificate authorities (PEM) that are believed beside the system's.
        ca_file: MaybeFile = "none", "GUA_CA_FILE";
        /// Whether the secret may cross a network unencrypted. To this machine itself it always may.
        allow_http: PlainHttp = "false", "GUA_ALLOW_HTTP";
        /// Which form of a push the board knows: "1.4", or "1.1" for one that was made for gpu-usage-audit 1.1 to 1.3.
        form: PushForm = "1.4", "GUA_CLOUD_FORM";
        /// How many MB of missed pushes wait beside the enrolment to be sent late, to boards that take them late; 0 for none.
        spool_mb: Megabytes = "0", "GUA_CLOUD_SPOOL_MB";
        /// How many days of the history the board's archive keeps, for `gua sync-archive` and --archive.
        archive_days: Days = "30", "GUA_CLOUD_ARCHIVE_DAYS";
    }
}

fn default_of<K: Kind>(text: &str, home: &Home) -> K::Value {
    // Without a home the program stops anyway, with a sentence; the value only has to exist.
    let home = Home(Some(
        home.0.clone().unwrap_or_else(|| "/nonexistent".into()),
    ));
    K::parse(Raw::Text(OsStr::new(text)), &home).expect("a test parses every default")
}

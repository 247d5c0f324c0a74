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

/// Description of a setting, without its value.
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
        /// NVIDIA driver library: a path, or a name for the system's loader.
        library: LibraryName = "libnvidia-ml.so.1", "GUA_NVML_LIBRARY";
        /// Maximum time for one answer of the driver before it is considered hung; three times as long for the first answer, which opens the driver.
        deadline: ReadDeadline = "10s", "GUA_DRIVER_DEADLINE";
    }
    /// Thresholds of the states active and idle-held.
    states: StateSettings {
        /// A GPU is active at or above this utilisation, in percent.
        active_util: ActivePercent = "10", "GUA_ACTIVE_UTIL";
        /// A GPU is held when its holders have more memory than this, in MB (1048576 bytes).
        held_mb: Megabytes = "100", "GUA_HELD_MB";
        /// Whether a graphics-only process (a desktop) holds its GPU.
        count_graphics: GraphicsSwitch = "false", "GUA_COUNT_GRAPHICS";
    }
    /// Location of this host's history.
    history: HistorySettings {
        /// History file. The flag --db overrides it.
        db: FilePath = "~/.gua/gua.db", "GUA_DB";
    }
    /// Leases on GPUs, made by `gua available --claim`.
    claim: ClaimSettings {
        /// Directory that all users of this host share; "auto" uses the first suitable one that everyone can write (docs/claims.md).
        dir: ClaimPlace = "auto", "GUA_CLAIM_DIR";
        /// Maximum length of a lease; at most 7d.
        longest: LeaseLength = "7d", "GUA_CLAIM_LONGEST";
    }
    /// Collection by the daemon. It rereads these on SIGHUP, except the two files.
    collect: CollectSettings {
        /// Time between two ticks.
        interval: TickInterval = "30s", "GUA_INTERVAL";
        /// How long raw ticks are kept. Sessions and totals are kept permanently.
        keep_raw: RawAge = "90d", "GUA_KEEP_RAW";
        /// PID file of the background daemon.
        pid_file: FilePath = "~/.gua/gua.pid", "GUA_PID_FILE";
        /// Log file of the background daemon.
        log_file: FilePath = "~/.gua/gua.log", "GUA_LOG_FILE";
        /// Size at which the log is rotated, in MB. Two old files are kept.
        log_mb: LogMegabytes = "5", "GUA_LOG_MB";
    }
    /// Daily CSV of gpu_stats, which the daemon can write too (docs/account.md).
    csv: CsvSettings {
        /// Directory for the files; "off" writes none. `gua csv sample` writes to ~/gpu_stats if this is off.
        dir: CsvPlace = "off", "GUA_CSV_DIR";
        /// Time between two sets of rows.
        every: CsvPeriod = "5m", "GUA_CSV_EVERY";
        /// Format: "classic" as gpu_stats writes it, or "full" with every process and GPU.
        format: CsvFormat = "classic", "GUA_CSV_FORMAT";
    }
    /// The board that this host sends to once it is enrolled (`gua enroll`); nothing is sent before that.
    cloud: CloudSettings {
        /// File with the enrollment, which contains the host's secret.
        config: FilePath = "~/.gua/cloud.json", "GUA_CLOUD_CONFIG";
        /// URL of the board, for `gua enroll` without --server-url.
        url: BoardAddress = "none", "GUA_SERVER_URL";
        /// How user names are sent: "plain", "hash" (a keyed pseudonym) or "omit".
        users: UserNames = "plain", "GUA_CLOUD_USERS";
        /// Secret key for users = "hash", created at first use. Hosts with the same file send the same pseudonyms.
        salt_file: FilePath = "~/.gua/cloud.salt", "GUA_CLOUD_SALT_FILE";
        /// CA certificates (PEM) to trust in addition to the system's.
        ca_file: MaybeFile = "none", "GUA_CA_FILE";
        /// Whether the secret may be sent unencrypted over a network. Over loopback it always may.
        allow_http: PlainHttp = "false", "GUA_ALLOW_HTTP";
        /// Push format: "1.4", or "1.1" for boards made for gpu-usage-audit 1.1 to 1.3.
        form: PushForm = "1.4", "GUA_CLOUD_FORM";
        /// Maximum size of the spool of missed pushes, in MB, for boards that accept late pushes; 0 disables it.
        spool_mb: Megabytes = "0", "GUA_CLOUD_SPOOL_MB";
        /// Number of days that the board's archive keeps, for `gua sync-archive` and --archive.
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

//! Every setting, declared once. A new setting is one line here, and a new array of tables is a few. The key in a file,
//! the environment variable, the default, the description, `config default`, `config show` and `config check` are
//! derived from the declaration.

use std::ffi::OsStr;

use gua_model::alert::Alert;
use gua_model::price::Price;
use gua_model::quota::Limit;
use gua_model::report::groups::Group;
use gua_model::{ContainerOwners, DriverPids, OwnerRule};
use toml::Spanned;
use toml::de::DeValue;

use crate::alert::*;
use crate::array::{Field, Fields, Layer, Listed, Mistakes, Row, ShownRow, rows};
use crate::group::*;
use crate::kind::*;
use crate::owner::*;
use crate::price::*;
use crate::quota::*;
use crate::{Setting, Source};

/// Declaration of a setting, without its value.
#[derive(Clone, Copy, Debug)]
pub struct Entry {
    pub section: &'static str,
    /// Description of the section; one sentence.
    pub section_doc: &'static str,
    pub key: &'static str,
    /// Environment variable that sets it.
    pub env: &'static str,
    /// The default as TOML.
    pub default_toml: fn() -> String,
    /// Description; one or more lines.
    pub doc: &'static str,
    /// Accepted values, to follow "expected".
    pub what: &'static str,
}

/// Declaration of an array of tables.
#[derive(Clone, Copy, Debug)]
pub struct ArrayEntry {
    /// Name in a file.
    pub table: &'static str,
    /// Key in `gua config show --json`.
    pub list: &'static str,
    /// Description; one or more lines.
    pub doc: &'static str,
    /// The lines of an example table.
    pub example: &'static str,
    /// One row in messages.
    pub noun: &'static str,
}

/// A setting with its value, for display.
#[derive(Clone, Debug)]
pub struct Shown<'a> {
    pub entry: &'static Entry,
    pub toml: String,
    pub json: serde_json::Value,
    pub source: &'a Source,
}

macro_rules! settings {
    (
        $(
            #[doc = $section_doc:literal]
            $section:ident: $Group:ident {
                $(
                    $(#[doc = $doc:literal])*
                    $key:ident: $Kind:ty = $default:literal, $env:literal;
                )*
            }
        )*
        $(
            [[$table:ident]]
            $(#[doc = $array_doc:literal])*
            $list:ident: $Row:ty, $Fields:ident {
                $( $field:ident: $FieldKind:ty; )*
            }
            example $example:literal
        )*
    ) => {
        /// The settings in force.
        #[derive(Clone, Debug)]
        pub struct Settings {
            $( #[doc = $section_doc] pub $section: $Group, )*
            $( $(#[doc = $array_doc])* pub $list: Vec<Listed<$Row>>, )*
        }

        $(
            #[doc = $section_doc]
            #[derive(Clone, Debug)]
            pub struct $Group {
                $( $(#[doc = $doc])* pub $key: Setting<<$Kind as Kind>::Value>, )*
            }
        )*

        $(
            /// The values of one table of an array.
            #[derive(Clone, Debug, Default)]
            pub struct $Fields {
                $( pub $field: Field<<$FieldKind as Kind>::Value>, )*
            }

            impl Fields for $Fields {
                const TABLE: &'static str = stringify!($table);
                const KEYS: &'static [&'static str] = &[$( stringify!($field), )*];

                fn set(
                    &mut self,
                    key: &str,
                    raw: Raw<'_>,
                    home: &Home,
                    at: usize,
                ) -> Option<Result<(), String>> {
                    match key {
                        $(
                            stringify!($field) => {
                                Some(self.$field.set(<$FieldKind as Kind>::parse(raw, home), at))
                            }
                        )*
                        _ => None,
                    }
                }
            }
        )*

        /// All settings, in display order.
        pub const ENTRIES: &[Entry] = &[
            $( $(
                Entry {
                    section: stringify!($section),
                    section_doc: $section_doc,
                    key: stringify!($key),
                    env: $env,
                    default_toml: || <$Kind as Written>::toml_of_text($default),
                    doc: concat!($($doc, "\n"),*),
                    what: <$Kind as Kind>::WHAT,
                },
            )* )*
        ];

        /// All arrays of tables.
        pub const ARRAYS: &[ArrayEntry] = &[
            $(
                ArrayEntry {
                    table: stringify!($table),
                    list: stringify!($list),
                    doc: concat!($($array_doc, "\n"),*),
                    example: $example,
                    noun: <$Row as Row>::NOUN,
                },
            )*
        ];

        impl Settings {
            /// Returns the defaults.
            pub fn defaults(home: &Home) -> Self {
                Self {
                    $( $section: $Group {
                        $( $key: Setting { value: default_of::<$Kind>($default, home), source: Source::Default }, )*
                    }, )*
                    $( $list: Vec::new(), )*
                }
            }

            /// Sets one value; `None` if there is no such setting, an error if the value is invalid.
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

            /// Appends the rows of an array; `None` if the value is not an array of tables. `origin` returns
            /// the source of a table from its byte offset.
            pub(crate) fn append(
                &mut self,
                table: &str,
                value: &Spanned<DeValue<'_>>,
                home: &Home,
                mistakes: &mut Mistakes,
                origin: &dyn Fn(usize) -> (Source, Layer),
            ) -> Option<()> {
                match table {
                    $(
                        stringify!($table) => {
                            for (value, start) in rows::<$Row>(value, home, mistakes)? {
                                let (source, layer) = origin(start);
                                self.$list.push(Listed { value, source, layer });
                            }
                            Some(())
                        }
                    )*
                    _ => None,
                }
            }

            /// Every setting with its value and source, in the order of [`ENTRIES`].
            pub fn shown(&self) -> Vec<Shown<'_>> {
                let mut entries = ENTRIES.iter();
                let mut shown = Vec::with_capacity(ENTRIES.len());
                $( $(
                    if let Some(entry) = entries.next() {
                        let Setting { value, source } = &self.$section.$key;
                        shown.push(Shown {
                            entry,
                            toml: <$Kind as Written>::toml(value),
                            json: <$Kind as Written>::json(value),
                            source,
                        });
                    }
                )* )*
                shown
            }

            /// Every row of every array, in the order of [`ARRAYS`].
            pub fn shown_rows(&self) -> Vec<ShownRow<'_>> {
                let mut shown = Vec::new();
                $( shown.extend(self.$list.iter().map(|row| ShownRow::of(stringify!($list), row))); )*
                shown
            }
        }
    };
}

settings! {
    /// Access to the NVIDIA driver.
    driver: DriverSettings {
        /// NVIDIA driver library: a path, or a name for the system's loader.
        library: LibraryName = "libnvidia-ml.so.1", "GUA_NVML_LIBRARY";
        /// Maximum time for one answer of the driver before it is considered hung; three times as long for the first answer, which opens the driver.
        deadline: ReadDeadline = "10s", "GUA_DRIVER_DEADLINE";
        /// The PID namespace of the driver's process IDs: "host", "here" (this process's own) or "auto" (the host's; `gua doctor` explains).
        pids: DriverPids = "auto", "GUA_DRIVER_PIDS";
        /// Kernel log, from which Xid errors are read where the user may read it (docs/states.md).
        kernel_log: FilePath = "/dev/kmsg", "GUA_KERNEL_LOG";
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
    /// Owners of processes (docs/states.md).
    owners: OwnerSettings {
        /// Owner of the processes of a container: "name" (the container or pod itself), or "uid" (the user that a process runs as).
        containers: ContainerOwners = "name", "GUA_OWNERS_CONTAINERS";
    }
    /// Location of this host's history.
    history: HistorySettings {
        /// History file. The flag --db overrides it.
        db: FilePath = "~/.gua/gua.db", "GUA_DB";
        /// History of the host's service, which commands use unless your own daemon runs. For a service installed with --db.
        service_db: FilePath = "/var/lib/gua/gua.db", "GUA_SERVICE_DB";
        /// Socket through which the service answers questions about a history that you may not read.
        socket: FilePath = "/run/gua.sock", "GUA_SOCKET";
    }
    /// Names of people in the service's answers. The service's own configuration counts: /etc/gua/config.toml.
    privacy: PrivacySettings {
        /// Visibility of other people's use: "names", "pseudonyms" or "totals" (all others together). Own use is always shown in full.
        others: OthersShown = "names", "GUA_PRIVACY_OTHERS";
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
        /// Retention time of raw ticks and runs. Sessions and totals are kept permanently.
        keep_raw: RawAge = "90d", "GUA_KEEP_RAW";
        /// PID file of the background daemon.
        pid_file: FilePath = "~/.gua/gua.pid", "GUA_PID_FILE";
        /// Log file of the background daemon.
        log_file: FilePath = "~/.gua/gua.log", "GUA_LOG_FILE";
        /// Size at which the log is rotated, in MB. Two old files are kept.
        log_mb: LogMegabytes = "5", "GUA_LOG_MB";
        /// Format of the log: "text", "json" or "auto". "json" leaves out the line of each tick. "auto" is text; under systemd, each line has a priority for the journal.
        log_format: LogFormat = "auto", "GUA_LOG_FORMAT";
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
    /// Metrics for Prometheus (docs/metrics.md).
    metrics: MetricsSettings {
        /// Address on which the daemon serves metrics, such as 127.0.0.1:19400; "off" serves none.
        listen: MetricsPlace = "off", "GUA_METRICS_LISTEN";
        /// Whether metrics have a label with the names of users.
        users: LabelSwitch = "false", "GUA_METRICS_USERS";
        /// Whether metrics have labels with the Slurm jobs, pods and containers that hold a GPU.
        workloads: LabelSwitch = "false", "GUA_METRICS_WORKLOADS";
    }
    /// The board that this host sends to once it is enrolled (`gua enroll`); nothing is sent before that.
    cloud: CloudSettings {
        /// File with the enrolment, which contains the host's secret.
        config: FilePath = "~/.gua/cloud.json", "GUA_CLOUD_CONFIG";
        /// URL of the board, for `gua enroll` without --server-url.
        url: BoardAddress = "none", "GUA_SERVER_URL";
        /// Form in which user names are sent: "plain", "hash" (a keyed pseudonym) or "omit".
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
        /// Socket through which the service passes on the codes of users who run `gua board link`.
        socket: FilePath = "/run/gua-collector/link.sock", "GUA_CLOUD_SOCKET";
    }
    /// The web pages of this host (`gua serve`).
    serve: ServeSettings {
        /// Hosts on the first page, separated by commas: "self" and URLs of agents; "none" shows no host (docs/serve.md).
        agents: AgentList = "self", "GUA_SERVE_AGENTS";
    }

    [[quota]]
    /// Limits on GPU use; any number of tables: for a user, for a group (its members together, unless share is "each")
    /// or, without either, for everyone (each, unless share is "together"). Each limits one or more of held, idle_held,
    /// charged (GPU hours) and energy; per is day, week, month, or a rolling window such as 30d.
    quotas: Limit, QuotaFields {
        user: AccountName;
        group: AccountName;
        share: SharingName;
        per: TermName;
        held: GpuHours;
        idle_held: GpuHours;
        charged: GpuHours;
        energy: EnergyAmount;
    }
    example "user = \"ada\"\ncharged = \"100h\"\nper = \"month\"\n"

    [[owner]]
    /// Rules that assign processes to a person or a group; any number of tables, the first that matches decides. The
    /// conditions are patterns of the container's name or ID, of the pod (NAMESPACE/NAME), of its namespace and of a
    /// cgroup path, and the user who would be the owner otherwise; all that are set must match. * matches any
    /// characters but /, ** for any.
    owner_rules: OwnerRule, OwnerFields {
        container: NamePattern;
        pod: NamePattern;
        namespace: NamePattern;
        cgroup: PathPattern;
        user: AccountName;
        owner: OwnerName;
    }
    example "namespace = \"vision\"\nowner = \"vision-lab\"\n"

    [[group]]
    /// Groups and projects for `gua report --by group` and `--by project`; any number of tables. Members are names of
    /// people, containers and pods as reports show them; * matches any characters but /. Without groups of the kind
    /// "group", the groups of the system count.
    groups: Group, GroupFields {
        name: AccountName;
        kind: GroupKindName;
        members: Members;
    }
    example "name = \"vision\"\nmembers = [\"ada\", \"bob\"]\n"

    [[price]]
    /// Prices of a GPU-hour, for reports and statements; any number of tables, the first that matches a GPU and a day
    /// applies. model is a pattern of the GPU's model (* matches any characters but /). from is the first day to which
    /// the price applies, until the first to which it no longer does.
    prices: Price, PriceFields {
        per_gpu_hour: PriceAmount;
        model: ModelPattern;
        from: DateText;
        until: DateText;
    }
    example "per_gpu_hour = \"2.50 EUR\"\nmodel = \"*H100*\"\n"

    [[alert]]
    /// Messages of the daemon, or of a board with by = "board" (docs/alerts.md); any number of tables. when lists conditions:
    /// idle-held, quota-near, quota-over, unhealthy, lost, gap, silent, nudge, free. to is slack, teams, mattermost, ntfy or
    /// webhook, with the URL in url_file, or command, email or write.
    /// cool_down is the time between two messages about the same person, GPU or limit.
    alerts: Alert, AlertFields {
        name: AccountName;
        by: SenderName;
        when: Conditions;
        to: TargetName;
        url_file: SecretFile;
        command: CommandWords;
        smtp: SmtpServer;
        from: MailAddress;
        recipient: MailAddress;
        smtp_user: AccountName;
        password_file: SecretFile;
        longer_than: ConditionLength;
        percent: NearPercent;
        cool_down: CoolDown;
        quiet: QuietText;
        exempt: Exempt;
        title: TemplateText;
        text: TemplateText;
    }
    example "when = [\"idle-held\", \"lost\"]\nto = \"slack\"\nurl_file = \"/etc/gua/slack.url\"\n"
}

fn default_of<K: Kind>(text: &str, home: &Home) -> K::Value {
    // Without a home directory the program stops with an error, so this value is never used.
    let home = Home(Some(
        home.0.clone().unwrap_or_else(|| "/nonexistent".into()),
    ));
    K::parse(Raw::Text(OsStr::new(text)), &home).expect("a test parses every default")
}

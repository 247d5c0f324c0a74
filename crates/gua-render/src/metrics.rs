//! Metrics for Prometheus: the text formats, the families of one host, and a dashboard. The daemon, `gua metrics` and the
//! board write with [`Page`]; every family is declared once, in `host.rs` or by the board.

pub mod dashboard;
pub mod host;
pub mod page;

pub use self::host::{CollectorMetrics, Cost, GpuMetrics, HostMetrics, Names};
pub use self::page::{Family, Form, Kind, Labels, Page};

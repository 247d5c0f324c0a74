//! Text that several formats share.

use gua_model::GapReason;
use gua_model::report::{Hold, Note};

use super::Page;

/// Explains the reason for a gap.
pub(super) fn reason(reason: GapReason) -> &'static str {
    match reason {
        GapReason::CollectorDown => "no collector ran",
        GapReason::DriverHung => "the driver did not answer",
        GapReason::DriverUnavailable => "the driver was not there",
        GapReason::CardLost => "the card was lost",
        GapReason::Denied => "a reading was refused",
        GapReason::Failed => "a reading failed",
        GapReason::DiskFull => "the disk was full",
        GapReason::Suspended => "the machine slept",
        GapReason::ClockSet => "the clock was set",
        GapReason::NotStored => "the tick could not be stored",
    }
}

pub(super) fn note(page: &Page<'_>, note: &Note) -> String {
    match note {
        Note::Widened { asked } => format!(
            "single ticks of that time are no longer kept: the window {} was widened to whole quarter hours",
            page.stretch(*asked)
        ),
        Note::Damaged { ticks } => {
            format!(
                "{ticks} damaged ticks could not be read; their time is a gap (`gua db check` tells more)"
            )
        }
        Note::Overlap { micros } => format!(
            "old ticks overlap by {:.2} GPU-hours (two collectors, or a clock set back); each counts in full, as in the tool that wrote them",
            micros.hours()
        ),
        Note::Mixed => {
            "rows of gpu-usage-audit count whole ticks, own ticks the time that they observed; \
                        charged hours and energy are of own ticks alone"
                .to_owned()
        }
        Note::OldLeftOut { ticks } => format!(
            "{ticks} card-ticks of gpu-usage-audit are left out: our own ticks saw those cards by then, and no time counts twice"
        ),
        Note::SessionsByFile => {
            "sessions (sections 7 and 8) keep the thresholds that the history was made with"
                .to_owned()
        }
        Note::GraphicsLeftOut => {
            "rows of processes that only draw are left out; --count-graphics counts them, as \
                                  gpu-usage-audit did"
                .to_owned()
        }
    }
}

/// Formats a GPU as a command-line argument.
pub(super) fn card(hold: &Hold) -> String {
    hold.index
        .map_or_else(|| hold.gpu.to_string(), |index| index.to_string())
}

/// Formats a PID for a table.
pub(super) fn pid(hold: &Hold) -> String {
    hold.pid
        .map_or_else(|| "?".to_owned(), |pid| pid.to_string())
}

/// Returns commands to inspect and to stop a holder; `None` if it may have exited.
pub(super) fn commands(page: &Page<'_>, hold: &Hold) -> Option<(String, String)> {
    let pid = hold
        .pid
        .filter(|_| hold.current && page.report.is_fresh())?;
    let look = format!("gua explain {}; ps -o user,etime,args -p {pid}", card(hold));
    Some((look, format!("kill {pid}")))
}

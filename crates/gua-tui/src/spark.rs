//! Values over time as a line of block characters: one column per time step, the newest at the right, a gap where there
//! is no sample.

const LEVELS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

/// Character where there is no value.
const GAP: char = ' ';

/// Draws shares from 0 to 1 in `rows` lines, the top one first. `None` is a gap.
pub(crate) fn spark(values: &[Option<f64>], rows: usize) -> Vec<String> {
    let highest = (rows * LEVELS.len()).saturating_sub(1);
    (0..rows)
        .rev()
        .map(|row| {
            values
                .iter()
                .map(|value| value.map_or(GAP, |value| block(part(value, highest) + 1, row)))
                .collect()
        })
        .collect()
}

/// Returns `share` (0 to 1) of `whole`, rounded.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    clippy::cast_precision_loss,
    reason = "a share of a few hundred steps, held between zero and their number"
)]
fn part(share: f64, whole: usize) -> usize {
    (share.clamp(0.0, 1.0) * whole as f64).round() as usize
}

/// Returns the character that a column of this height shows in a row, counted from below.
fn block(height: usize, row: usize) -> char {
    match height.saturating_sub(row * LEVELS.len()) {
        0 => ' ',
        part => LEVELS[part.min(LEVELS.len()) - 1],
    }
}

/// Draws a bar of `room` columns, filled by eighths of a column.
pub(crate) fn bar(share: f64, room: usize) -> String {
    const PARTS: [char; 8] = [' ', '▏', '▎', '▍', '▌', '▋', '▊', '▉'];
    let eighths = part(share, room * 8);
    let mut bar = "█".repeat(eighths / 8);
    if eighths < room * 8 {
        bar.push(PARTS[eighths % 8]);
        bar.push_str(&"·".repeat(room - eighths / 8 - 1));
    }
    bar
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_row_has_the_eight_levels_of_the_replaced_tool() {
        let percents = [0, 7, 8, 50, 92, 93, 100];
        let values: Vec<_> = percents
            .map(|percent| Some(f64::from(percent) / 100.0))
            .into();
        assert_eq!(spark(&values, 1), ["▁▁▂▅▇██"]);
    }

    #[test]
    fn a_hole_is_blank_and_no_zero() {
        assert_eq!(spark(&[Some(0.0), None, Some(1.0)], 1), ["▁ █"]);
    }

    #[test]
    fn more_rows_show_finer_steps() {
        assert_eq!(spark(&[Some(0.0), Some(0.4), Some(1.0)], 2), ["  █", "▁▇█"]);
        assert_eq!(spark(&[Some(0.6)], 2), ["▂", "█"]);
    }

    #[test]
    fn a_bar_is_as_wide_as_it_may_be() {
        for (share, expected) in [(0.0, " ···"), (0.5, "██ ·"), (1.0, "████"), (7.0, "████")]
        {
            assert_eq!(bar(share, 4), expected);
        }
        assert_eq!(bar(0.5, 0), "");
    }
}

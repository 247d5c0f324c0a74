//! Valid and invalid durations.

use std::time::Duration;

use proptest::prelude::*;

use super::{Clockwise, DurationError, MAX_DAYS, parse, written};

#[test]
fn one_number_and_one_unit_is_a_duration() {
    let cases: &[(&str, u64)] = &[
        ("200ms", 200_000),
        ("30s", 30_000_000),
        ("1h", 3_600_000_000),
        ("0.5m", 30_000_000),
        ("365d", 365 * 86_400_000_000),
        ("0s", 0),
        ("0.0s", 0),
        ("007s", 7_000_000),
        (
            "00000000000000000000000000000000000000000000000000001s",
            1_000_000,
        ),
        ("1.5h", 5_400_000_000),
        ("0.000001s", 1),
        ("0.0015ms", 2),
        ("0.0005ms", 0),
        ("0.00050000000000000000000000001ms", 1),
        ("0.00049999999999999999999999999ms", 0),
        ("1.999999999999999999999999999999s", 2_000_000),
        ("0.1d", 8_640_000_000),
    ];
    for (text, micros) in cases {
        assert_eq!(parse(text), Ok(Duration::from_micros(*micros)), "{text}");
    }
}

#[test]
fn anything_else_is_refused_by_name_and_with_examples() {
    let cases = [
        "", "30", "h", "1y", "1.5", "1 s", "1w", "-1s", "+1s", "1h30m", "1h 30m", ".5s", "1.s",
        "1..5s", "1.5.5s", "1S", "1e3s", "1_000s", "٣s", " 1s", "1s ", "1s\n", "0x10s", "ms", "s",
        "inf", "NaNs", "1µs", "1,5s",
    ];
    for text in cases {
        let error = parse(text).expect_err(text);
        assert!(
            matches!(error, DurationError::Malformed { .. }),
            "{text}: {error:?}"
        );
        let message = error.to_string();
        let shown: String = text.chars().flat_map(char::escape_debug).collect();
        assert!(message.contains(&format!("`{shown}`")), "{message}");
        assert!(message.contains("30s, 1h, 200ms"), "{message}");
    }
}

#[test]
fn a_huge_value_is_refused_without_overflow() {
    let longest = parse(&format!("{MAX_DAYS}d"));
    assert_eq!(longest, Ok(Duration::from_secs(MAX_DAYS * 86_400)));
    for text in [
        "1000000000d",
        "999999999.5d",
        "340282366920938463463374607431768211456ms",
        &format!("{}s", "9".repeat(500)),
    ] {
        assert!(
            matches!(parse(text), Err(DurationError::TooLong { .. })),
            "{text}"
        );
    }
    let message = parse(&"9".repeat(100_000))
        .expect_err("no unit")
        .to_string();
    assert!(
        message.len() < 200,
        "a message stays short: {} bytes",
        message.len()
    );
}

#[test]
fn a_duration_is_printed_like_a_clock() {
    let cases: &[(u64, &str)] = &[
        (0, "0:00:00"),
        (60_000_000, "0:01:00"),
        (200_000, "0:00:00.200000"),
        (3_600_000_000, "1:00:00"),
        (86_399_999_999, "23:59:59.999999"),
        (86_400_000_000, "1 day, 0:00:00"),
        (36 * 3_600_000_000, "1 day, 12:00:00"),
        (36_500 * 86_400_000_000, "36500 days, 0:00:00"),
        (1, "0:00:00.000001"),
    ];
    for (micros, printed) in cases {
        assert_eq!(
            Clockwise(Duration::from_micros(*micros)).to_string(),
            *printed
        );
    }
}

#[test]
fn a_duration_is_written_in_its_largest_whole_unit() {
    let cases = [
        (10_000_000, "10s"),
        (1_500_000, "1500ms"),
        (90_000_000, "90s"),
        (172_800_000_000, "2d"),
        (1, "0.000001s"),
        (0, "0s"),
    ];
    for (micros, text) in cases {
        assert_eq!(written(Duration::from_micros(micros)), text);
    }
}

proptest! {
    #[test]
    fn any_text_gives_a_duration_or_an_error(text in "\\PC*") {
        let _ = parse(&text);
    }

    #[test]
    fn what_is_written_reads_back_the_same(
        seconds in 0..MAX_DAYS * 86_400,
        micros in 0u64..1_000_000,
    ) {
        let duration = Duration::from_secs(seconds) + Duration::from_micros(micros);
        prop_assert_eq!(parse(&written(duration)), Ok(duration));
    }

    #[test]
    fn a_text_of_the_grammar_is_only_ever_refused_for_its_length(
        text in "[0-9]{1,30}(\\.[0-9]{1,30})?(ms|s|m|h|d)"
    ) {
        let malformed = matches!(parse(&text), Err(DurationError::Malformed { .. }));
        prop_assert!(!malformed);
    }
}

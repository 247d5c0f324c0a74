//! Floating-point numbers in Python's notation: the shortest digits that parse to the same number, `30.0`, `1e-05`,
//! `1e+16`.

/// Appends the number to `text`.
pub(super) fn push(text: &mut Vec<u8>, number: f64) {
    if number.is_nan() {
        return text.extend_from_slice(b"nan");
    }
    if number.is_infinite() {
        let word: &[u8] = if number > 0.0 { b"inf" } else { b"-inf" };
        return text.extend_from_slice(word);
    }
    // Rust writes the same number of digits as Python in a different layout: `1.25e-5`, never a plus sign.
    let scientific = nearest(number);
    let (digits, exponent) = scientific
        .split_once('e')
        .expect("the format has an exponent");
    let exponent: i32 = exponent.parse().expect("the exponent is a small number");
    if (-4..16).contains(&exponent) {
        push_plain(text, digits, exponent);
    } else {
        let sign = if exponent < 0 { '-' } else { '+' };
        let written = format!("{digits}e{sign}{:02}", exponent.unsigned_abs());
        text.extend_from_slice(written.as_bytes());
    }
}

/// Returns the shortest digits. If two candidates of that length are equally near, Python takes the even one;
/// formatting with a fixed number of digits rounds in the same way.
fn nearest(number: f64) -> String {
    let shortest = format!("{number:e}");
    let digits = shortest.bytes().take_while(|byte| *byte != b'e');
    let digits = digits.filter(u8::is_ascii_digit).count();
    let rounded = format!("{number:.*e}", digits - 1);
    match rounded.parse::<f64>() {
        Ok(read) if number == read => rounded,
        _ => shortest,
    }
}

/// Appends digits with a point after the first as a number without an exponent.
fn push_plain(text: &mut Vec<u8>, digits: &str, exponent: i32) {
    let (sign, digits) = match digits.strip_prefix('-') {
        Some(digits) => ("-", digits),
        None => ("", digits),
    };
    let digits = digits.replace('.', "");
    let written = match usize::try_from(exponent) {
        // Move the point to the right, and pad with zeros if there are fewer digits.
        Ok(right) => {
            let (whole, part) = digits.split_at((right + 1).min(digits.len()));
            let part = if part.is_empty() { "0" } else { part };
            format!("{whole:0<width$}.{part}", width = right + 1)
        }
        Err(_) => {
            let zeros = usize::try_from(-exponent - 1).unwrap_or_default();
            format!("0.{}{digits}", "0".repeat(zeros))
        }
    };
    text.extend_from_slice(sign.as_bytes());
    text.extend_from_slice(written.as_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_look_as_python_shows_them() {
        let check = |number: f64, expected: &str| {
            let mut text = Vec::new();
            push(&mut text, number);
            assert_eq!(String::from_utf8(text).unwrap(), expected);
        };
        check(30.0, "30.0");
        check(-0.0, "-0.0");
        check(0.1 + 0.2, "0.30000000000000004");
        check(1e15, "1000000000000000.0");
        check(1e16, "1e+16");
        check(1.5e300, "1.5e+300");
        check(0.0001, "0.0001");
        check(0.000_012_5, "1.25e-05");
        check(-123.25, "-123.25");
        check(-1200.0, "-1200.0");
        check(-0.000_125, "-0.000125");
        check(5e-324, "5e-324");
        // Equally near to ..94.3; the even digit is taken.
        check(1_849_273_069_642_894.0 + 0.25, "1849273069642894.2");
        check(f64::NEG_INFINITY, "-inf");
        check(f64::NAN, "nan");
    }
}

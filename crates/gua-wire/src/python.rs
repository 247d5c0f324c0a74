//! Texts in Python's notation, for files that its `csv` and `json` modules write too.

/// Formats a floating-point number: the shortest digits that parse to the same number, `30.0`, `1e-05`, `1e+16`.
///
/// If two candidates of the shortest length are equally near, Python takes the even one. Formatting with a fixed number
/// of digits rounds in the same way, but can miss the number next to a power of two.
pub(crate) fn float(number: f64) -> String {
    if !number.is_finite() {
        return number.to_string().to_ascii_lowercase();
    }
    let is_exact = |text: &String| text.parse() == Ok(number);
    let shortest = format!("{number:e}");
    let exponent = |text: &str| -> i32 {
        let (_, exponent) = text.split_once('e').expect("the format has an exponent");
        exponent.parse().expect("the exponent is a small number")
    };
    let digits = shortest.bytes().take_while(|byte| *byte != b'e');
    let places = digits.filter(u8::is_ascii_digit).count() - 1;
    let power = exponent(&shortest);
    if (-4..16).contains(&power) {
        let shift = usize::try_from(power.unsigned_abs()).unwrap_or_default();
        let decimals = match power < 0 {
            true => places + shift,
            false => places.saturating_sub(shift).max(1),
        };
        let rounded = Some(format!("{number:.decimals$}")).filter(is_exact);
        return rounded.unwrap_or_else(|| format!("{number:?}"));
    }
    // Rust writes the same digits in a different layout: `1.25e-5`, never a plus sign.
    let rounded = Some(format!("{number:.places$e}")).filter(is_exact);
    let text = rounded.unwrap_or(shortest);
    let (digits, _) = text.split_once('e').unwrap_or((&text, ""));
    let power = exponent(&text);
    let sign = if power < 0 { '-' } else { '+' };
    format!("{digits}e{sign}{:02}", power.unsigned_abs())
}

/// Escapes everything but printable ASCII in JSON. Line breaks, which only occur between values, are kept.
pub(crate) fn escaped(json: &str) -> String {
    let mut text = String::with_capacity(json.len());
    for letter in json.chars() {
        if matches!(letter, ' '..='~' | '\n') {
            text.push(letter);
        } else {
            for unit in letter.encode_utf16(&mut [0; 2]) {
                text.push_str(&format!("\\u{unit:04x}"));
            }
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_look_as_python_shows_them() {
        let check = |number: f64, expected: &str| {
            assert_eq!(float(number), expected);
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

//! Real numbers as Python shows them: the shortest digits that read back as the same number, `30.0`, `1e-05`, `1e+16`.

/// Appends the number.
pub(super) fn push(text: &mut Vec<u8>, number: f64) {
    if number.is_nan() {
        return text.extend_from_slice(b"nan");
    }
    if number.is_infinite() {
        let word: &[u8] = if number > 0.0 { b"inf" } else { b"-inf" };
        return text.extend_from_slice(word);
    }
    // Rust writes as many digits as Python does; only the layout differs: `1.25e-5`, never a plus sign.
    let scientific = format!("{number:e}");
    let (digits, exponent) = scientific
        .split_once('e')
        .expect("the format has an exponent");
    let exponent: i32 = exponent.parse().expect("the exponent is a small number");
    if (-4..16).contains(&exponent) {
        let plain = format!("{number}");
        text.extend_from_slice(plain.as_bytes());
        if !plain.contains('.') {
            text.extend_from_slice(b".0");
        }
    } else {
        let sign = if exponent < 0 { '-' } else { '+' };
        let written = format!("{digits}e{sign}{:02}", exponent.unsigned_abs());
        text.extend_from_slice(written.as_bytes());
    }
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
        check(f64::NEG_INFINITY, "-inf");
        check(f64::NAN, "nan");
    }
}

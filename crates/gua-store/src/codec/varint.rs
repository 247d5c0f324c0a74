//! Variable-length numbers: seven bits per byte, lowest first; signed ones are zigzag-encoded.

use super::Damage;

pub(crate) fn put(out: &mut Vec<u8>, mut value: u128) {
    // Nearly all numbers are short, and 64-bit arithmetic is much faster than 128-bit.
    if let Ok(mut short) = u64::try_from(value) {
        while short >= 0x80 {
            out.push(low_seven(short.into()) | 0x80);
            short >>= 7;
        }
        out.push(low_seven(short.into()));
        return;
    }
    while value >= 0x80 {
        out.push(low_seven(value) | 0x80);
        value >>= 7;
    }
    out.push(low_seven(value));
}

fn low_seven(value: u128) -> u8 {
    u8::try_from(value & 0x7f).expect("seven bits fit into a byte")
}

/// Zigzag encoding: `0, -1, 1, -2, 2, …` become `0, 1, 2, 3, 4, …`.
pub(crate) fn fold(value: i128) -> u128 {
    (value.wrapping_shl(1) ^ (value >> 127)).cast_unsigned()
}

pub(crate) fn unfold(value: u128) -> i128 {
    (value >> 1).cast_signed() ^ -((value & 1).cast_signed())
}

/// Unread rest of a stored tick.
#[derive(Debug)]
pub(crate) struct Input<'a>(&'a [u8]);

impl<'a> Input<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }

    pub(crate) fn left(&self) -> usize {
        self.0.len()
    }

    pub(crate) fn byte(&mut self) -> Result<u8, Damage> {
        let (first, rest) = self.0.split_first().ok_or(Damage::Short)?;
        self.0 = rest;
        Ok(*first)
    }

    pub(crate) fn array<const N: usize>(&mut self) -> Result<[u8; N], Damage> {
        let (first, rest) = self.0.split_first_chunk::<N>().ok_or(Damage::Short)?;
        self.0 = rest;
        Ok(*first)
    }

    pub(crate) fn wide(&mut self) -> Result<u128, Damage> {
        let mut value = 0u128;
        for shift in (0..128).step_by(7) {
            let byte = self.byte()?;
            let bits = u128::from(byte & 0x7f);
            if (bits << shift) >> shift != bits {
                return Err(Damage::Value("number"));
            }
            value |= bits << shift;
            if byte & 0x80 == 0 {
                return Ok(value);
            }
        }
        Err(Damage::Value("number"))
    }

    pub(crate) fn number(&mut self) -> Result<u64, Damage> {
        let mut value = 0u64;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            let bits = u64::from(byte & 0x7f);
            if (bits << shift) >> shift != bits {
                return Err(Damage::Value("number"));
            }
            value |= bits << shift;
            if byte & 0x80 == 0 {
                return Ok(value);
            }
        }
        Err(Damage::Value("number"))
    }

    /// Consumes the next number if it is zero in one byte; returns whether it was.
    pub(crate) fn zero(&mut self) -> bool {
        match self.0.split_first() {
            Some((0, rest)) => {
                self.0 = rest;
                true
            }
            _ => false,
        }
    }

    pub(crate) fn small(&mut self) -> Result<u32, Damage> {
        u32::try_from(self.number()?).map_err(|_| Damage::Value("number"))
    }

    pub(crate) fn signed(&mut self) -> Result<i128, Damage> {
        self.wide().map(unfold)
    }

    /// Reads a count of items that take at least one byte each, so that no count requests more memory than was read.
    pub(crate) fn count(&mut self) -> Result<usize, Damage> {
        let count = usize::try_from(self.number()?).map_err(|_| Damage::Value("count"))?;
        if count > self.left() {
            return Err(Damage::Short);
        }
        Ok(count)
    }

    pub(crate) fn end(&self) -> Result<(), Damage> {
        if self.0.is_empty() {
            Ok(())
        } else {
            Err(Damage::Long)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn small_numbers_take_one_byte() {
        for (value, length) in [
            (0, 1),
            (-64, 1),
            (63, 1),
            (64, 2),
            (-8192, 2),
            (i128::MIN, 19),
        ] {
            let mut out = Vec::new();
            put(&mut out, fold(value));
            assert_eq!(out.len(), length, "{value}");
        }
    }

    proptest! {
        #[test]
        fn any_number_comes_back(value: i128) {
            let mut out = Vec::new();
            put(&mut out, fold(value));
            let mut input = Input::new(&out);
            prop_assert_eq!(input.signed(), Ok(value));
            prop_assert_eq!(input.end(), Ok(()));
        }
    }
}

//! Numbers as bytes, in both directions: seven bits per byte, lowest first; signed ones are zigzag-encoded.
//!
//! A format is described once, by a function that passes each value through a [`Wire`]: a writer writes the value, and a
//! reader replaces it. So what is read cannot differ from what is written.

use super::Damage;

/// `u32` or `u64`.
pub(crate) trait Number: Copy + From<u8> + Into<u128> + TryFrom<u128> {}

impl Number for u32 {}
impl Number for u64 {}

/// One end of an encoding. Only a reader fails.
pub(crate) trait Wire: Sized {
    const READS: bool;

    fn bytes<const N: usize>(&mut self, value: &mut [u8; N]) -> Result<(), Damage>;
    fn wide(&mut self, value: &mut u128) -> Result<(), Damage>;
    /// Passes a count of items that take at least one byte each, so that no count requests more memory than was read.
    fn count(&mut self, value: &mut usize) -> Result<(), Damage>;

    fn byte(&mut self, value: &mut u8) -> Result<(), Damage> {
        let mut bytes = [*value];
        self.bytes(&mut bytes)?;
        [*value] = bytes;
        Ok(())
    }

    fn number<T: Number>(&mut self, value: &mut T) -> Result<(), Damage> {
        let mut wide = (*value).into();
        self.wide(&mut wide)?;
        *value = T::try_from(wide).map_err(|_| Damage::Value("number"))?;
        Ok(())
    }

    fn signed(&mut self, value: &mut i128) -> Result<(), Damage> {
        let mut code = zigzag(*value);
        self.wide(&mut code)?;
        *value = unzigzag(code);
        Ok(())
    }

    /// Passes a number plus one, and zero for `None`.
    fn option<T: Number>(&mut self, value: &mut Option<T>) -> Result<(), Damage> {
        let mut code = value.map_or(0, |value| value.into() + 1);
        self.wide(&mut code)?;
        *value = match code.checked_sub(1).map(T::try_from) {
            None => None,
            Some(value) => Some(value.map_err(|_| Damage::Value("number"))?),
        };
        Ok(())
    }

    /// Passes the place of a value in a table.
    fn one_of<T: Copy + PartialEq>(
        &mut self,
        table: &[T],
        value: &mut T,
        what: &'static str,
    ) -> Result<(), Damage> {
        let mut code = code_of(table, value);
        self.byte(&mut code)?;
        *value = coded(table, code, what)?;
        Ok(())
    }

    /// Passes the number of items and each of them; a reader begins each with `new`.
    fn list<T>(
        &mut self,
        items: &mut Vec<T>,
        new: impl Fn() -> T,
        mut each: impl FnMut(&mut Self, &mut T) -> Result<(), Damage>,
    ) -> Result<(), Damage> {
        let mut count = items.len();
        self.count(&mut count)?;
        if !Self::READS {
            return items.iter_mut().try_for_each(|item| each(self, item));
        }
        items.clear();
        for _ in 0..count {
            let mut item = new();
            each(self, &mut item)?;
            items.push(item);
        }
        Ok(())
    }
}

/// Place of a value in a table of codes, which is part of the file format.
pub(crate) fn code_of<T: PartialEq>(table: &[T], value: &T) -> u8 {
    let place = table.iter().position(|known| known == value);
    let place = place.expect("the table has every value");
    u8::try_from(place).expect("a table of codes is short")
}

/// Value at a place of a table of codes.
pub(crate) fn coded<T: Copy>(table: &[T], code: u8, what: &'static str) -> Result<T, Damage> {
    let value = table.get(usize::from(code));
    value.copied().ok_or(Damage::Value(what))
}

/// `0, -1, 1, -2, 2, …` become `0, 1, 2, 3, 4, …`.
pub(crate) fn zigzag(value: i128) -> u128 {
    (value.wrapping_shl(1) ^ (value >> 127)).cast_unsigned()
}

pub(crate) fn unzigzag(value: u128) -> i128 {
    (value >> 1).cast_signed() ^ -((value & 1).cast_signed())
}

impl Wire for Vec<u8> {
    const READS: bool = false;

    fn bytes<const N: usize>(&mut self, value: &mut [u8; N]) -> Result<(), Damage> {
        self.extend(*value);
        Ok(())
    }

    fn wide(&mut self, value: &mut u128) -> Result<(), Damage> {
        let mut rest = *value;
        while rest > u64::MAX.into() {
            self.push(rest.to_le_bytes()[0] | 0x80);
            rest >>= 7;
        }
        // Nearly all numbers are short, and 64-bit arithmetic is much faster than 128-bit.
        let mut rest = u64::try_from(rest).unwrap_or(u64::MAX);
        while rest >= 0x80 {
            self.push(rest.to_le_bytes()[0] | 0x80);
            rest >>= 7;
        }
        self.push(rest.to_le_bytes()[0]);
        Ok(())
    }

    fn count(&mut self, value: &mut usize) -> Result<(), Damage> {
        self.wide(&mut (*value as u128))
    }
}

/// Unread rest of what was stored.
#[derive(Debug)]
pub(crate) struct Input<'a>(pub(crate) &'a [u8]);

impl Input<'_> {
    fn next(&mut self) -> Result<u8, Damage> {
        let (first, rest) = self.0.split_first().ok_or(Damage::Short)?;
        self.0 = rest;
        Ok(*first)
    }

    /// Reads a number of one byte, as most are; `None` if it is longer. Short enough to be inlined.
    #[inline]
    fn short(&mut self) -> Option<u8> {
        let [byte @ ..0x80, rest @ ..] = self.0 else {
            return None;
        };
        self.0 = rest;
        Some(*byte)
    }

    /// Reads a number of several bytes.
    fn long(&mut self) -> Result<u128, Damage> {
        const SHORT: usize = 63;
        let mut low = 0_u64;
        for shift in (0..SHORT).step_by(7) {
            let byte = self.next()?;
            low |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return Ok(low.into());
            }
        }
        let mut wide = u128::from(low);
        for shift in (SHORT..128).step_by(7) {
            let byte = self.next()?;
            let bits = u128::from(byte & 0x7f);
            if (bits << shift) >> shift != bits {
                break;
            }
            wide |= bits << shift;
            if byte & 0x80 == 0 {
                return Ok(wide);
            }
        }
        Err(Damage::Value("number"))
    }

    pub(crate) fn end(&self) -> Result<(), Damage> {
        match self.0.is_empty() {
            true => Ok(()),
            false => Err(Damage::Long),
        }
    }
}

impl Wire for Input<'_> {
    const READS: bool = true;

    fn bytes<const N: usize>(&mut self, value: &mut [u8; N]) -> Result<(), Damage> {
        let (first, rest) = self.0.split_first_chunk::<N>().ok_or(Damage::Short)?;
        self.0 = rest;
        *value = *first;
        Ok(())
    }

    fn wide(&mut self, value: &mut u128) -> Result<(), Damage> {
        *value = match self.short() {
            Some(byte) => byte.into(),
            None => self.long()?,
        };
        Ok(())
    }

    fn number<T: Number>(&mut self, value: &mut T) -> Result<(), Damage> {
        *value = match self.short() {
            Some(byte) => byte.into(),
            None => T::try_from(self.long()?).map_err(|_| Damage::Value("number"))?,
        };
        Ok(())
    }

    fn signed(&mut self, value: &mut i128) -> Result<(), Damage> {
        *value = match self.short() {
            Some(code) => (i64::from(code >> 1) ^ -i64::from(code & 1)).into(),
            None => unzigzag(self.long()?),
        };
        Ok(())
    }

    fn count(&mut self, value: &mut usize) -> Result<(), Damage> {
        let mut count = 0_u64;
        self.number(&mut count)?;
        *value = usize::try_from(count).map_err(|_| Damage::Value("count"))?;
        match *value > self.0.len() {
            true => Err(Damage::Short),
            false => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn written(mut value: i128) -> Vec<u8> {
        let mut out = Vec::new();
        out.signed(&mut value).unwrap();
        out
    }

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
            assert_eq!(written(value).len(), length, "{value}");
        }
    }

    #[test]
    fn a_number_of_too_many_bits_is_damage() {
        for bytes in [[0x80; 19], [0xff; 19]] {
            let mut input = Input(&bytes);
            assert_eq!(input.wide(&mut 0), Err(Damage::Value("number")));
        }
        let mut input = Input(&[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 2]);
        assert_eq!(input.number(&mut 0_u64), Err(Damage::Value("number")));
    }

    proptest! {
        #[test]
        fn any_number_comes_back(value: i128) {
            let bytes = written(value);
            let mut input = Input(&bytes);
            let mut read = 0;
            prop_assert_eq!(input.signed(&mut read), Ok(()));
            prop_assert_eq!(read, value);
            prop_assert_eq!(input.end(), Ok(()));
        }
    }
}

//! Wrappers for pointers that a C caller passed, so that the functions behind them are safe code.
//!
//! This file and the macro in `call` are the only ones with `unsafe`. Pointers are trusted as in the C API: a pointer
//! that is not NULL points to what the prototype declares. No pointer is kept beyond the call.
#![expect(unsafe_code, reason = "reads and writes through a C caller's pointers")]

use std::ffi::{CStr, c_char, c_int, c_uint, c_ulonglong};
use std::ptr::NonNull;

use crate::code::Code;

/// A parameter of an exported function.
pub(crate) trait Argument {
    /// Returns the parameter's type in C, for the comparison with the header.
    fn c_type() -> String
    where
        Self: Sized;

    /// Returns the number of elements in the caller's buffer, if this parameter contains it.
    fn capacity(&self) -> Option<usize> {
        None
    }

    /// Fills the target of the parameter with garbage.
    fn spoil(&self, _capacity: usize) {}
}

/// Byte that a garbage fault writes.
const GARBAGE: u8 = 0xA5;

/// Types that have a name in C. Passed by value, they are inputs.
pub(crate) trait Named {
    const NAME: &'static str;
}

macro_rules! named {
    ($($type:ty = $name:literal,)*) => { $(impl Named for $type { const NAME: &'static str = $name; })* };
}

named! {
    c_uint = "unsigned int",
    c_int = "int",
    c_ulonglong = "unsigned long long",
    Device = "nvmlDevice_t",
}

impl<T: Named> Argument for T {
    fn c_type() -> String {
        T::NAME.to_owned()
    }
}

/// Rejects NULL.
fn target<T>(pointer: *mut T) -> Result<NonNull<T>, Code> {
    NonNull::new(pointer).ok_or(Code::INVALID_ARGUMENT)
}

/// An `nvmlDevice_t`: a number that looks like a pointer and is never dereferenced.
#[repr(transparent)]
#[derive(Clone, Copy, Debug)]
pub(crate) struct Device(*mut u8);

impl Device {
    pub(crate) fn new(number: usize) -> Device {
        Device(std::ptr::without_provenance_mut(number))
    }

    pub(crate) fn number(self) -> usize {
        self.0.addr()
    }
}

/// A pointer to one value that the function sets.
#[repr(transparent)]
#[derive(Clone, Copy, Debug)]
pub(crate) struct Out<T>(*mut T);

impl<T: Copy> Out<T> {
    pub(crate) fn set(self, value: T) -> Result<(), Code> {
        // SAFETY: the caller passed a pointer to a T, by the function's prototype; alignment is not relied on.
        unsafe { target(self.0)?.write_unaligned(value) };
        Ok(())
    }

    /// Returns the caller's value, for parameters that are both input and output.
    pub(crate) fn get(self) -> Result<T, Code> {
        // SAFETY: as in `set`; the prototypes that use this require the caller to fill the value first, and every T
        // here consists of plain numbers and pointers, for which any bytes are valid.
        Ok(unsafe { target(self.0)?.read_unaligned() })
    }
}

impl<T: Named> Argument for Out<T> {
    fn c_type() -> String {
        format!("{} *", T::NAME)
    }

    fn spoil(&self, _capacity: usize) {
        Array(self.0).spoil(1);
    }
}

/// A pointer to the number of elements: the buffer's size on input, the number found on output.
#[repr(transparent)]
#[derive(Clone, Copy, Debug)]
pub(crate) struct Count(Out<c_uint>);

impl Count {
    pub(crate) fn get(self) -> Result<usize, Code> {
        let count = self.0.get()?;
        usize::try_from(count).map_err(|_| Code::INVALID_ARGUMENT)
    }

    pub(crate) fn set(self, count: usize) -> Result<(), Code> {
        self.0.set(c_uint::try_from(count).unwrap_or(c_uint::MAX))
    }
}

impl Argument for Count {
    fn c_type() -> String {
        Out::<c_uint>::c_type()
    }

    fn capacity(&self) -> Option<usize> {
        self.get().ok()
    }

    fn spoil(&self, capacity: usize) {
        self.0.spoil(capacity);
    }
}

/// A pointer to the caller's array; another parameter contains its length.
#[repr(transparent)]
#[derive(Clone, Copy, Debug)]
pub(crate) struct Array<T>(*mut T);

impl<T: Copy> Array<T> {
    pub(crate) fn new(start: *mut T) -> Array<T> {
        Array(start)
    }

    pub(crate) fn is_null(self) -> bool {
        self.0.is_null()
    }

    /// Returns the same buffer for other records, for a driver that violates its own header.
    pub(crate) fn cast<U>(self) -> Array<U> {
        Array(self.0.cast())
    }

    /// Writes all items. The caller has checked that they fit into the buffer.
    pub(crate) fn write(self, items: &[T]) -> Result<(), Code> {
        for (place, item) in items.iter().enumerate() {
            // SAFETY: the number of items was compared with the buffer's size as stated by the C caller.
            unsafe { target(self.0)?.add(place).write_unaligned(*item) };
        }
        Ok(())
    }

    pub(crate) fn read(self, count: usize) -> Result<Vec<T>, Code> {
        let start = target(self.0)?;
        // SAFETY: the C caller states that there are `count` elements, and any bytes are valid for these T.
        let item = |place| unsafe { start.add(place).read_unaligned() };
        Ok((0..count).map(item).collect())
    }
}

impl<T: Named> Argument for Array<T> {
    fn c_type() -> String {
        Out::<T>::c_type()
    }

    fn spoil(&self, capacity: usize) {
        if let Ok(start) = target(self.0) {
            let bytes = size_of::<T>() * capacity;
            // SAFETY: the C caller stated that the array has room for `capacity` elements.
            unsafe { start.cast::<u8>().write_bytes(GARBAGE, bytes) };
        }
    }
}

/// The caller's buffer for a text; the next parameter contains its length.
#[repr(transparent)]
#[derive(Clone, Copy, Debug)]
pub(crate) struct Text(*mut c_char);

impl Text {
    pub(crate) fn set(self, text: &str, length: Length<c_uint>) -> Result<(), Code> {
        let room = length.capacity().unwrap_or(0);
        if self.0.is_null() || room == 0 {
            return Err(Code::INVALID_ARGUMENT);
        }
        if text.len() >= room {
            return Err(Code::INSUFFICIENT_SIZE);
        }
        let bytes = Array(self.0.cast::<u8>());
        bytes.write(&[text.as_bytes(), &[0]].concat())
    }
}

impl Argument for Text {
    fn c_type() -> String {
        "char *".to_owned()
    }

    /// Writes garbage with a NUL terminator: no C client can survive an unterminated string.
    fn spoil(&self, capacity: usize) {
        if let (Ok(start), Some(last)) = (target(self.0), capacity.checked_sub(1)) {
            // SAFETY: the C caller stated that the buffer has `capacity` bytes.
            unsafe {
                start.cast::<u8>().write_bytes(GARBAGE, last);
                start.add(last).write(0);
            }
        }
    }
}

/// The length of a buffer, passed by value.
#[repr(transparent)]
#[derive(Clone, Copy, Debug)]
pub(crate) struct Length<N>(N);

impl<N: Named + Copy + TryInto<usize>> Argument for Length<N> {
    fn c_type() -> String {
        N::NAME.to_owned()
    }

    fn capacity(&self) -> Option<usize> {
        self.0.try_into().ok()
    }
}

/// A text that the caller passed.
#[repr(transparent)]
#[derive(Clone, Copy, Debug)]
pub(crate) struct Words(*const c_char);

impl Words {
    pub(crate) fn get(self) -> Result<String, Code> {
        let start = target(self.0.cast_mut())?;
        // SAFETY: the prototype requires a NUL-terminated string.
        let text = unsafe { CStr::from_ptr(start.as_ptr()) }.to_str();
        text.map(str::to_owned).map_err(|_| Code::INVALID_ARGUMENT)
    }
}

impl Argument for Words {
    fn c_type() -> String {
        "const char *".to_owned()
    }
}

/// Returns the bytes of a static as they are now in memory. They can differ from those that the compiler saw, because
/// `driver::install` modifies the library file.
pub(crate) fn as_installed<const N: usize>(bytes: &'static [u8; N]) -> [u8; N] {
    // SAFETY: a reference is always valid to read.
    unsafe { std::ptr::read_volatile(bytes) }
}

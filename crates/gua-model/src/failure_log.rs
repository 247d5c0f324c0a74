//! Keeps a recurring fault from filling the log: it is logged when it starts, and when it ends with the number of failures.
//! This module counts; the caller logs.

/// The failures of one operation since it last succeeded.
#[derive(Debug, Default)]
pub struct FailureLog {
    failures: u64,
}

impl FailureLog {
    /// Counts a failure. Returns whether it starts a fault, which the caller then logs.
    #[must_use]
    pub fn add(&mut self) -> bool {
        self.failures += 1;
        self.failures == 1
    }

    /// Ends the fault and returns the number of failures; `None` if there was no fault.
    #[must_use]
    pub fn end(&mut self) -> Option<u64> {
        let failures = std::mem::take(&mut self.failures);
        (failures > 0).then_some(failures)
    }

    /// Counts the result of an attempt. Returns what the caller logs: the error that starts a fault, or the number of failures
    /// of a fault that ends.
    #[must_use]
    pub fn change<'a, T, E>(&mut self, result: &'a Result<T, E>) -> Option<Result<u64, &'a E>> {
        match result {
            Ok(_) => self.end().map(Ok),
            Err(error) => self.add().then_some(Err(error)),
        }
    }

    pub fn is_open(&self) -> bool {
        self.failures > 0
    }
}

/// The faults of several objects, such as the GPUs of a host, each with the number of times it was found.
#[derive(Debug)]
pub struct OpenFaults<T> {
    open: Vec<(T, u64)>,
    /// Whether two values are the same fault at two times. The text of a fault may contain numbers that change.
    is_same: fn(&T, &T) -> bool,
}

impl<T: Clone> OpenFaults<T> {
    pub fn new(is_same: fn(&T, &T) -> bool) -> Self {
        let open = Vec::new();
        Self { open, is_same }
    }

    /// Replaces the open faults by those found now. Calls `changed` for each fault that ends, with the number of times it was
    /// found, and for each that starts.
    pub fn update<'a>(
        &mut self,
        found: impl IntoIterator<Item = &'a T> + Clone,
        mut changed: impl FnMut(&T, Option<u64>),
    ) where
        T: 'a,
    {
        let is_same = self.is_same;
        self.open.retain(|(open, times)| {
            let persists = found.clone().into_iter().any(|one| is_same(open, one));
            if !persists {
                changed(open, Some(*times));
            }
            persists
        });
        for one in found {
            match self.open.iter_mut().find(|(open, _)| is_same(open, one)) {
                Some((_, times)) => *times += 1,
                None => {
                    changed(one, None);
                    self.open.push((one.clone(), 1));
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fault_starts_once_and_ends_with_the_number_of_failures() {
        let mut log = FailureLog::default();
        assert_eq!(log.end(), None);
        assert_eq!([log.add(), log.add(), log.add()], [true, false, false]);
        assert!(log.is_open());
        assert_eq!(log.end(), Some(3));
        let results = [Ok(()), Err("refused"), Err("late"), Ok(()), Ok(())];
        let changes = results.iter().map(|result| log.change(result));
        let expected = [None, Some(Err(&"refused")), None, Some(Ok(2)), None];
        assert!(changes.eq(expected));
    }

    #[test]
    fn a_fault_of_an_object_starts_and_ends_on_its_own() {
        let mut open = OpenFaults::<(u32, u32)>::new(|one, other| one.0 == other.0);
        let mut check = |found: &[(u32, u32)], expected: &[(u32, Option<u64>)]| {
            let mut changes = Vec::new();
            open.update(found, |(object, _), times| changes.push((*object, times)));
            assert_eq!(changes, expected);
        };
        check(&[(1, 7)], &[(1, None)]);
        check(&[(1, 8), (2, 7)], &[(2, None)]);
        check(&[(2, 9)], &[(1, Some(2))]);
        check(&[], &[(2, Some(2))]);
    }
}

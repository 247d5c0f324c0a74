//! Keeps a recurring fault from filling the log: each distinct message is logged once until the fault ends, and the
//! end is logged with the number of failures.

/// Maximum number of distinct messages per fault; a server can phrase its errors in endless ways.
const MAX_DISTINCT: usize = 8;

/// The failures of one operation since it last succeeded.
#[derive(Debug, Default)]
pub(crate) struct FailureLog {
    logged: Vec<String>,
    failures: u64,
}

impl FailureLog {
    /// Counts a failure. Returns whether its message is new and should be logged.
    pub(crate) fn is_new(&mut self, message: &str) -> bool {
        self.failures += 1;
        if self.logged.len() == MAX_DISTINCT || self.logged.iter().any(|logged| logged == message) {
            return false;
        }
        self.logged.push(message.to_owned());
        true
    }

    /// Ends the fault and returns the number of failures; `None` if there was no fault.
    pub(crate) fn end(&mut self) -> Option<u64> {
        let failures = std::mem::take(self).failures;
        (failures > 0).then_some(failures)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.failures == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_distinct_failure_is_new_once_until_the_fault_ends() {
        let mut log = FailureLog::default();
        assert_eq!(log.end(), None);
        assert!(log.is_new("refused"));
        assert!(log.is_new("late"));
        assert!(!log.is_new("refused"));
        assert_eq!(log.end(), Some(3));
        assert!(log.is_new("refused"));
        let new = (0..100).filter(|number| log.is_new(&number.to_string()));
        assert_eq!(new.count(), MAX_DISTINCT - 1);
    }
}

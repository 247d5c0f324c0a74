//! What the log has been told of a stretch of failures: each kind once, until it is over.

/// A server can fail in many words; more than these are not told apart.
const MOST: usize = 8;

#[derive(Debug, Default)]
pub(super) struct FailureLog {
    said: Vec<String>,
    failures: u64,
}

impl FailureLog {
    /// Counts a failure. Whether it is worth a line: it was not told since things went wrong.
    pub(super) fn is_news(&mut self, why: &str) -> bool {
        self.failures += 1;
        if self.said.len() == MOST || self.said.iter().any(|said| said == why) {
            return false;
        }
        self.said.push(why.to_owned());
        true
    }

    /// It is over: how many failures there were, if any.
    pub(super) fn over(&mut self) -> Option<u64> {
        let failures = std::mem::take(self).failures;
        (failures > 0).then_some(failures)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.failures == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_of_failure_is_told_once_until_it_is_over() {
        let mut told = FailureLog::default();
        assert_eq!(told.over(), None);
        assert!(told.is_news("refused"));
        assert!(told.is_news("late"));
        assert!(!told.is_news("refused"));
        assert_eq!(told.over(), Some(3));
        assert!(told.is_news("refused"));
        let news = (0..100).filter(|number| told.is_news(&number.to_string()));
        assert_eq!(news.count(), MOST - 1);
    }
}

//! Sends pushes to the board, one at a time, on its own thread, which is abandoned at the end if it hangs. The caller
//! continues at once and is woken when there is a result, so a silent server blocks only this thread.

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;
use std::time::Duration;

use super::client::CallError;
use super::enrolment::Enrolled;

pub(super) struct PushWorker {
    jobs: SyncSender<Job>,
    results: Receiver<PushResult>,
}

/// Result of one push.
pub(super) type PushResult = Result<(), CallError>;

struct Job {
    enrolled: Arc<Enrolled>,
    body: String,
}

impl PushWorker {
    /// Starts the thread. It ends when this value is dropped and no push is in flight.
    pub(super) fn start(wake: impl Fn() + Send + 'static) -> io::Result<Self> {
        let push = |job: &Job| {
            let Enrolled { client, config } = &*job.enrolled;
            client.push_body(&job.body, config)
        };
        Self::start_with(push, wake)
    }

    fn start_with(
        push: impl Fn(&Job) -> PushResult + Send + 'static,
        wake: impl Fn() + Send + 'static,
    ) -> io::Result<Self> {
        let (jobs, pending) = sync_channel::<Job>(1);
        let (finished, results) = sync_channel(1);
        let work = move || {
            for job in pending {
                // A dead thread would never report a result, and nothing would be sent any more. No state of the failed
                // push is used again.
                let result = catch_unwind(AssertUnwindSafe(|| push(&job)));
                let result = result.unwrap_or(Err(CallError::Panicked));
                if finished.send(result).is_err() {
                    return;
                }
                wake();
            }
        };
        thread::Builder::new()
            .name("gua-push".to_owned())
            .spawn(work)?;
        Ok(Self { jobs, results })
    }

    /// Starts a push. The previous one must have finished.
    pub(super) fn send(&self, enrolled: Arc<Enrolled>, body: String) {
        // Cannot fail: the queue is empty and the thread outlives this value.
        let _ = self.jobs.try_send(Job { enrolled, body });
    }

    /// The result of the push, if it has finished.
    pub(super) fn result(&self) -> Option<PushResult> {
        self.results.try_recv().ok()
    }

    /// The result of the push, if it finishes in time.
    pub(super) fn result_within(&self, time: Duration) -> Option<PushResult> {
        self.results.recv_timeout(time).ok()
    }
}

#[cfg(test)]
mod tests {
    use gua_wire::server_url::Unencrypted;
    use gua_wire::{ClaimAnswer, CloudConfig, ServerUrl};

    use super::super::client::Client;
    use super::super::endpoint::{ConnectOptions, Endpoint};
    use super::super::proxy::Proxies;
    use super::*;

    fn enrolled() -> Arc<Enrolled> {
        let answer = br#"{"hostId":"h","displayName":"lab","agentToken":"gua_agent_secret","tokenPrefix":"gua"}"#;
        let board = ServerUrl::parse("http://127.0.0.1:9").unwrap();
        let options = ConnectOptions {
            unencrypted: Unencrypted::LoopbackOnly,
            ca_file: None,
            proxies: Proxies::default(),
        };
        let client = Client::new(Endpoint::new(&board, &options).unwrap());
        let config = CloudConfig::enrolled(board, ClaimAnswer::read(answer).unwrap());
        Arc::new(Enrolled { config, client })
    }

    #[test]
    fn a_push_that_panics_is_a_failure_and_the_next_one_is_sent() {
        let (woken, wakes) = sync_channel(9);
        let push = |job: &Job| {
            assert_ne!(job.body, "bad");
            Ok(())
        };
        let wake = move || woken.send(()).unwrap();
        let worker = PushWorker::start_with(push, wake).unwrap();
        let push = |body: &str| {
            worker.send(enrolled(), body.to_owned());
            let result = worker.result_within(Duration::from_secs(60)).unwrap();
            wakes.recv().unwrap();
            result
        };
        assert!(push("good").is_ok());
        let error = push("bad").unwrap_err();
        assert!(error.is_retryable());
        assert_eq!(error.to_string(), "internal error: the push panicked");
        assert!(push("good").is_ok());
    }
}

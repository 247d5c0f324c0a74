//! Carries pushes to the board, one at a time, in a thread that may be left behind. Whoever hands one over goes on at once,
//! and is woken when there is an answer: a server that is silent holds up nobody but this thread.

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;
use std::time::Duration;

use super::client::CallError;
use super::enrolment::Enrolled;

pub(super) struct PushWorker {
    loads: SyncSender<Load>,
    answers: Receiver<Answer>,
}

/// What became of a push.
pub(super) type Answer = Result<(), CallError>;

struct Load {
    enrolled: Arc<Enrolled>,
    body: String,
}

impl PushWorker {
    /// Starts the thread. It ends when this is dropped and nothing is on its way.
    pub(super) fn start(wake: impl Fn() + Send + 'static) -> io::Result<Self> {
        let push = |load: &Load| {
            let Enrolled { client, config } = &*load.enrolled;
            client.push_body(&load.body, config)
        };
        Self::start_with(push, wake)
    }

    fn start_with(
        push: impl Fn(&Load) -> Answer + Send + 'static,
        wake: impl Fn() + Send + 'static,
    ) -> io::Result<Self> {
        let (loads, to_carry) = sync_channel::<Load>(1);
        let (answered, answers) = sync_channel(1);
        let carry = move || {
            for load in to_carry {
                // A thread that died would never answer, and nothing would be sent any more. Nothing that a push has
                // touched is used again.
                let answer = catch_unwind(AssertUnwindSafe(|| push(&load)));
                let answer = answer.unwrap_or(Err(CallError::Panicked));
                if answered.send(answer).is_err() {
                    return;
                }
                wake();
            }
        };
        thread::Builder::new()
            .name("gua-push".to_owned())
            .spawn(carry)?;
        Ok(Self { loads, answers })
    }

    /// Hands a push over. The one before has been answered.
    pub(super) fn carry(&self, enrolled: Arc<Enrolled>, body: String) {
        // The thread takes one at a time, and does not end before us.
        let _ = self.loads.try_send(Load { enrolled, body });
    }

    /// The answer, if it is there.
    pub(super) fn answer(&self) -> Option<Answer> {
        self.answers.try_recv().ok()
    }

    /// The answer, if it comes in time.
    pub(super) fn answer_within(&self, time: Duration) -> Option<Answer> {
        self.answers.recv_timeout(time).ok()
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
        let client = Client::new(Endpoint::to(&board, &options).unwrap());
        let config = CloudConfig::enrolled(board, ClaimAnswer::read(answer).unwrap());
        Arc::new(Enrolled { config, client })
    }

    #[test]
    fn a_push_that_panics_is_a_failure_and_the_next_is_carried() {
        let (woken, wakes) = sync_channel(9);
        let push = |load: &Load| {
            assert_ne!(load.body, "bad");
            Ok(())
        };
        let wake = move || woken.send(()).unwrap();
        let worker = PushWorker::start_with(push, wake).unwrap();
        let carried = |body: &str| {
            worker.carry(enrolled(), body.to_owned());
            let answer = worker.answer_within(Duration::from_secs(60)).unwrap();
            wakes.recv().unwrap();
            answer
        };
        assert!(carried("good").is_ok());
        let error = carried("bad").unwrap_err();
        assert!(error.may_pass());
        assert_eq!(error.to_string(), "a push failed by a fault of gua itself");
        assert!(carried("good").is_ok());
    }
}

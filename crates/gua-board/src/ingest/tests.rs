use std::sync::atomic::{AtomicBool, Ordering};

use gua_board_store::HostId;
use gua_board_store::ledger::Form;
use jiff::Timestamp;

use super::*;

/// A ledger whose writes wait for a permit and may fail.
#[derive(Default)]
struct Slow {
    permits: Mutex<Option<Receiver<()>>>,
    fails: AtomicBool,
    batches: Mutex<Vec<usize>>,
}

impl Slow {
    fn record(&self, batch: &[Observation]) -> Result<(), StoreError> {
        if let Some(permits) = &*self.permits.lock().unwrap() {
            permits.recv().unwrap();
        }
        if self.fails.load(Ordering::Relaxed) {
            return Err(StoreError::Invalid("disk"));
        }
        self.batches.lock().unwrap().push(batch.len());
        Ok(())
    }
}

fn observation() -> Observation {
    Observation {
        host: HostId("host_a".to_owned()),
        form: Form::Snapshot,
        observed_at: Timestamp::UNIX_EPOCH,
        received_at: Timestamp::UNIX_EPOCH,
        body: b"{}".to_vec(),
    }
}

fn queue(ledger: &Arc<Slow>, capacity: usize) -> Arc<WriteQueue> {
    let ledger = Arc::clone(ledger);
    let record = move |batch: &[Observation]| ledger.record(batch);
    Arc::new(WriteQueue::start(record, Arc::default(), capacity).unwrap())
}

#[tokio::test]
async fn a_full_queue_refuses_and_stores_the_rest_in_one_batch() {
    let (permit, permits) = std::sync::mpsc::channel();
    let ledger = Arc::new(Slow {
        permits: Mutex::new(Some(permits)),
        ..Slow::default()
    });
    let queue = queue(&ledger, 10);
    let store = || {
        let queue = Arc::clone(&queue);
        tokio::spawn(async move { queue.store(observation()).await })
    };
    // The first batch blocks in the ledger, so that the queue fills up behind it.
    let mut requests = vec![store()];
    let mut refused = 0;
    while refused == 0 {
        let request = store();
        tokio::task::yield_now().await;
        tokio::task::yield_now().await;
        if request.is_finished() {
            assert!(matches!(request.await.unwrap(), Err(Problem::Overloaded)));
            refused += 1;
        } else {
            requests.push(request);
        }
    }
    for _ in 0..=requests.len() {
        let _ = permit.send(());
    }
    let sent = requests.len();
    for request in requests {
        request.await.unwrap().unwrap();
    }
    queue.stop();
    let batches = ledger.batches.lock().unwrap();
    assert_eq!(batches.iter().sum::<usize>(), sent);
    assert!(batches.len() <= 3, "{batches:?}");
}

#[tokio::test]
async fn a_failed_batch_is_not_acknowledged_and_the_next_may_succeed() {
    let ledger = Arc::new(Slow::default());
    let queue = queue(&ledger, 10);
    ledger.fails.store(true, Ordering::Relaxed);
    assert!(matches!(
        queue.store(observation()).await,
        Err(Problem::NotStored)
    ));
    ledger.fails.store(false, Ordering::Relaxed);
    queue.store(observation()).await.unwrap();
    queue.stop();
    assert!(matches!(
        queue.store(observation()).await,
        Err(Problem::Stopping)
    ));
}

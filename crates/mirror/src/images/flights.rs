//! Work that is in progress, done once for all that wait for it.
//!
//! **Without it**, 50 containers that start together on a host pull one new tag at the same moment. No request
//! finds anything in the store, so each asks the registry: 50 `HEAD` and 50 `GET` requests, and a registry that
//! counts pulls counts 50. With it the registry gets one of each, and all 50 clients the same answer.
//!
//! The first request with a key begins the work; later ones wait for its result. Three details matter:
//!
//! - The work is a task of its own. A client that times out and leaves, which may be the first, ends neither the
//!   work nor the wait of the others.
//! - The key is removed before the result is published. A request that comes a moment later begins anew, so
//!   nothing is cached here.
//! - The key is removed also when the work panics. Those that wait get `None`, and the next request tries again;
//!   otherwise this key would wait for ever.
//!
//! The bound: one entry for each key that is being worked on. A request of a client (at most 1,000 connections) or
//! of another host (at most 1,024 at a time) began it, and it ends with the timeouts of its requests to the
//! registry.

use std::collections::HashMap;
use std::future::Future;
use std::hash::Hash;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::watch;
use watchfire_traces::{current, within};

/// Work in progress, by its key.
#[derive(Debug)]
pub(crate) struct Flights<K, V> {
    running: Mutex<HashMap<K, watch::Receiver<Option<V>>>>,
}

impl<K, V> Default for Flights<K, V> {
    fn default() -> Self {
        Flights { running: Mutex::default() }
    }
}

impl<K, V> Flights<K, V>
where
    K: Clone + Eq + Hash + Send + Sync + 'static,
    V: Clone + Send + Sync + 'static,
{
    /// The result of the work with this key, which begins unless it is in progress. It goes on when the
    /// caller leaves. `None`: it panicked, or the runtime stops.
    pub(crate) async fn join(
        self: &Arc<Self>,
        key: K,
        work: impl Future<Output = V> + Send + 'static,
    ) -> Option<V> {
        let mut result = {
            let mut running = self.running.lock();
            match running.get(&key) {
                Some(result) => result.clone(),
                None => {
                    let (sender, result) = watch::channel(None);
                    running.insert(key.clone(), result.clone());
                    let landing = Landing { flights: self.clone(), key };
                    tokio::spawn(within(current(), async move {
                        let value = work.await;
                        // A request that comes now begins anew.
                        drop(landing);
                        sender.send_replace(Some(value));
                    }));
                    result
                }
            }
        };
        let value = result.wait_for(Option::is_some).await.ok()?;
        value.clone()
    }
}

/// Removes the work when it ends, also by a panic.
struct Landing<K: Eq + Hash, V> {
    flights: Arc<Flights<K, V>>,
    key: K,
}

impl<K: Eq + Hash, V> Drop for Landing<K, V> {
    fn drop(&mut self) {
        self.flights.running.lock().remove(&self.key);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use tokio::sync::Semaphore;

    use super::*;

    #[tokio::test]
    async fn work_is_done_once_for_all_that_wait_and_again_later() {
        let flights = Arc::new(Flights::<u8, u32>::default());
        let (begun, gate) = (Arc::new(AtomicU32::new(0)), Arc::new(Semaphore::new(0)));
        let join = |key| {
            let (begun, gate) = (begun.clone(), gate.clone());
            let work = async move {
                let number = begun.fetch_add(1, Ordering::Relaxed);
                gate.acquire().await.unwrap().forget();
                number
            };
            let flights = flights.clone();
            async move { flights.join(key, work).await }
        };
        let mut waiting: Vec<_> = (0..50).map(|_| tokio::spawn(join(1))).collect();
        let other = tokio::spawn(join(2));
        // A waiter that leaves does not stop the work.
        waiting.remove(0).abort();
        while begun.load(Ordering::Relaxed) < 2 {
            tokio::task::yield_now().await;
        }
        gate.add_permits(2);
        let mut results = Vec::new();
        for one in waiting {
            results.push(one.await.unwrap().unwrap());
        }
        assert!(results.iter().all(|result| *result == results[0]), "{results:?}");
        assert_ne!(other.await.unwrap(), Some(results[0]));
        gate.add_permits(1);
        assert_eq!(join(1).await, Some(2));
        assert!(flights.running.lock().is_empty());
    }

    #[tokio::test]
    async fn work_that_panics_is_forgotten() {
        let flights = Arc::new(Flights::<u8, u32>::default());
        assert_eq!(flights.join(1, async { panic!("on purpose") }).await, None);
        assert_eq!(flights.join(1, async { 5 }).await, Some(5));
    }
}

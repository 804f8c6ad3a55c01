//! The messages of one request that histories store. When the outcome of the last one is known, the
//! messages for topics without a history go, and the request is answered.

use std::mem;

use serde_json::{Value, json};
use watchfire::Endpoint;
use watchfire::internal::NotStored;

use super::error::{CallError, Code};
use super::publish::{Prepared, Publication};

/// Gets the answer to a request, in JSON.
pub type Done = Box<dyn FnOnce(Result<Value, CallError>) + Send>;

/// The outcome of each call of a request: the position of its only message, or why one is not stored.
pub type Outcomes = Vec<Result<Option<String>, NotStored>>;

/// A request whose messages are being stored.
pub struct Storing {
    /// Messages without an outcome.
    left: usize,
    outcomes: Outcomes,
    rest: Option<(Prepared, Done)>,
}

/// A request whose messages have their outcomes.
pub struct Ended {
    /// The messages for topics without a history.
    pub prepared: Prepared,
    pub outcomes: Outcomes,
    pub done: Done,
}

impl Storing {
    /// `messages` are being stored. `prepared` has the others.
    pub fn new(messages: usize, prepared: Prepared, done: Done) -> Self {
        let outcomes = vec![Ok(None); prepared.publications.len()];
        Storing { left: messages, outcomes, rest: Some((prepared, done)) }
    }

    /// Notes the outcome of a message of this call. Returns the request after the last one.
    pub fn note(
        &mut self,
        call: usize,
        outcome: Result<Option<String>, NotStored>,
    ) -> Option<Ended> {
        self.left -= 1;
        if self.outcomes[call].is_ok() || outcome == Err(NotStored::Unavailable) {
            self.outcomes[call] = outcome;
        }
        if self.left > 0 {
            return None;
        }
        let outcomes = mem::take(&mut self.outcomes);
        let (prepared, done) = self.rest.take()?;
        Some(Ended { prepared, outcomes, done })
    }
}

/// Publishes the messages for topics without a history, and returns the answer.
pub fn answer(
    prepared: Prepared,
    outcomes: Outcomes,
    endpoint: &Endpoint,
) -> Result<Value, CallError> {
    if outcomes.contains(&Err(NotStored::Unavailable)) {
        let message = "cannot publish: a history did not store a message in time; repeat the request \
             with its Idempotency-Key, so that no message is published twice";
        return Err(CallError::new(Code::Unavailable, message));
    }
    let calls = prepared.publications.into_iter().zip(outcomes);
    let mut results = calls.map(|(publication, outcome)| {
        let Publication { topics, event, body } = publication?;
        let position = outcome.map_err(too_large)?;
        for topic in topics {
            endpoint.broadcast(&topic, &event, body.clone()).expect("the payload was checked");
        }
        Ok(position.map_or_else(|| json!({}), |position| json!({ "position": position })))
    });
    if !prepared.is_batch {
        return results.next().expect("it has one call");
    }
    let in_batch =
        |result: Result<Value, CallError>| result.unwrap_or_else(|error| error.to_json());
    Ok(json!({ "results": results.map(in_batch).collect::<Vec<Value>>() }))
}

fn too_large(cause: NotStored) -> CallError {
    let message = match cause {
        NotStored::TooLarge { bytes_max } => {
            format!("the history of a topic takes messages of at most {bytes_max} bytes")
        }
        NotStored::Unavailable => unreachable!("the request has failed"),
    };
    CallError::new(Code::PayloadTooLarge, message)
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;

    use watchfire::{Body, RunningServer, Server, Settings};

    use super::*;

    fn start() -> RunningServer {
        let mut settings = Settings::default();
        settings.server.listen = vec![SocketAddr::from(([127, 0, 0, 1], 0))];
        settings.server.shards = 1;
        Server::new(settings).start().expect("the server starts")
    }

    /// A batch of calls, the messages of which are being stored.
    fn storing(calls: usize, messages: usize) -> Storing {
        let publication =
            || Ok(Publication { topics: Vec::new(), event: "e".into(), body: Body::EMPTY });
        let publications = (0..calls).map(|_| publication()).collect();
        Storing::new(messages, Prepared { publications, is_batch: true }, Box::new(|_| ()))
    }

    #[test]
    fn a_request_is_answered_after_its_last_outcome() {
        let (server, mut storing) = (start(), storing(3, 3));
        assert!(storing.note(2, Ok(Some("a:2".into()))).is_none());
        assert!(storing.note(0, Ok(None)).is_none());
        let too_large = Err(NotStored::TooLarge { bytes_max: 7 });
        let ended = storing.note(1, too_large).expect("it is the last one");
        let answer = answer(ended.prepared, ended.outcomes, server.endpoint()).unwrap();
        let code = &answer["results"][1]["error"]["code"];
        assert_eq!(code, "payload_too_large", "that call fails alone");
        assert_eq!(
            (&answer["results"][0], &answer["results"][2]),
            (&json!({}), &json!({ "position": "a:2" }))
        );
    }

    #[test]
    fn a_request_fails_as_a_whole_if_a_message_is_not_stored() {
        for order in [[0, 1], [1, 0]] {
            let (server, mut storing) = (start(), storing(1, 2));
            let outcomes = [Err(NotStored::TooLarge { bytes_max: 7 }), Err(NotStored::Unavailable)];
            assert!(storing.note(0, outcomes[order[0]].clone()).is_none());
            let ended = storing.note(0, outcomes[order[1]].clone()).expect("it is the last one");
            let failed = answer(ended.prepared, ended.outcomes, server.endpoint()).unwrap_err();
            assert_eq!(failed.code, Code::Unavailable);
        }
    }
}

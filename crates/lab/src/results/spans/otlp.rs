//! The spans in a request of OTLP: the part of its messages that a viewer shows, as `opentelemetry.proto.trace.v1`
//! numbers them. Other fields are skipped.

use prost::Message;

use crate::results::trace::{Span, Value};

#[derive(Clone, PartialEq, Message)]
struct Request {
    #[prost(message, repeated, tag = "1")]
    resources: Vec<ResourceSpans>,
}

#[derive(Clone, PartialEq, Message)]
struct ResourceSpans {
    #[prost(message, repeated, tag = "2")]
    scopes: Vec<ScopeSpans>,
}

#[derive(Clone, PartialEq, Message)]
struct ScopeSpans {
    #[prost(message, repeated, tag = "2")]
    spans: Vec<SpanMessage>,
}

#[derive(Clone, PartialEq, Message)]
struct SpanMessage {
    #[prost(bytes = "vec", tag = "1")]
    trace_id: Vec<u8>,
    #[prost(bytes = "vec", tag = "2")]
    span_id: Vec<u8>,
    #[prost(bytes = "vec", tag = "4")]
    parent_span_id: Vec<u8>,
    #[prost(string, tag = "5")]
    name: String,
    #[prost(fixed64, tag = "7")]
    started_at: u64,
    #[prost(fixed64, tag = "8")]
    ended_at: u64,
    #[prost(message, repeated, tag = "9")]
    attributes: Vec<KeyValue>,
    #[prost(message, optional, tag = "15")]
    status: Option<Status>,
}

#[derive(Clone, PartialEq, Message)]
struct Status {
    #[prost(string, tag = "2")]
    message: String,
    #[prost(int32, tag = "3")]
    code: i32,
}

/// The code of a status that is an error.
const ERROR: i32 = 2;

#[derive(Clone, PartialEq, Message)]
struct KeyValue {
    #[prost(string, tag = "1")]
    key: String,
    #[prost(message, optional, tag = "2")]
    value: Option<AnyValue>,
}

#[derive(Clone, PartialEq, Message)]
struct AnyValue {
    #[prost(oneof = "AnyValueKind", tags = "1, 2, 3, 4")]
    kind: Option<AnyValueKind>,
}

#[derive(Clone, PartialEq, prost::Oneof)]
enum AnyValueKind {
    #[prost(string, tag = "1")]
    Text(String),
    #[prost(bool, tag = "2")]
    Flag(bool),
    #[prost(int64, tag = "3")]
    Number(i64),
    #[prost(double, tag = "4")]
    Decimal(f64),
}

/// The spans in a request, as those of a node; `None` if the bytes are not a request of OTLP.
pub fn decode(node: usize, bytes: &[u8]) -> Option<Vec<Span>> {
    let request = Request::decode(bytes).ok()?;
    let scopes = request.resources.into_iter().flat_map(|resource| resource.scopes);
    let spans = scopes.flat_map(|scope| scope.spans);
    // A span with ids of another length is not one.
    Some(spans.filter_map(|span| convert(node, span)).collect())
}

fn convert(node: usize, span: SpanMessage) -> Option<Span> {
    let attribute = |KeyValue { key, value }: KeyValue| {
        let value = match value?.kind? {
            AnyValueKind::Text(text) => Value::Text(text),
            AnyValueKind::Flag(flag) => Value::Flag(flag),
            AnyValueKind::Number(number) => Value::Number(number),
            AnyValueKind::Decimal(number) => Value::Decimal(number),
        };
        Some((key, value))
    };
    Some(Span {
        trace_id: span.trace_id.try_into().ok()?,
        id: span.span_id.try_into().ok()?,
        parent: span.parent_span_id.try_into().ok(),
        node: Some(node),
        name: span.name,
        started_at: span.started_at,
        ended_at: span.ended_at.max(span.started_at),
        attributes: span.attributes.into_iter().filter_map(attribute).collect(),
        events: Vec::new(),
        error: span.status.filter(|status| status.code == ERROR).map(|status| status.message),
    })
}

/// A request with one span, as an exporter sends it.
#[cfg(test)]
pub fn request(name: &str, parent: Option<[u8; 8]>) -> Vec<u8> {
    let text = AnyValue { kind: Some(AnyValueKind::Number(7)) };
    let span = SpanMessage {
        trace_id: vec![1; 16],
        span_id: vec![2; 8],
        parent_span_id: parent.map(Vec::from).unwrap_or_default(),
        name: name.to_owned(),
        started_at: 1_000,
        ended_at: 3_000,
        attributes: vec![KeyValue { key: "watchfire.blocks".to_owned(), value: Some(text) }],
        status: Some(Status { message: "no peer".to_owned(), code: ERROR }),
    };
    let scopes = vec![ScopeSpans { spans: vec![span] }];
    Request { resources: vec![ResourceSpans { scopes }] }.encode_to_vec()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_span_is_decoded_with_its_parent_and_attributes() {
        let spans = decode(3, &request("get", Some([9; 8]))).unwrap();
        let [span] = &*spans else { panic!("{spans:?}") };
        assert_eq!((span.node, span.name.as_str(), span.parent), (Some(3), "get", Some([9; 8])));
        assert_eq!((span.started_at, span.ended_at), (1_000, 3_000));
        assert_eq!(span.attributes, [("watchfire.blocks".to_owned(), Value::Number(7))]);
        assert_eq!(span.error.as_deref(), Some("no peer"));
        assert_eq!(decode(0, &request("get", None)).unwrap()[0].parent, None);
    }

    #[test]
    fn bytes_that_are_no_request_are_refused() {
        assert_eq!(decode(0, b"\xff\xff\xff\xff"), None);
        assert_eq!(decode(0, b"").unwrap(), []);
    }
}

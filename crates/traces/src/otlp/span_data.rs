//! A finished span as the OpenTelemetry library wants it.

use opentelemetry::trace::{
    SpanContext, SpanId, SpanKind, Status, TraceFlags, TraceId, TraceState,
};
use opentelemetry::{InstrumentationScope, KeyValue, Value as OtelValue};
use opentelemetry_sdk::trace::{SpanData, SpanEvents, SpanLinks};

use crate::span::{FinishedSpan, Kind, Value};

pub(super) fn span_data(span: FinishedSpan) -> SpanData {
    let FinishedSpan { context, parent, is_parent_remote, name, kind, .. } = span;
    let span_context = SpanContext::new(
        TraceId::from_bytes(context.trace_id),
        SpanId::from_bytes(context.span_id),
        TraceFlags::SAMPLED,
        false,
        TraceState::NONE,
    );
    let attributes = span.attributes.into_iter().map(|(name, value)| {
        let value = match value {
            Value::Text(text) => OtelValue::from(text),
            Value::Number(number) => OtelValue::from(number),
            Value::Flag(flag) => OtelValue::from(flag),
        };
        KeyValue::new(name, value)
    });
    SpanData {
        span_context,
        parent_span_id: parent.map_or(SpanId::INVALID, SpanId::from_bytes),
        parent_span_is_remote: is_parent_remote,
        span_kind: match kind {
            Kind::Internal => SpanKind::Internal,
            Kind::Server => SpanKind::Server,
            Kind::Client => SpanKind::Client,
            Kind::Producer => SpanKind::Producer,
            Kind::Consumer => SpanKind::Consumer,
        },
        name,
        start_time: span.started_at,
        end_time: span.started_at + span.duration,
        attributes: attributes.collect(),
        dropped_attributes_count: 0,
        events: SpanEvents::default(),
        links: SpanLinks::default(),
        status: span.error.map_or(Status::Unset, Status::error),
        instrumentation_scope: InstrumentationScope::builder("watchfire").build(),
    }
}

//go:build tools

// Package otelcol keeps the builder of the collector in go.mod.
package otelcol

import _ "go.opentelemetry.io/collector/cmd/builder"

// Package otlp receives metrics of OpenTelemetry by OTLP over HTTP, as protobuf or JSON. Prometheus's own translation turns them
// into series.
package otlp

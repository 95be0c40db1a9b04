// Package comparison holds what tests need to compare this database's HTTP API with Prometheus's: samples, the
// requests that are sent to both, and what it means for two answers to be equal.
//
// Only tests import it. Prometheus' answers are recorded in testdata, so that the comparison needs no Prometheus; the
// module in api/testdata/reference runs Prometheus' own handler beside ours and records them again.
package comparison

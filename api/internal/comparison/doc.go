// Package comparison has the parts for tests that compare this database's HTTP API with Prometheus's: samples, requests for both,
// and the rules by which two answers are equal.
//
// Only tests import it. Prometheus's answers are recorded in testdata, so the comparison needs no Prometheus. The module in
// api/testdata/reference runs Prometheus's own handler beside ours and records its answers again.
package comparison

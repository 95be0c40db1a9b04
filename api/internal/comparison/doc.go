// Package comparison has the parts for tests that compare this database's HTTP API with Prometheus's. They are samples,
// requests for both, and the rules by which two responses are equal.
//
// Only tests import it. Prometheus's responses are recorded in testdata, so the comparison needs no Prometheus. The module in
// api/testdata/reference runs Prometheus's own handler and ours and records its responses again.
package comparison

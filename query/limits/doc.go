// Package limits bounds queries by limits and rules that may change while the server runs. A limit bounds time, memory or number
// of queries. A rule refuses queries, or sends them through a slow lane of one at a time. Both are counted.
package limits

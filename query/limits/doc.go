// Package limits applies limits and rules to queries. [Control.Set] may replace them while the server runs. A limit bounds the
// time, memory or number of queries. A rule refuses matching queries, or sends them through a slow lane that runs one query at
// a time. The package counts warnings, refusals and dry runs of each limit, and the matches of each rule.
package limits

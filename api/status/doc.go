// Package status answers the endpoints below /api/v1/status that look into the server: the top queries, cardinality and row keys.
// It also changes the query rules.
package status

// Package querystats lists the running and the last completed queries of OpenTSDB's clients, for /api/stats/query.
package querystats

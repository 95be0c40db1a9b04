// Package queries answers OpenTSDB's query endpoints over HTTP: /api/query and those below it.
//
// A [Handlers] parses requests with package query/opentsdb/request, asks the engine, and writes OpenTSDB's JSON. Its errors are
// OpenTSDB's too. Whoever mounts the handlers checks who asks; deletions need a principal with the scope admin.
package queries

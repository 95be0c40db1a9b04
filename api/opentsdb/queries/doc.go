// Package queries answers OpenTSDB's query endpoints over HTTP: /api/query and those below it.
//
// A [Handlers] parses requests with package query/opentsdb/request, asks the engine, and writes OpenTSDB's JSON. Errors also have
// OpenTSDB's form. The routes of package api identify the principal. Deletions need a principal with the scope admin.
package queries

// Package backfill holds the sub-commands for rule files: they check them, and they evaluate recording rules over the past of a
// running server.
package backfill

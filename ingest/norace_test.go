//go:build !race

package ingest

const crashSeedsDefault = 500

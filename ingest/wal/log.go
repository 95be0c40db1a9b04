package wal

import (
	"context"
	"io"

	"github.com/cockroachdb/pebble/v2/vfs"
)

type Log struct{}

func Open(Options) (*Log, error) { panic("wal") }
func (l *Log) Replay(fn func(kind byte, payload []byte, pos Position) error) (ReplayStats, error) {
	panic("wal")
}
func (l *Log) Append(kind byte, payload []byte) (Position, error) { panic("wal") }
func (l *Log) Wait(ctx context.Context, pos Position) error       { panic("wal") }
func (l *Log) Cut() (segment uint64, err error)                   { panic("wal") }
func (l *Log) Truncate(before uint64, checkpoint func(emit func(kind byte, payload []byte) error) error) error {
	panic("wal")
}
func (l *Log) Stats() Stats                                          { panic("wal") }
func (l *Log) Close() error                                          { panic("wal") }
func Inspect(fs vfs.FS, dir string, w io.Writer, verbose bool) error { panic("wal") }

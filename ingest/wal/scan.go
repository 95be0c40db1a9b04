package wal

import "github.com/cockroachdb/pebble/v2/vfs"

// Scan reads the log in dir, calls visit with each readable record and returns what is damaged. A payload is valid during the
// call only. Scan changes nothing and takes no lock, so the log's server must have stopped.
func Scan(
	fs vfs.FS, dir string, visit func(kind byte, payload []byte, at Position) error,
) (losses []Loss, err error) {
	layout, err := readLayout(fs, dir)
	if err != nil {
		return nil, err
	}
	w := walker{fs: fs, dir: dir, layout: layout, accept: true}
	w.visit = func(f *frame, _ bool, at Position) error { return visit(f.kind, f.payload, at) }
	err = w.run()
	return w.losses, err
}

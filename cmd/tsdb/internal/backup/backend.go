package backup

import (
	"context"
	"io"
)

// backend stores the backups of a Repository: in a directory or a bucket. A backup is unfinished from Begin to Publish.
type backend interface {
	// Lock prevents other commands from changing the backups, and removes leftovers of interrupted commands. The returned
	// context ends with the lock. It fails with storage.ErrLocked if another command holds the lock.
	Lock(ctx context.Context) (context.Context, func() error, error)
	// List returns the names of the backups, oldest first, and of unfinished ones.
	List(ctx context.Context) (names, unfinished []string, err error)
	// Begin begins a backup. The next Lock removes the snapshot if the backup stays unfinished; the path may be empty.
	Begin(ctx context.Context, name, snapshot string) error
	// Add gives an unfinished backup one file and sets its checksum. It reports whether an older backup shares the file. It may
	// be called concurrently.
	Add(ctx context.Context, a addition) (shared bool, err error)
	// Publish writes the manifest of an unfinished backup and finishes it, durably.
	Publish(ctx context.Context, name string, manifest []byte) error
	// Open opens a file of a backup, or its manifest if f is nil. The error wraps fs.ErrNotExist if it is missing.
	Open(ctx context.Context, name string, f *File) (io.ReadCloser, error)
	// Remove removes backups. It keeps the files that the other backups share with them.
	Remove(ctx context.Context, names []string, others []Entry) error
	// Unknown finds files of a backup that its manifest does not name.
	Unknown(ctx context.Context, m *Manifest) ([]Fault, error)
}

// addition is a file that Add gives to a backup.
type addition struct {
	backup string
	file   *File
	// from is the path of the file on this machine.
	from string
	// older is the copy in an older backup; its zero value means that there is none.
	older    origin
	progress *Progress
}

// origin is a copy of a file in a backup.
type origin struct{ backup, sha256 string }

// Entry is a backup in a list.
type Entry struct {
	Name     string
	Manifest *Manifest // nil if it cannot be read
	Err      error     // the reason; nil if it can be read
}

// Fault is a file of a backup that is missing, damaged or unknown.
type Fault struct {
	// Path is relative to the data directory, with slashes.
	Path, Reason string
}

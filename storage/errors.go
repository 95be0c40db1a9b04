package storage

import (
	"errors"
	"fmt"
	"syscall"
)

// Errors that say what a caller can do. Engines wrap them with context.
var (
	// ErrNoTable means that the table does not exist; the caller calls EnsureTable first.
	ErrNoTable = errors.New("no such table")
	// ErrSchemaMismatch means that the table on disk has other families; no retry helps.
	ErrSchemaMismatch = errors.New("table schema mismatch")
	// ErrBadKey and ErrBadMutation mean that the request breaks a rule or limit of the contract; no retry helps.
	ErrBadKey      = errors.New("bad row key")
	ErrBadMutation = errors.New("bad mutation")
	// ErrCorrupt means that stored data failed a checksum or did not parse.
	ErrCorrupt = errors.New("corrupt data")
	// ErrLocked means that another process has the store open. The operator stops it or chooses another directory.
	ErrLocked = errors.New("storage locked by another process")
	// ErrUnavailable means that the engine cannot serve the request now. It has no space, is stalled or closing, or is a
	// service without a reply or quota. The caller retries later. The request may have taken effect nevertheless.
	ErrUnavailable = errors.New("storage unavailable")
	// ErrFailed means that the engine accepts no writes until it is opened again. It is joined with ErrUnavailable.
	ErrFailed = errors.New("storage failed")
)

// Exhausted reports whether an operation failed because the machine lacks disk space, quota, descriptors or memory. The same
// operation can succeed later.
func Exhausted(err error) bool {
	return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) || errors.Is(err, syscall.EMFILE) ||
		errors.Is(err, syscall.ENFILE) || errors.Is(err, syscall.ENOMEM)
}

// RowError is the failure of one row of an Apply; Index is its position in the request.
type RowError struct {
	Index int
	Err   error
}

// ApplyError lists the rows of an Apply that failed; all others were applied.
type ApplyError struct {
	Rows []RowError
}

func (e *ApplyError) Error() string {
	return fmt.Sprintf("%d rows failed, first: row %d: %v", len(e.Rows), e.Rows[0].Index, e.Rows[0].Err)
}

// Unwrap returns the rows' errors, for errors.Is.
func (e *ApplyError) Unwrap() []error {
	errs := make([]error, len(e.Rows))
	for i, r := range e.Rows {
		errs[i] = r.Err
	}
	return errs
}

package bigtable

import (
	"context"
	"errors"
	"fmt"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"halite/storage"
)

// errClosed is the error of every call after Close.
var errClosed = fmt.Errorf("%w: the store is closed", storage.ErrUnavailable)

// mapError converts an error of the client into an error of package storage with advice for the caller. doing describes the
// call. It returns a cancellation by the caller unchanged.
func mapError(ctx context.Context, doing string, err error) error {
	if err == nil {
		return nil
	}
	if ctxErr := ctx.Err(); ctxErr != nil {
		return fmt.Errorf("bigtable: %s: %w", doing, context.Cause(ctx))
	}
	if errors.Is(err, storage.ErrUnavailable) {
		return fmt.Errorf("bigtable: %s: %w", doing, err)
	}
	advice, sentinel := advise(status.Code(err))
	if sentinel == nil {
		return fmt.Errorf("bigtable: %s: %s: %w", doing, advice, err)
	}
	return fmt.Errorf("bigtable: %s: %w: %s: %w", doing, sentinel, advice, err)
}

// advise returns advice for a status, and its sentinel error. The sentinel is nil if no caller can handle the error.
func advise(code codes.Code) (advice string, sentinel error) {
	switch code {
	case codes.NotFound:
		return "the table, app profile, instance or project does not exist: check the names, or create it", storage.ErrNoTable
	case codes.PermissionDenied:
		return "the account lacks a role: it needs roles/bigtable.user on the instance, and roles/bigtable.admin to create tables", nil
	case codes.Unauthenticated:
		return "the credentials were refused: set GOOGLE_APPLICATION_CREDENTIALS, or run gcloud auth application-default login", nil
	case codes.ResourceExhausted:
		return "a quota is used up: repeat later, add nodes, or ask for a higher quota", storage.ErrUnavailable
	case codes.InvalidArgument, codes.OutOfRange:
		return "the service refuses the request: no retry helps", storage.ErrBadMutation
	case codes.FailedPrecondition:
		return "the service refuses the call in this state: conditional writes need an app profile with single-cluster routing", nil
	case codes.Unimplemented:
		return "the server does not support this call: the emulator may be too old", nil
	case codes.DataLoss:
		return "the service reports lost data", storage.ErrCorrupt
	}
	// Unavailable, DeadlineExceeded, Aborted, Internal and Unknown may be temporary, and so may Canceled by the server.
	return "the service did not answer in time or failed: repeat later", storage.ErrUnavailable
}

// unknownOutcome adds to the error of a call that runs only once that the call may have taken effect.
func unknownOutcome(err error) error {
	if errors.Is(err, storage.ErrUnavailable) {
		return fmt.Errorf("%w (the row may or may not have changed: read it before repeating)", err)
	}
	return err
}

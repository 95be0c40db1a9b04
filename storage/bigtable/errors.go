package bigtable

import (
	"context"
	"errors"
	"fmt"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"halite/storage"
)

// errClosed is what every call returns after Close.
var errClosed = fmt.Errorf("%w: the store is closed", storage.ErrUnavailable)

// mapError turns an error of the client into one of package storage that says what the caller must do. doing names the
// call. The caller's own cancellation stays what it is.
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

// advise says for each status what it means here. A nil sentinel is an error that no caller can act upon by itself.
func advise(code codes.Code) (advice string, sentinel error) {
	switch code {
	case codes.NotFound:
		return "the table, app profile, instance or project does not exist: check the names, or create it", storage.ErrNoTable
	case codes.PermissionDenied:
		return "the account lacks a role: it needs roles/bigtable.user on the instance, to create tables roles/bigtable.admin", nil
	case codes.Unauthenticated:
		return "the credentials were refused: set GOOGLE_APPLICATION_CREDENTIALS, or run gcloud auth application-default login", nil
	case codes.ResourceExhausted:
		return "a quota is used up: repeat later, add nodes, or ask for a higher quota", storage.ErrUnavailable
	case codes.InvalidArgument, codes.OutOfRange:
		return "the service refuses the request: no retry helps", storage.ErrBadMutation
	case codes.FailedPrecondition:
		return "the service refuses the call in this state: conditional writes need an app profile with single-cluster routing", nil
	case codes.Unimplemented:
		return "the server does not know this call: an old emulator?", nil
	case codes.DataLoss:
		return "the service reports lost data", storage.ErrCorrupt
	}
	// Unavailable, DeadlineExceeded, Aborted, Internal, Canceled by the server, Unknown: all may pass.
	return "the service did not answer in time or failed: repeat later", storage.ErrUnavailable
}

// unknownOutcome is added to failures of calls that are not retried because they must not run twice.
func unknownOutcome(err error) error {
	if errors.Is(err, storage.ErrUnavailable) {
		return fmt.Errorf("%w (the row may have been changed or not: read it before repeating)", err)
	}
	return err
}

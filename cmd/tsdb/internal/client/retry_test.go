package client

import (
	"errors"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestErrorOf: a request may succeed later if the server says so by the status, and not before the time of Retry-After.
func TestErrorOf(t *testing.T) {
	refused := errors.New("refused")
	for _, status := range []int{http.StatusTooManyRequests, http.StatusInternalServerError, http.StatusServiceUnavailable} {
		err := ErrorOf(&http.Response{StatusCode: status, Header: http.Header{"Retry-After": {"7"}}}, refused)
		retryable := new(RetryableError)
		require.ErrorAs(t, err, &retryable, status)
		require.Equal(t, 7*time.Second, retryable.After)
		require.ErrorIs(t, err, refused)
	}
	for _, status := range []int{http.StatusBadRequest, http.StatusNotFound, http.StatusOK} {
		require.Equal(t, refused, ErrorOf(&http.Response{StatusCode: status}, refused))
	}
}

// TestRetryEnds: an error that no wait can change ends the tries.
func TestRetryEnds(t *testing.T) {
	tries, refused := 0, errors.New("refused")
	err := Retry(t.Context(), time.Hour, func() error {
		tries++
		return refused
	})
	require.Equal(t, refused, err)
	require.Equal(t, 1, tries)
}

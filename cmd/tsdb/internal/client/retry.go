package client

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"halite/storage/periodic"
)

// Waits between two tries of a request. Each wait is twice as long as the previous one.
const (
	retryFirst = 500 * time.Millisecond
	retryMax   = 10 * time.Second
)

// RetryableError is the error of a request that may succeed later.
type RetryableError struct {
	Err error
	// After is the shortest time until the next try, as the server wants it.
	After time.Duration
}

func (e *RetryableError) Error() string { return e.Err.Error() }

func (e *RetryableError) Unwrap() error { return e.Err }

// Do sends a request. If no server answers, the error wraps a *RetryableError. The caller closes the body of the response.
func Do(req *http.Request) (*http.Response, error) {
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, &RetryableError{Err: fmt.Errorf("is a server running there? %w", err)}
	}
	return resp, nil
}

// ErrorOf returns err, the error in a response. It wraps err in a *RetryableError if the status is 429 or 5xx.
func ErrorOf(resp *http.Response, err error) error {
	if resp.StatusCode/100 != 5 && resp.StatusCode != http.StatusTooManyRequests {
		return err
	}
	seconds, _ := strconv.Atoi(resp.Header.Get("Retry-After"))
	return &RetryableError{Err: err, After: time.Duration(seconds) * time.Second}
}

// Retry calls try until it succeeds. It returns the error of try if the error is not retryable, or if retryFor has passed.
func Retry(ctx context.Context, retryFor time.Duration, try func() error) error {
	wait := retryFirst
	for began := time.Now(); ; {
		err := try()
		retryable := new(RetryableError)
		if !errors.As(err, &retryable) || time.Since(began) > retryFor {
			return err
		}
		if err := periodic.Sleep(ctx, max(wait, retryable.After)); err != nil {
			return err
		}
		wait = min(2*wait, retryMax)
	}
}

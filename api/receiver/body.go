package receiver

import (
	"errors"
	"net"
	"net/http"

	"halite/api/remote"
	"halite/query/budget"
)

// BodyStatus returns the status for a failure to read the body of a request: 413 for a body that is too large, 503 for a slow
// client or a lack of memory, otherwise 400. A client may send the request again after 503.
func BodyStatus(err error) int {
	var network net.Error
	switch {
	case errors.As(err, new(*http.MaxBytesError)), errors.Is(err, remote.ErrBodyTooLarge):
		return http.StatusRequestEntityTooLarge
	case errors.As(err, &network) && network.Timeout(), errors.Is(err, remote.ErrBodyMemory), budget.IsPoolExhausted(err):
		return http.StatusServiceUnavailable
	}
	return http.StatusBadRequest
}

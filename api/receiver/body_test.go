package receiver

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"halite/api/remote"
)

func TestBodyStatus(t *testing.T) {
	for want, failures := range map[int][]error{
		http.StatusRequestEntityTooLarge: {&http.MaxBytesError{Limit: 1}, remote.ErrBodyTooLarge},
		http.StatusServiceUnavailable:    {os.ErrDeadlineExceeded, remote.ErrBodyMemory},
		http.StatusBadRequest:            {io.ErrUnexpectedEOF, errors.New("invalid chunk")},
	} {
		for _, err := range failures {
			require.Equal(t, want, BodyStatus(fmt.Errorf("read: %w", err)), err)
		}
	}
}

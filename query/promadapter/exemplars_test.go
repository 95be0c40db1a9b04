package promadapter

import (
	"testing"

	promexemplar "github.com/prometheus/prometheus/model/exemplar"
	"github.com/stretchr/testify/require"

	"halite/keyschema"
)

func TestNewestPerHour(t *testing.T) {
	at := func(tsMs ...int64) (list []promexemplar.Exemplar) {
		for _, ts := range tsMs {
			list = append(list, promexemplar.Exemplar{Ts: ts})
		}
		return list
	}
	const hour = keyschema.HourMs
	all := []int64{1, 2, 2, 3, hour, 2*hour - 1, 5 * hour}
	require.Equal(t, at(all...), newestPerHour(at(all...), 0))
	require.Equal(t, at(2, 3, hour, 2*hour-1, 5*hour), newestPerHour(at(all...), 2))
	require.Equal(t, at(3, 2*hour-1, 5*hour), newestPerHour(at(all...), 1))
	require.Empty(t, newestPerHour(nil, 1))
}

package telnet

import (
	"errors"
	"fmt"

	"github.com/prometheus/client_golang/prometheus"
)

// Values of the label reason of tsdb_opentsdb_telnet_lines_lost_total.
const (
	lostLong     = "too_long"
	lostOverload = "overload"
	lostError    = "error"
)

type metrics struct {
	commands  *prometheus.CounterVec
	lost      *prometheus.CounterVec
	throttled prometheus.Counter
	unsent    prometheus.Counter
	panics    prometheus.Counter
}

func newMetrics(r prometheus.Registerer, connections func() float64) (metrics, error) {
	counter := func(name, help string) prometheus.Counter {
		return prometheus.NewCounter(prometheus.CounterOpts{Name: "tsdb_opentsdb_telnet_" + name, Help: help})
	}
	m := metrics{
		commands: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "tsdb_opentsdb_telnet_commands_total", Help: "Telnet commands without a data point, by command.",
		}, []string{"command"}),
		lost: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "tsdb_opentsdb_telnet_lines_lost_total",
			Help: "Telnet lines that were not read or not stored: too long, overload, or another error.",
		}, []string{"reason"}),
		throttled: counter("throttled_total", "Times that a connection stopped reading because the writer was overloaded."),
		unsent:    counter("responses_unsent_total", "Responses to bad lines dropped because the client did not read."),
		panics:    counter("panics_total", "Connections that ended because of a fault of the server."),
	}
	for _, reason := range []string{lostLong, lostOverload, lostError} {
		m.lost.WithLabelValues(reason)
	}
	for _, name := range append(commandNames(), unknownCommand) {
		m.commands.WithLabelValues(name)
	}
	if r == nil {
		return m, nil
	}
	var faults []error
	for _, c := range []prometheus.Collector{m.commands, m.lost, m.throttled, m.unsent, m.panics, prometheus.NewGaugeFunc(
		prometheus.GaugeOpts{Name: "tsdb_opentsdb_telnet_connections", Help: "Open telnet connections."}, connections,
	)} {
		faults = append(faults, r.Register(c))
	}
	if err := errors.Join(faults...); err != nil {
		return m, fmt.Errorf("register metrics of telnet: %w", err)
	}
	return m, nil
}

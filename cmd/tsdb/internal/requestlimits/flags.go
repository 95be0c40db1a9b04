package requestlimits

import (
	"strconv"
	"time"

	"github.com/alecthomas/kingpin/v2"
	"github.com/alecthomas/units"
	"github.com/prometheus/common/model"

	"halite/api"
	"halite/api/netlimit"
	"halite/cmd/tsdb/internal/program"
)

// Flags are the values of the flags. AddFlags declares them with their defaults. The fields that have no flag keep their zero
// value.
type Flags struct {
	// Connections bound the connections of all listeners, and the time for which a client holds one.
	Connections netlimit.Options
	// Requests bound single requests, and the requests of a kind that run at once.
	Requests api.Limits

	positive map[string]func() int64 // values that must be above 0, by the name of the flag
}

// AddFlags declares the flags.
func (f *Flags) AddFlags(cmd *kingpin.CmdClause) {
	f.positive = map[string]func() int64{}
	f.addConnections(cmd)
	f.addRequests(cmd)
}

// Positive returns the values that must be above 0, by the names of their flags.
func (f *Flags) Positive() map[string]int64 {
	values := make(map[string]int64, len(f.positive))
	for name, value := range f.positive {
		values[name] = value()
	}
	return values
}

func (f *Flags) addConnections(cmd *kingpin.CmdClause) {
	c := &f.Connections
	f.number(cmd, "web.max-connections", &c.ConnectionsMax, netlimit.DefaultConnectionsMax,
		"Maximum number of open connections. Further clients wait. The server closes idle connections to make room for them.")
	f.number(cmd, "web.max-streams", &c.StreamsMax, netlimit.DefaultStreamsMax,
		"Maximum number of concurrent requests of one HTTP/2 connection. Further requests wait.")
	f.duration(cmd, "web.header-timeout", &c.HeaderTimeout, netlimit.DefaultHeaderTimeout,
		"Maximum time in which a client sends the header of a request.")
	f.duration(cmd, "web.read-timeout", &c.ReadTimeout, netlimit.DefaultReadTimeout,
		"Maximum time in which a client sends a request, or each MiB of JSON lines. The server closes a connection that is unused "+
			"for this time.")
	f.duration(cmd, "web.send-timeout", &c.SendTimeout, netlimit.DefaultSendTimeout,
		"Time after which the server closes a connection whose client does not read the response.")
	f.duration(cmd, "web.idle-after", &c.IdleAfter, netlimit.DefaultIdleAfter,
		"Time after which a connection without a request is idle. The server closes idle connections only if other clients wait "+
			"for one.")
	f.duration(cmd, "web.slow-after", &c.SlowAfter, netlimit.DefaultSlowAfter,
		"Time after which a client that reads 64 KiB of a response is slow. The server ends responses of slow clients only if "+
			"queries need their memory, or if other clients wait for a connection.")
	f.size(cmd, "web.min-body-rate", &c.BodyRateMin, netlimit.DefaultBodyRateMin,
		"Minimum rate, in bytes a second, at which a client sends a body. The server ends slower bodies only if other clients wait "+
			"for a connection or for memory.")
	f.size(cmd, "web.max-header-bytes", &c.HeaderBytesMax, netlimit.DefaultHeaderBytesMax,
		"Maximum size of the header of a request, its URL included.")
}

func (f *Flags) addRequests(cmd *kingpin.CmdClause) {
	r := &f.Requests
	f.duration(cmd, "web.body-stall-timeout", &r.BodyStallTimeout, api.DefaultBodyStallTimeout,
		"Maximum time between two parts of the body of a request.")
	f.size(cmd, "web.max-form-bytes", &r.FormBytesMax, api.DefaultFormBytesMax,
		"Maximum size of the form in the body of a query or look-up.")
	f.size(cmd, "web.max-read-bytes", &r.ReadBytesMax, api.DefaultReadBytesMax,
		"Maximum size of the body of a remote read, both compressed and decoded.")
	f.number(cmd, "web.max-metrics-requests", &r.MetricsRequestsMax, api.DefaultMetricsRequestsMax,
		"Maximum number of requests of /metrics handled at once. More get 503.")
	f.duration(cmd, "ingest.queue-wait", &r.WriteQueueWait, api.DefaultWriteQueueWait,
		"Maximum time that a write waits for memory for its body. After that, the server refuses it with 503.")
	f.number(cmd, "query.max-lookups", &r.LookupConcurrencyMax, api.DefaultLookupConcurrencyMax,
		"Maximum number of look-ups of series and labels handled at once. More wait.")
	f.number(cmd, "query.max-reads", &r.ReadConcurrencyMax, api.DefaultReadConcurrencyMax,
		"Maximum number of remote reads, exports and federation requests handled at once. More wait.")
	f.duration(cmd, "query.read-timeout", &r.ReadTimeout, api.DefaultReadTimeout,
		"Maximum time of a remote read, an export or a federation request, including its wait. A streamed response may take this "+
			"time between two parts.")
	f.number(cmd, "query.max-read-samples", &r.ReadSamplesMax, api.DefaultReadSamplesMax,
		"Maximum number of samples in the response of a remote read that is not streamed. More get 400.")
	f.size(cmd, "query.max-frame-bytes", &r.ReadFrameBytesMax, api.DefaultReadFrameBytesMax,
		"Maximum size of a frame of a streamed remote read.")
}

// number declares a flag for a number above 0.
func (f *Flags) number(cmd *kingpin.CmdClause, name string, to *int, byDefault int, help string) {
	f.positive[name] = func() int64 { return int64(*to) }
	cmd.Flag(name, help).Default(strconv.Itoa(byDefault)).IntVar(to)
}

// duration declares a flag for a time above 0.
func (f *Flags) duration(cmd *kingpin.CmdClause, name string, to *time.Duration, byDefault time.Duration, help string) {
	f.positive[name] = func() int64 { return int64(*to) }
	cmd.Flag(name, help).Default(model.Duration(byDefault).String()).DurationVar(to)
}

// size declares a flag for a number of bytes above 0.
func (f *Flags) size(cmd *kingpin.CmdClause, name string, to *int64, byDefault int64, help string) {
	f.positive[name] = func() int64 { return *to }
	cmd.Flag(name, help).Default(units.Base2Bytes(byDefault).String()).SetValue(program.Bytes(to))
}

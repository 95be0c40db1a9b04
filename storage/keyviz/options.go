package keyviz

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"halite/storage"
	"halite/storage/keyviz/ranges"
)

const (
	// MemoryBytesMaxDefault is the default of Options.MemoryBytesMax, and MemoryBytesMin its smallest value.
	MemoryBytesMaxDefault = 32 << 20
	MemoryBytesMin        = 1 << 20
	// ServerDefault is the default of Options.Server.
	ServerDefault = "local"
	// serverBytesMax bounds Options.Server.
	serverBytesMax = 128
)

// Options of a Collector. Meta is required.
type Options struct {
	// Meta is table meta, which keeps the columns.
	Meta storage.Table
	// Server names this server in table meta. Servers with the same tables need different names. Default ServerDefault.
	Server string
	// Shared is set if other servers write to the same tables. Then heat maps show the sum of all servers.
	Shared bool
	// MemoryBytesMax bounds the memory of columns. Default MemoryBytesMaxDefault.
	MemoryBytesMax int64
	// RangesMax bounds the key ranges. Default ranges.RangesMaxDefault.
	RangesMax int
	// Now is the clock; nil means time.Now.
	Now func() time.Time
	// Logger logs for operators; nil discards all lines.
	Logger *slog.Logger
	// Registerer registers the metrics; nil means no registration.
	Registerer prometheus.Registerer
}

// Validate fills in defaults and lists every fault.
func (o *Options) Validate() error {
	var faults []error
	if o.Meta == nil {
		faults = append(faults, errors.New("keyviz: Meta is required"))
	}
	o.Server = cmp.Or(o.Server, ServerDefault)
	if len(o.Server) > serverBytesMax || strings.ContainsRune(o.Server, '#') {
		faults = append(faults, fmt.Errorf("keyviz: Server %.200q must have at most %d bytes and no '#'", o.Server, serverBytesMax))
	}
	o.MemoryBytesMax = cmp.Or(o.MemoryBytesMax, MemoryBytesMaxDefault)
	if o.MemoryBytesMax < MemoryBytesMin {
		faults = append(faults, fmt.Errorf("keyviz: MemoryBytesMax is %d; it must be at least %d", o.MemoryBytesMax,
			MemoryBytesMin))
	}
	o.RangesMax = cmp.Or(o.RangesMax, ranges.RangesMaxDefault)
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	return errors.Join(faults...)
}

func stripes() int { return min(runtime.GOMAXPROCS(0), ranges.StripesDefault) }

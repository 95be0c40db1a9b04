package opentsdb

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"time"

	"github.com/alecthomas/kingpin/v2"
	"github.com/alecthomas/units"
	"github.com/prometheus/client_golang/prometheus"

	"halite/api/auth"
	"halite/api/netlimit"
	api "halite/api/opentsdb"
	"halite/api/opentsdb/stats"
	"halite/api/opentsdb/telnet"
	"halite/api/receiver/opentsdb"
	"halite/api/senders"
	"halite/ingest"
	"halite/keyschema"
	"halite/storage/principal"
	"halite/storage/tenants"
)

// Flags are the flags of OpenTSDB's protocols.
type Flags struct {
	listenAddress string
	lineBytesMax  units.Base2Bytes
	writeWait     time.Duration
	specialChars  string
	tenant        string
}

// Add declares the flags on cmd.
func (f *Flags) Add(cmd *kingpin.CmdClause) {
	cmd.Flag("opentsdb.listen-address", "Address for OpenTSDB's clients: telnet and HTTP. Empty opens none. Telnet has "+
		"no authentication: on an address that other machines can reach, it needs --web.insecure.").StringVar(&f.listenAddress)
	cmd.Flag("opentsdb.max-line-bytes", "Maximum length of a telnet line.").Default("16KiB").BytesVar(&f.lineBytesMax)
	cmd.Flag("opentsdb.write-wait", "Maximum time that telnet lines wait while the server is overloaded. The server "+
		"does not read the connection meanwhile. After that, the lines are lost.").Default("1m").DurationVar(&f.writeWait)
	cmd.Flag("opentsdb.tenant", "Tenant to which telnet lines go, on a server with --tenants. Default: the default tenant.").
		StringVar(&f.tenant)
	cmd.Flag("opentsdb.special-chars", "Characters of metrics and tags that OpenTSDB's clients may use besides letters, digits and "+
		"-_./, as tsd.core.tag.allow_specialchars.").StringVar(&f.specialChars)
}

// Validate reports every fault of the flags.
func (f *Flags) Validate() error {
	var faults []error
	if f.lineBytesMax <= 0 || f.writeWait <= 0 {
		faults = append(faults, errors.New("--opentsdb.max-line-bytes and --opentsdb.write-wait must be above 0"))
	}
	if f.tenant != "" {
		if err := keyschema.CheckTenant(f.tenant); err != nil {
			faults = append(faults, fmt.Errorf("--opentsdb.tenant: %w", err))
		}
	}
	if _, err := f.Names(1); err != nil {
		faults = append(faults, err)
	}
	return errors.Join(faults...)
}

// Names returns the rules of names.
func (f *Flags) Names(tagsMax int) (*opentsdb.Names, error) {
	names, err := opentsdb.NewNames(f.specialChars, tagsMax)
	if err != nil {
		return nil, fmt.Errorf("--opentsdb.special-chars: %w", err)
	}
	return names, nil
}

// Port is the open address. A nil Port serves nothing.
type Port struct {
	flags    *Flags
	listener net.Listener
	split    *telnet.Split
	telnet   *telnet.Server
	http     *http.Server
}

// Listen opens the address. It returns nil if the flags name none. insecure permits an address that other machines can reach.
func (f *Flags) Listen(insecure bool, log *slog.Logger) (*Port, error) {
	if f.listenAddress == "" {
		return nil, nil
	}
	listener, err := net.Listen("tcp", f.listenAddress)
	if err != nil {
		return nil, fmt.Errorf("--opentsdb.listen-address: %w", err)
	}
	if !auth.Loopback(listener.Addr()) {
		if !insecure {
			return nil, errors.Join(fmt.Errorf("--opentsdb.listen-address: other machines can reach %s, and telnet has no "+
				"authentication; set --web.insecure to accept lines from everybody", listener.Addr()), listener.Close())
		}
		log.Warn("everybody who reaches this address can write by telnet (--web.insecure)", "address", listener.Addr().String())
	}
	return &Port{flags: f, listener: listener}, nil
}

// Addr is the address.
func (p *Port) Addr() net.Addr { return p.listener.Addr() }

// Options configure how a Port serves its address.
type Options struct {
	// Limiter bounds the connections, together with the main address.
	Limiter *netlimit.Limiter
	// Main answers HTTP requests, and Wrap adds the checks in front of all.
	Main http.Handler
	Wrap func(http.Handler) http.Handler
	TLS  *tls.Config

	Writer telnet.Writer
	// Tenants is the list of tenants; nil on a server without tenants.
	Tenants    *tenants.Registry
	Senders    *senders.Tracker
	Names      *opentsdb.Names
	Gatherer   prometheus.Gatherer
	Registerer prometheus.Registerer
	Version    string
	Now        func() time.Time
	Logger     *slog.Logger
}

// Serve begins to serve, and sends the error of HTTP to failed.
func (p *Port) Serve(o Options, failed chan<- error) (err error) {
	if p == nil {
		return nil
	}
	writer, err := p.flags.writerOf(o)
	if err != nil {
		return err
	}
	p.telnet, err = telnet.New(telnet.Options{
		Writer: writer, Senders: o.Senders, Names: o.Names, LineBytesMax: int(p.flags.lineBytesMax), WriteWait: p.flags.writeWait,
		Stats: Stats(o.Gatherer, o.Now).Lines, Version: o.Version, Registerer: o.Registerer, Logger: o.Logger,
	})
	if err != nil {
		return err
	}
	p.split = telnet.NewSplit(o.Limiter.Listener(p.listener), p.telnet.Serve)
	p.http = o.Limiter.HTTPServer(o.Wrap(api.Port(o.Main)))
	p.http.TLSConfig = o.TLS
	p.http.ErrorLog = slog.NewLogLogger(o.Logger.Handler(), slog.LevelDebug)
	go func() {
		serve := p.http.Serve
		if o.TLS != nil {
			serve = func(l net.Listener) error { return p.http.ServeTLS(l, "", "") }
		}
		if err := serve(p.split); !errors.Is(err, http.ErrServerClosed) && !errors.Is(err, net.ErrClosed) {
			failed <- fmt.Errorf("--opentsdb.listen-address: %w", err)
		}
	}()
	o.Logger.Info("listening for OpenTSDB's clients", "address", p.Addr().String())
	return nil
}

// StopListening closes the address at once.
func (p *Port) StopListening() {
	if p != nil {
		_ = p.listener.Close() // Close may have closed it
	}
}

// Stats returns the server's metrics as data points of OpenTSDB's stats.
func Stats(g prometheus.Gatherer, now func() time.Time) *stats.Source {
	host, err := os.Hostname()
	if err != nil {
		host = "localhost"
	}
	return &stats.Source{Gatherer: g, Host: host, Now: now}
}

// Close ends requests and connections gracefully, until ctx ends.
func (p *Port) Close(ctx context.Context) error {
	if p == nil {
		return nil
	}
	err := p.http.Shutdown(ctx) // closes the listener
	return errors.Join(err, p.telnet.Close(ctx))
}

// tenantWriter writes for a tenant.
type tenantWriter struct {
	telnet.Writer
	list *tenants.Registry
	who  *principal.Principal
}

// writerOf returns the writer of telnet lines.
func (f *Flags) writerOf(o Options) (telnet.Writer, error) {
	switch {
	case f.tenant == "":
		return o.Writer, nil
	case o.Tenants == nil:
		return nil, errors.New("--opentsdb.tenant needs --tenants")
	}
	who := &principal.Principal{Name: "telnet", Scopes: principal.Write, Tenants: []string{f.tenant}}
	return &tenantWriter{o.Writer, o.Tenants, who}, nil
}

// Write adds the tenant to the list if it is new. It fails if the tenant is unknown and writes add none, or while it is being
// dropped.
func (w *tenantWriter) Write(ctx context.Context, in ingest.Input) (ingest.Result, error) {
	if err := w.list.Ensure(ctx, w.who.Tenants[0]); err != nil {
		return ingest.Result{}, err
	}
	return w.Writer.Write(principal.With(ctx, w.who), in)
}

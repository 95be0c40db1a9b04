package bigtable

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"regexp"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/api/option"

	"halite/storage"
)

// Defaults of Options, and hard limits of the service.
const (
	RequestMutationsDefault   = storage.EntriesMax
	RequestBytesDefault       = 16 << 20
	RequestRowSetBytesDefault = 400 << 10
	WritesInFlightDefault     = 4
	ReadsInFlightDefault      = 2
	WriteTimeoutDefault       = 60 * time.Second
	ReadStallTimeoutDefault   = 60 * time.Second
	AdminTimeoutDefault       = 2 * time.Minute
	HotTabletsMaxDefault      = 100
	HotTabletsTimeoutDefault  = 10 * time.Second

	// requestBytesHardMax leaves room below the 256 MiB that a message may have.
	requestBytesHardMax = 200 << 20
	// requestRowSetBytesHardMax leaves room below the 512 KB that a read request may have.
	requestRowSetBytesHardMax = 500 << 10
	requestRowSetBytesMin     = 4 * storage.KeyBytesMax
	inFlightMax               = 64
	hotTabletsHardMax         = 10_000
	tablePrefixBytesMax       = 20
)

// Options configure Open. Project and Instance are required.
type Options struct {
	// Project and Instance name the Bigtable instance. An emulator takes any valid names.
	Project, Instance string
	// AppProfile names an app profile with single-cluster routing; empty means the instance's default profile.
	AppProfile string
	// Cluster names the cluster whose hot tablets HotTablets lists; empty lists none. An emulator has no hot tablets.
	Cluster string
	// TablePrefix is a prefix of all table names, so that several databases can share an instance. It has up to 20 characters
	// of [a-z0-9_.-].
	TablePrefix string
	// EmulatorHost is HOST:PORT of an emulator, which needs no credentials. If it is empty, BIGTABLE_EMULATOR_HOST applies. If
	// both are empty, Open connects to the service.
	EmulatorHost string
	// CheckTablesOnly is for accounts that may not administer tables. EnsureTable then fails with storage.ErrNoTable instead
	// of creating a table, and with storage.ErrSchemaMismatch instead of replacing a GC policy. The error contains the
	// command for an administrator.
	CheckTablesOnly bool
	// RequestMutationsMax bounds the entries of one write request; 0 is 100,000, the limit of the service.
	RequestMutationsMax int
	// RequestBytesMax bounds the keys, qualifiers and values of one write request; a single row may exceed it. 0 is
	// 16 MiB.
	RequestBytesMax int
	// RequestRowSetBytesMax bounds the keys and ranges of one read request; 0 is 400 KiB. The service limits the whole
	// request to 512 KB.
	RequestRowSetBytesMax int
	// WritesInFlightMax bounds the concurrent requests of one Apply or Load; 0 is 4.
	WritesInFlightMax int
	// ReadsInFlightMax bounds the concurrent requests of one ReadRows; 0 is 2.
	ReadsInFlightMax int
	// WriteTimeout bounds one write request with its retries; 0 is 60 s.
	WriteTimeout time.Duration
	// ReadStallTimeout bounds the wait of a read for the next message of the service, retries included; 0 is 60 s.
	ReadStallTimeout time.Duration
	// AdminTimeout bounds one call that lists, creates or changes tables or drops rows; 0 is 2 minutes.
	AdminTimeout time.Duration
	// HotTabletsMax bounds the hot tablets that HotTablets returns, by load. 0 is 100.
	HotTabletsMax int
	// HotTabletsTimeout bounds the call that lists hot tablets, with its retries; 0 is 10 s.
	HotTabletsTimeout time.Duration
	// ClientOptions are passed to the client last, for special endpoints or credentials.
	ClientOptions []option.ClientOption
	// Now is the clock for GC policies; nil is time.Now.
	Now func() time.Time
	// Logger receives messages for operators; nil discards them.
	Logger *slog.Logger
	// Registerer receives the metrics tsdb_bigtable_…; nil registers none.
	Registerer prometheus.Registerer
}

// Naming rules of the service.
const (
	projectPattern  = `^([a-z0-9.-]+:)?[a-z][a-z0-9-]{4,28}[a-z0-9]$`
	instancePattern = `^[a-z][a-z0-9-]{4,31}[a-z0-9]$`
	clusterPattern  = `^[a-z][a-z0-9-]{4,28}[a-z0-9]$`
	profilePattern  = `^[_a-zA-Z0-9][-_.a-zA-Z0-9]{0,49}$`
	prefixPattern   = `^([a-z0-9_][a-z0-9_.-]{0,19})?$`
)

// Validate reports every option that is missing or out of range.
func (o *Options) Validate() error {
	var errs []error
	check := func(bad bool, format string, args ...any) {
		if bad {
			errs = append(errs, fmt.Errorf(format, args...))
		}
	}
	name := func(what, value, pattern, example string) {
		if value == "" {
			errs = append(errs, fmt.Errorf("%s is required", what))
			return
		}
		check(!regexp.MustCompile(pattern).MatchString(value), "%s %q is not a valid name: a valid name looks like %s", what,
			value, example)
	}
	name("Project", o.Project, projectPattern, "my-project-123")
	name("Instance", o.Instance, instancePattern, "my-instance")
	if o.AppProfile != "" {
		name("AppProfile", o.AppProfile, profilePattern, "halite")
	}
	if o.Cluster != "" {
		name("Cluster", o.Cluster, clusterPattern, "my-instance-c1")
	}
	check(!regexp.MustCompile(prefixPattern).MatchString(o.TablePrefix),
		"TablePrefix %q must have at most %d characters of [a-z0-9_.-]", o.TablePrefix, tablePrefixBytesMax)
	between := func(what string, value, least, most int) {
		check(value != 0 && (value < least || value > most), "%s %d is outside %d-%d", what, value, least, most)
	}
	between("RequestMutationsMax", o.RequestMutationsMax, 1, storage.EntriesMax)
	between("RequestBytesMax", o.RequestBytesMax, 1, requestBytesHardMax)
	between("RequestRowSetBytesMax", o.RequestRowSetBytesMax, requestRowSetBytesMin, requestRowSetBytesHardMax)
	between("WritesInFlightMax", o.WritesInFlightMax, 1, inFlightMax)
	between("ReadsInFlightMax", o.ReadsInFlightMax, 1, inFlightMax)
	between("HotTabletsMax", o.HotTabletsMax, 1, hotTabletsHardMax)
	check(o.WriteTimeout < 0 || o.ReadStallTimeout < 0 || o.AdminTimeout < 0 || o.HotTabletsTimeout < 0,
		"WriteTimeout, ReadStallTimeout, HotTabletsTimeout or AdminTimeout is negative")
	if len(errs) > 0 {
		return fmt.Errorf("bigtable options: %w", errors.Join(errs...))
	}
	return nil
}

func (o Options) withDefaults() Options {
	o.RequestMutationsMax = cmp.Or(o.RequestMutationsMax, RequestMutationsDefault)
	o.RequestBytesMax = cmp.Or(o.RequestBytesMax, RequestBytesDefault)
	o.RequestRowSetBytesMax = cmp.Or(o.RequestRowSetBytesMax, RequestRowSetBytesDefault)
	o.WritesInFlightMax = cmp.Or(o.WritesInFlightMax, WritesInFlightDefault)
	o.ReadsInFlightMax = cmp.Or(o.ReadsInFlightMax, ReadsInFlightDefault)
	o.WriteTimeout = cmp.Or(o.WriteTimeout, WriteTimeoutDefault)
	o.ReadStallTimeout = cmp.Or(o.ReadStallTimeout, ReadStallTimeoutDefault)
	o.AdminTimeout = cmp.Or(o.AdminTimeout, AdminTimeoutDefault)
	o.HotTabletsMax = cmp.Or(o.HotTabletsMax, HotTabletsMaxDefault)
	o.HotTabletsTimeout = cmp.Or(o.HotTabletsTimeout, HotTabletsTimeoutDefault)
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	return o
}

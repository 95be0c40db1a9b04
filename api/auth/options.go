package auth

import (
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Options configure an Authenticator. Zero fields take the default that their comment names.
type Options struct {
	// WebConfigFile is the web configuration of Prometheus. Default none: no TLS and no users.
	WebConfigFile string
	// AccessFile holds tokens and rights. Default none: no tokens, and users have every right.
	AccessFile string
	// Tenants says that the server has tenants, so that entries of AccessFile may name them.
	Tenants bool
	// CheckInterval is the time between two checks of the files for changes. Default 5 s.
	CheckInterval time.Duration
	// FileBytesMax bounds each of the files. Default 1 MiB.
	FileBytesMax int64
	// PasswordChecksMax bounds the password checks that run at once. Each uses a CPU for 50 ms or more. Default 2.
	PasswordChecksMax int
	// PasswordQueueMax bounds the requests that wait for a password check. Default 100; more get 503.
	PasswordQueueMax int
	// Registerer registers the metrics; nil means they are not registered.
	Registerer prometheus.Registerer
	// Logger logs reloads and their errors; nil discards them.
	Logger *slog.Logger
	// Now is the clock; nil means time.Now.
	Now func() time.Time
}

// Default values of Options.
const (
	DefaultCheckInterval     = 5 * time.Second
	DefaultFileBytesMax      = 1 << 20
	DefaultPasswordChecksMax = 2
	DefaultPasswordQueueMax  = 100
)

// Validate fills in defaults and reports every fault.
func (o *Options) Validate() error {
	var faults []error
	setPositive(&o.CheckInterval, DefaultCheckInterval, "CheckInterval", &faults)
	setPositive(&o.FileBytesMax, DefaultFileBytesMax, "FileBytesMax", &faults)
	setPositive(&o.PasswordChecksMax, DefaultPasswordChecksMax, "PasswordChecksMax", &faults)
	setPositive(&o.PasswordQueueMax, DefaultPasswordQueueMax, "PasswordQueueMax", &faults)
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	return errors.Join(faults...)
}

func setPositive[T ~int | ~int64](v *T, def T, name string, faults *[]error) {
	if *v == 0 {
		*v = def
	}
	if *v < 0 {
		*faults = append(*faults, fmt.Errorf("api/auth: option %s is %d; it must be positive, or 0 for its default", name, *v))
	}
}

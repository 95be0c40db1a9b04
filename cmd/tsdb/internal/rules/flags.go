package rules

import (
	"errors"
	"time"

	"github.com/alecthomas/kingpin/v2"
)

// Flags are what the command line says about alerts. Their names and defaults are Prometheus's.
type Flags struct {
	OutageTolerance, ForGracePeriod, ResendDelay time.Duration
	QueueMax                                     int
}

// AddFlags declares the flags.
func (f *Flags) AddFlags(cmd *kingpin.CmdClause) {
	cmd.Flag("rules.alert.for-outage-tolerance", "Maximum time without the server after which it restores the \"for\" state of "+
		"alerts.").Default("1h").DurationVar(&f.OutageTolerance)
	cmd.Flag("rules.alert.for-grace-period", "Minimum time between the restoration of an alert and its notification, for alerts "+
		"with a longer \"for\".").Default("10m").DurationVar(&f.ForGracePeriod)
	cmd.Flag("rules.alert.resend-delay", "Minimum time before an alert is sent to Alertmanager again.").Default("1m").
		DurationVar(&f.ResendDelay)
	cmd.Flag("alertmanager.notification-queue-capacity", "Maximum number of alerts that wait for an Alertmanager. Older ones are "+
		"dropped and counted.").Default("10000").IntVar(&f.QueueMax)
}

// Validate reports every fault of the flags.
func (f *Flags) Validate() error {
	var faults []error
	if f.OutageTolerance < 0 || f.ForGracePeriod < 0 || f.ResendDelay < 0 {
		faults = append(faults, errors.New("--rules.alert.for-outage-tolerance, --rules.alert.for-grace-period and "+
			"--rules.alert.resend-delay must not be negative"))
	}
	if f.QueueMax <= 0 {
		faults = append(faults, errors.New("--alertmanager.notification-queue-capacity must be above 0"))
	}
	return errors.Join(faults...)
}

package rules

import (
	"fmt"
	"time"

	commonconfig "github.com/prometheus/common/config"
	promconfig "github.com/prometheus/prometheus/config"
	"github.com/prometheus/prometheus/promql/parser"

	"halite/cmd/tsdb/internal/config"
)

// Settings are the sections of a configuration file about rules and alerts, with the content of the rule files.
type Settings struct {
	Files                 *Files
	interval, queryOffset time.Duration
	alerting              *promconfig.Config
	// limitsTenants says that the configuration has limits of tenants.
	limitsTenants bool
}

// Load reads the rule files of a configuration, and checks what alerts need. Relative paths are below dir. The error lists the
// faults of all rule files.
func Load(c *config.Config, dir string, p parser.Parser) (*Settings, error) {
	files, err := ReadFiles(c.RulePatterns(dir), p)
	if err != nil {
		return nil, fmt.Errorf("rule_files: %w", err)
	}
	alerting, err := c.AlertingConfig(dir)
	if err != nil {
		return nil, fmt.Errorf("alerting: %w", err)
	}
	for i, a := range alerting.AlertingConfig.AlertmanagerConfigs {
		client, err := commonconfig.NewClientFromConfig(a.HTTPClientConfig, "alertmanager")
		if err != nil {
			return nil, fmt.Errorf("alerting.alertmanagers[%d]: %w", i, err)
		}
		client.CloseIdleConnections()
	}
	return &Settings{
		Files: files, interval: c.Global.Interval(), queryOffset: c.Global.QueryOffset(), alerting: alerting,
		limitsTenants: len(c.Tenants) > 0,
	}, nil
}

// RequireNoTenants returns an error that wraps ErrNoTenants if the configuration limits tenants, or a group names one.
func (s *Settings) RequireNoTenants() error {
	if s.limitsTenants {
		return fmt.Errorf("tenants: %w", ErrNoTenants)
	}
	if err := s.Files.RequireNoTenants(); err != nil {
		return fmt.Errorf("rule_files: %w", err)
	}
	return nil
}

package config

import (
	"fmt"
	"regexp"
	"slices"

	promconfig "github.com/prometheus/prometheus/config"
	_ "github.com/prometheus/prometheus/discovery/dns"  // dns_sd_configs
	_ "github.com/prometheus/prometheus/discovery/file" // file_sd_configs
	_ "github.com/prometheus/prometheus/discovery/http" // http_sd_configs
	"go.yaml.in/yaml/v2"
)

// Alerting says to which Alertmanagers alerts go. It has the fields and defaults of Prometheus. Secrets are in files only,
// because everybody with the scope read sees the configuration.
type Alerting struct {
	AlertRelabelConfigs []RelabelConfig `yaml:"alert_relabel_configs,omitempty"`
	Alertmanagers       []Alertmanager  `yaml:"alertmanagers,omitempty"`
}

// Alertmanager is a set of Alertmanagers that are reached in the same way.
type Alertmanager struct {
	Scheme              string          `yaml:"scheme,omitempty"`
	PathPrefix          string          `yaml:"path_prefix,omitempty"`
	Timeout             *Duration       `yaml:"timeout,omitempty"`
	APIVersion          string          `yaml:"api_version,omitempty"`
	StaticConfigs       []StaticConfig  `yaml:"static_configs,omitempty"`
	FileSDConfigs       []FileSD        `yaml:"file_sd_configs,omitempty"`
	DNSSDConfigs        []DNSSD         `yaml:"dns_sd_configs,omitempty"`
	HTTPSDConfigs       []HTTPSD        `yaml:"http_sd_configs,omitempty"`
	RelabelConfigs      []RelabelConfig `yaml:"relabel_configs,omitempty"`
	AlertRelabelConfigs []RelabelConfig `yaml:"alert_relabel_configs,omitempty"`
	HTTPClient          `yaml:",inline"`
}

// StaticConfig lists addresses.
type StaticConfig struct {
	Targets []string          `yaml:"targets,flow"`
	Labels  map[string]string `yaml:"labels,omitempty"`
}

// FileSD names files that list addresses.
type FileSD struct {
	Files           []string  `yaml:"files,flow"`
	RefreshInterval *Duration `yaml:"refresh_interval,omitempty"`
}

// DNSSD names records that list addresses.
type DNSSD struct {
	Names           []string  `yaml:"names,flow"`
	RefreshInterval *Duration `yaml:"refresh_interval,omitempty"`
	Type            string    `yaml:"type,omitempty"`
	Port            int       `yaml:"port,omitempty"`
}

// HTTPSD names a page that lists addresses.
type HTTPSD struct {
	URL             string    `yaml:"url"`
	RefreshInterval *Duration `yaml:"refresh_interval,omitempty"`
	HTTPClient      `yaml:",inline"`
}

// HTTPClient says how to log in, and which certificates to trust.
type HTTPClient struct {
	BasicAuth       *BasicAuth     `yaml:"basic_auth,omitempty"`
	Authorization   *Authorization `yaml:"authorization,omitempty"`
	TLSConfig       *TLSConfig     `yaml:"tls_config,omitempty"`
	ProxyURL        string         `yaml:"proxy_url,omitempty"`
	FollowRedirects *bool          `yaml:"follow_redirects,omitempty"`
}

// BasicAuth is a user with a password.
type BasicAuth struct {
	Username     string `yaml:"username,omitempty"`
	UsernameFile string `yaml:"username_file,omitempty"`
	PasswordFile string `yaml:"password_file,omitempty"`
}

// Authorization is the header of that name. Type is Bearer if it is empty.
type Authorization struct {
	Type            string `yaml:"type,omitempty"`
	CredentialsFile string `yaml:"credentials_file,omitempty"`
}

// TLSConfig names certificates.
type TLSConfig struct {
	CAFile             string `yaml:"ca_file,omitempty"`
	CertFile           string `yaml:"cert_file,omitempty"`
	KeyFile            string `yaml:"key_file,omitempty"`
	ServerName         string `yaml:"server_name,omitempty"`
	InsecureSkipVerify bool   `yaml:"insecure_skip_verify,omitempty"`
}

// config returns the set in the form of Prometheus, whose checks make the error.
func (a *Alertmanager) config() (*promconfig.AlertmanagerConfig, error) {
	text, err := yaml.Marshal(a)
	if err != nil {
		return nil, err
	}
	var out promconfig.AlertmanagerConfig
	if err := yaml.Unmarshal(text, &out); err != nil {
		return nil, err
	}
	return &out, nil
}

// validate reports what is wrong with values that have the right type.
func (a *Alerting) validate(fault func(field, format string, args ...any)) {
	for i := range a.AlertRelabelConfigs {
		a.AlertRelabelConfigs[i].validate(fmt.Sprintf("alerting.alert_relabel_configs[%d]", i), fault)
	}
	for i := range a.Alertmanagers {
		a.Alertmanagers[i].validate(fmt.Sprintf("alerting.alertmanagers[%d]", i), fault)
	}
}

func (a *Alertmanager) validate(field string, fault func(field, format string, args ...any)) {
	if !slices.Contains([]string{"", "http", "https"}, a.Scheme) {
		fault(field+".scheme", "%q is neither http nor https", shortened(a.Scheme))
	}
	if a.Timeout != nil && *a.Timeout <= 0 {
		fault(field+".timeout", "it must be above 0")
	}
	if len(a.StaticConfigs)+len(a.FileSDConfigs)+len(a.DNSSDConfigs)+len(a.HTTPSDConfigs) == 0 {
		fault(field, "no Alertmanager is named; want static_configs, file_sd_configs, dns_sd_configs or http_sd_configs")
	}
	for i := range a.RelabelConfigs {
		a.RelabelConfigs[i].validate(fmt.Sprintf("%s.relabel_configs[%d]", field, i), fault)
	}
	for i := range a.AlertRelabelConfigs {
		a.AlertRelabelConfigs[i].validate(fmt.Sprintf("%s.alert_relabel_configs[%d]", field, i), fault)
	}
	if _, err := a.config(); err != nil {
		// Prometheus repeats values after a line number of its own text.
		fault(field, "%s", linesOfYAML.ReplaceAllString(err.Error(), ""))
	}
}

// linesOfYAML is what the YAML library says about lines. Its lines are not lines of the file.
var linesOfYAML = regexp.MustCompile(`(yaml: )?(unmarshal errors:\n\s*)?line \d+: `)

// addTo adds the Alertmanagers to a configuration of Prometheus. Relative paths are below dir.
func (a *Alerting) addTo(out *promconfig.AlertingConfig, dir string) error {
	out.AlertRelabelConfigs = relabelling(a.AlertRelabelConfigs)
	for i := range a.Alertmanagers {
		theirs, err := a.Alertmanagers[i].config()
		if err != nil {
			return err
		}
		out.AlertmanagerConfigs = append(out.AlertmanagerConfigs, theirs)
	}
	out.SetDirectory(dir)
	return nil
}

package keyschema

import (
	"errors"
	"fmt"
	"strings"
)

const (
	// DefaultTenant owns the metrics whose stored names have no tenant prefix.
	DefaultTenant = "default"
	// TenantBytesMax is the longest name of a tenant.
	TenantBytesMax = 64
	// TenantLabel holds the tenant of a series in a result for several tenants. No stored series has it.
	TenantLabel = "__tenant_id__"
	// TenantMark encloses the tenant's name in front of a metric's name.
	TenantMark = '&'
)

// ErrBadTenant means that a text is not the name of a tenant.
var ErrBadTenant = errors.New("bad name of a tenant")

// CheckTenant returns an error if name is not the name of a tenant. A name has letters, digits, '-', '_' and '.'. It is
// neither "." nor "..", because names occur in paths. The error wraps [ErrBadTenant].
func CheckTenant(name string) error {
	switch {
	case name == "":
		return fmt.Errorf("%w: the name is empty", ErrBadTenant)
	case len(name) > TenantBytesMax:
		return fmt.Errorf("%w: the name has %d bytes, at most %d are allowed", ErrBadTenant, len(name), TenantBytesMax)
	case name == "." || name == "..":
		return fmt.Errorf("%w: %q is not allowed", ErrBadTenant, name)
	}
	for i := range len(name) {
		if !inTenant(name[i]) {
			return fmt.Errorf("%w: %q may have letters, digits, '-', '_' and '.' only", ErrBadTenant, name)
		}
	}
	return nil
}

func inTenant(b byte) bool {
	return b >= 'a' && b <= 'z' || b >= 'A' && b <= 'Z' || b >= '0' && b <= '9' || b == '-' || b == '_' || b == '.'
}

// TenantPrefix returns the prefix of the stored names of a tenant's metrics: "&name&", or "" for DefaultTenant.
func TenantPrefix(tenant string) string {
	if tenant == DefaultTenant {
		return ""
	}
	return string(TenantMark) + tenant + string(TenantMark)
}

// SplitTenant splits the stored name of a metric into the prefix of its tenant and the name that the tenant uses. The prefix
// is "" for DefaultTenant.
func SplitTenant(metric string) (prefix, name string) {
	if metric == "" || metric[0] != TenantMark {
		return "", metric
	}
	at := 1 + strings.IndexByte(metric[1:], TenantMark)
	if at == 0 || at+1 == len(metric) || CheckTenant(metric[1:at]) != nil || metric[1:at] == DefaultTenant {
		return "", metric
	}
	return metric[:at+1], metric[at+1:]
}

// TenantOf returns the tenant that owns a prefix from [SplitTenant] or [TenantPrefix].
func TenantOf(prefix string) string {
	if prefix == "" {
		return DefaultTenant
	}
	return prefix[1 : len(prefix)-1]
}

// TenantRows returns the range [start, end) of all row keys of a tenant other than DefaultTenant, in all tables whose keys
// begin with the metric. No other key lies in the range.
func TenantRows(tenant string) (start, end []byte) {
	prefix := []byte(TenantPrefix(tenant))
	return prefix, after(prefix)
}

// appendMetric appends a stored metric name in the form of row keys. It escapes everything except the tenant prefix.
func appendMetric(dst []byte, metric string) []byte {
	prefix, name := SplitTenant(metric)
	return AppendEscaped(append(dst, prefix...), name)
}

// unescapeMetric is the inverse of appendMetric.
func unescapeMetric(text string) (string, error) {
	prefix, rest := SplitTenant(text)
	name, err := unescape(rest)
	if err != nil {
		return "", err
	}
	if own, _ := SplitTenant(name); own != "" && prefix == "" {
		return "", fmt.Errorf("%w: the tenant of %q is escaped", ErrBadEscape, name)
	}
	return prefix + name, nil
}

// metricLen is the number of bytes that appendMetric appends.
func metricLen(metric string) int {
	prefix, name := SplitTenant(metric)
	return len(prefix) + escapedLen(name)
}

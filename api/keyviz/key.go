package keyviz

import (
	"encoding/base64"
	"fmt"
	"strconv"
	"strings"
	"time"

	"halite/keyschema"
)

// encodeKey returns a key as base64url without padding.
func encodeKey(key string) string { return base64.RawURLEncoding.EncodeToString([]byte(key)) }

// decodeKey is the inverse of encodeKey. It takes padding, too.
func decodeKey(name, text string) (string, error) {
	raw, err := base64.RawURLEncoding.DecodeString(strings.TrimRight(text, "="))
	if err != nil {
		return "", fmt.Errorf("%w: %s is not base64url: %w", ErrBadRequest, name, err)
	}
	if len(raw) > keyschema.KeyBytesMax {
		return "", fmt.Errorf("%w: %s has %d bytes, keys have at most %d", ErrBadRequest, name, len(raw), keyschema.KeyBytesMax)
	}
	return string(raw), nil
}

// keyText is a row key as text: keys of samples are printable ASCII and stay as they are.
func keyText(key string) string {
	quoted := strconv.QuoteToASCII(key)
	if quoted = quoted[1 : len(quoted)-1]; len(quoted) != len(key) {
		return quoted
	}
	return key
}

// labelsOf explains the start of a row, which may end within a key: "tenant:…", "metric:…", "salt:…", "tag:name=value" and
// "base:…". Fields outside of all keys stay as they are.
func labelsOf(start string) []string {
	labels := []string{}
	metric, rest, _ := strings.Cut(start, "#")
	if metric == "" {
		return labels
	}
	prefix, name := keyschema.SplitTenant(metric + "#") // a start may be only the tenant
	labels = append(labels, "tenant:"+keyschema.TenantOf(prefix))
	if name = strings.TrimSuffix(name, "#"); name == "" {
		return labels
	}
	labels = append(labels, "metric:"+plain(name))
	salt, rest, _ := strings.Cut(rest, "#")
	if salt == "" {
		return labels
	}
	labels = append(labels, "salt:"+salt)
	tags, hour, _ := strings.Cut(strings.TrimSuffix(rest, "$"), "#")
	for tag := range strings.SplitSeq(tags, ",") {
		if tag == "" {
			continue
		}
		name, value, found := strings.Cut(tag, "=")
		if !found {
			labels = append(labels, "tags:"+plain(tag))
			continue
		}
		labels = append(labels, "tag:"+plain(name)+"="+plain(strings.TrimPrefix(value, "+")))
	}
	if n, ok := keyschema.ParseHour([]byte(hour)); ok {
		labels = append(labels, "base:"+hourText(n))
	}
	return labels
}

func hourText(hour int64) string {
	return time.UnixMilli(keyschema.HourStartMs(hour)).UTC().Format("2006-01-02T15:04Z")
}

// plain unescapes a field, if that is possible.
func plain(field string) string {
	if text, err := keyschema.Unescape([]byte(field)); err == nil {
		return text
	}
	return field
}

// sampledKey is a row key with its parts.
type sampledKey struct {
	Key    string            `json:"key"`
	Metric string            `json:"metric,omitempty"`
	Salt   int               `json:"salt"`
	Base   string            `json:"base,omitempty"`
	Tags   map[string]string `json:"tags,omitempty"`
}

func sampled(keys []string) []sampledKey {
	out := make([]sampledKey, 0, len(keys))
	for _, key := range keys {
		s := sampledKey{Key: keyText(key)}
		if k, err := keyschema.ParseRowKey([]byte(key)); err == nil {
			s.Metric, s.Salt, s.Base = k.Metric, k.Salt, hourText(k.Hour)
			s.Tags = make(map[string]string, len(k.Tags))
			for _, tag := range k.Tags {
				s.Tags[tag.Name] = tag.Value
			}
		}
		out = append(out, s)
	}
	return out
}

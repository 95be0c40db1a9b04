package config

import (
	"strings"
	"time"

	"github.com/prometheus/common/model"
)

// Duration is a time like 30s, in whole milliseconds.
type Duration time.Duration

// MarshalText returns a text like 1m30s.
func (d Duration) MarshalText() ([]byte, error) { return []byte(model.Duration(d).String()), nil }

// UnmarshalText accepts what MarshalText returns.
func (d *Duration) UnmarshalText(text []byte) error {
	v, err := model.ParseDuration(string(text))
	*d = Duration(v)
	return err
}

// valueShown bounds the bytes of a value in a fault.
const valueShown = 60

func shortened(value string) string {
	if len(value) <= valueShown {
		return value
	}
	return strings.ToValidUTF8(value[:valueShown], "") + "…"
}

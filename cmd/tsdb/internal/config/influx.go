package config

import (
	"github.com/prometheus/common/model"

	"halite/api/receiver/influx"
)

// separatorBytesMax bounds a separator, because it is a part of metric names.
const separatorBytesMax = 64

// Influx holds the options of InfluxDB's line protocol. See influx.Options.
type Influx struct {
	DBLabel         *string `yaml:"db_label,omitempty"`
	Separator       *string `yaml:"separator,omitempty"`
	KeepValue       bool    `yaml:"keep_value,omitempty"`
	SkipSingleField bool    `yaml:"skip_single_field,omitempty"`
	SkipMeasurement bool    `yaml:"skip_measurement,omitempty"`
}

// options returns the options in the form of the protocol. Nil has the defaults.
func (i *Influx) options() influx.Options {
	out := influx.DefaultOptions()
	if i == nil {
		return out
	}
	if i.DBLabel != nil {
		out.DatabaseLabel = *i.DBLabel
	}
	if i.Separator != nil {
		out.Separator = *i.Separator
	}
	out.KeepValue, out.SkipSingleField, out.SkipMeasurement = i.KeepValue, i.SkipSingleField, i.SkipMeasurement
	return out
}

func (i *Influx) validate(fault func(field, format string, args ...any)) {
	o := i.options()
	if label := o.DatabaseLabel; label != "" && (!model.UTF8Validation.IsValidLabelName(label) || label == model.MetricNameLabel) {
		fault("influx.db_label", "%q is not the name of a label", shortened(label))
	}
	if len(o.Separator) > separatorBytesMax {
		fault("influx.separator", "%q has more than %d bytes", shortened(o.Separator), separatorBytesMax)
	}
	if o.SkipSingleField && o.SkipMeasurement {
		fault("influx.skip_measurement", "it cannot be combined with skip_single_field: nothing would name the metric")
	}
}

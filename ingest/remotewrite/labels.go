package remotewrite

import (
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/prompb"
	"google.golang.org/protobuf/encoding/protowire"
)

const (
	labelName  = 1
	labelValue = 2
)

// AppendLabels parses label fields such as Series.Labels. The offset of a *FormatError counts from the first field. The
// strings share one copy of the bytes.
func AppendLabels(dst []prompb.Label, fields []byte) ([]prompb.Label, error) {
	text := string(fields)
	for pos := 0; pos < len(fields); {
		from, to, err := labelMessage(fields, pos)
		if err != nil {
			return dst, err
		}
		name, value, err := label(fields, from, to)
		if err != nil {
			return dst, err
		}
		pos = to
		dst = append(dst, prompb.Label{Name: text[name.from:name.to], Value: text[value.from:value.to]})
	}
	return dst, nil
}

// CheckLabels returns the error that AppendLabels would return, and does not allocate.
func CheckLabels(fields []byte) error {
	for pos := 0; pos < len(fields); {
		from, to, err := labelMessage(fields, pos)
		if err != nil {
			return err
		}
		if _, _, err := label(fields, from, to); err != nil {
			return err
		}
		pos = to
	}
	return nil
}

// labelMessage finds the extent of the Label message whose tag is at pos.
func labelMessage(fields []byte, pos int) (from, to int, err error) {
	field, wire, next, err := tag(fields, pos, len(fields))
	if err != nil {
		return 0, 0, err
	}
	if field != seriesLabel || wire != wireBytes {
		return 0, 0, formatError(pos, "field %d of wire type %d among the labels", field, wire)
	}
	return lengthDelimited(fields, next, len(fields))
}

type extent struct{ from, to int }

// label finds name and value of the Label message in b[pos:end]. As everywhere in protobuf, the last of several values wins.
func label(b []byte, pos, end int) (name, value extent, err error) {
	for pos < end {
		at := pos
		field, wire, next, err := tag(b, pos, end)
		if err != nil {
			return name, value, err
		}
		if field != labelName && field != labelValue {
			if pos, err = skip(b, wire, next, end); err != nil {
				return name, value, err
			}
			continue
		}
		if err := expectType("a label's text", wire, wireBytes, at); err != nil {
			return name, value, err
		}
		var e extent
		if e.from, e.to, err = lengthDelimited(b, next, end); err != nil {
			return name, value, err
		}
		pos = e.to
		if field == labelName {
			name = e
		} else {
			value = e
		}
	}
	return name, value, nil
}

// AppendFields writes a label set as the label fields of a TimeSeries, byte for byte as Prometheus does.
func AppendFields(dst []byte, ls labels.Labels) []byte {
	ls.Range(func(l labels.Label) { dst = AppendField(dst, l.Name, l.Value) })
	return dst
}

// AppendPairs is AppendFields for a label set in a slice.
func AppendPairs(dst []byte, ls []labels.Label) []byte {
	for n := range ls {
		dst = AppendField(dst, ls[n].Name, ls[n].Value)
	}
	return dst
}

// AppendField writes one label as a label field.
func AppendField[T string | []byte](dst []byte, name, value T) []byte {
	size := 0
	if len(name) > 0 {
		size += 1 + protowire.SizeBytes(len(name))
	}
	if len(value) > 0 {
		size += 1 + protowire.SizeBytes(len(value))
	}
	dst = protowire.AppendVarint(append(dst, seriesLabel<<3|wireBytes), uint64(size))
	if len(name) > 0 {
		dst = protowire.AppendVarint(append(dst, labelName<<3|wireBytes), uint64(len(name)))
		dst = append(dst, name...)
	}
	if len(value) > 0 {
		dst = protowire.AppendVarint(append(dst, labelValue<<3|wireBytes), uint64(len(value)))
		dst = append(dst, value...)
	}
	return dst
}

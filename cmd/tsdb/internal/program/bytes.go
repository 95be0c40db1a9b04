package program

import (
	"fmt"
	"strconv"

	"github.com/alecthomas/kingpin/v2"
	"github.com/alecthomas/units"
)

// Units is the text in the help of byte flags about their values.
const Units = "Sizes are numbers of bytes, or have a unit: B, KB, MB, GB, TB or PB. 1KB and 1KiB are 1024 bytes."

// bytesValue is the value of a flag for a size in bytes.
type bytesValue struct{ to *int64 }

// Bytes returns a value for a size in bytes, such as 1048576 or 1MB. Units are powers of 1024.
func Bytes(to *int64) kingpin.Value { return bytesValue{to} }

// Set implements kingpin.Value.
func (v bytesValue) Set(text string) error {
	size, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		var parsed units.Base2Bytes
		parsed, err = units.ParseBase2Bytes(text)
		size = int64(parsed)
	}
	if err != nil || size < 0 {
		return fmt.Errorf("%q is not a number of bytes, such as 1048576 or 1MB; units are KB, MB, GB, TB and PB", text)
	}
	*v.to = size
	return nil
}

// String implements kingpin.Value.
func (v bytesValue) String() string { return units.Base2Bytes(*v.to).String() }

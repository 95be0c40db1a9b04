package segment

import (
	"crypto/rand"
	"encoding/hex"
	"fmt"
)

// NewWriter returns a random name for Options.Writer.
func NewWriter() string {
	var raw [writerDigits / 2]byte
	_, _ = rand.Read(raw[:]) // never fails
	return hex.EncodeToString(raw[:])
}

func CheckWriter(name string) error {
	if raw, err := hex.DecodeString(name); err != nil || len(raw) != writerDigits/2 || hex.EncodeToString(raw) != name {
		return fmt.Errorf("index: Options.Writer is %q; it must be %d lower-case hexadecimal digits", name, writerDigits)
	}
	return nil
}

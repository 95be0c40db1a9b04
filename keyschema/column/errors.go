package column

import (
	"errors"
	"fmt"
)

// ErrCorrupt means that the encoder cannot have written the bytes. They are damaged, or a newer version wrote them. No
// retry helps.
var ErrCorrupt = errors.New("corrupt encoding")

// Corrupt returns an error that wraps [ErrCorrupt] and says what is wrong.
func Corrupt(format string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrCorrupt, fmt.Sprintf(format, args...))
}

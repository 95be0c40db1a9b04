package keyschema

// AppendEscaped appends the escaped form of s.
func AppendEscaped(dst []byte, s string) []byte { panic("declared") }

// Unescape is the inverse of AppendEscaped.
func Unescape(src []byte) (string, error) { panic("declared") }

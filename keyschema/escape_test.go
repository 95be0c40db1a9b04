package keyschema

import (
	"bytes"
	"cmp"
	"errors"
	"strings"
	"testing"
)

func TestEscapeEveryByte(t *testing.T) {
	for b := range 256 {
		s := string([]byte{byte(b)})
		escaped := AppendEscaped(nil, s)
		for _, c := range escaped {
			if c <= ' ' || c > '~' || strings.ContainsRune("#,=+$%", rune(c)) {
				t.Errorf("byte 0x%02x escapes to %q", b, escaped)
			}
		}
		if got, err := Unescape(escaped); err != nil || got != s {
			t.Errorf("byte 0x%02x: %q, %v", b, got, err)
		}
		if b > 0 && bytes.Compare(AppendEscaped(nil, string([]byte{byte(b - 1)})), escaped) >= 0 {
			t.Errorf("byte 0x%02x does not sort behind its predecessor", b)
		}
	}
}

func TestEscapeKeepsOrder(t *testing.T) {
	r := newRand(t)
	for range 20_000 {
		a, b := randomText(r, 5), randomText(r, 5)
		escapedA, escapedB := AppendEscaped(nil, a), AppendEscaped(nil, b)
		if cmp.Compare(a, b) != bytes.Compare(escapedA, escapedB) {
			t.Fatalf("%q and %q do not compare like %q and %q", a, b, escapedA, escapedB)
		}
		if back, err := Unescape(escapedA); err != nil || back != a {
			t.Fatalf("%q comes back as %q, %v", a, back, err)
		}
		if len(escapedA) != escapedLen(a) {
			t.Fatalf("escapedLen(%q) = %d, want %d", a, escapedLen(a), len(escapedA))
		}
	}
}

func TestUnescapeRefuses(t *testing.T) {
	for _, text := range []string{
		"#", ",", "=", " ", "\x00", "\xff", "é", // never raw
		"!", "!2", "a~F", "<3", // cut off
		"!2d", "!2D", "!61", "~41", "<3E", "~20", "!7E", "!FF", "<20", // a byte under the wrong lead, or literal
		"!2g", "!G0", "! 1", "~ff", "!-1", "%20", "+",
	} {
		if got, err := Unescape([]byte(text)); !errors.Is(err, ErrBadEscape) {
			t.Errorf("Unescape(%q) = %q, %v", text, got, err)
		}
	}
}

func FuzzUnescape(f *testing.F) {
	for _, s := range append(awkward, "GET!20/api", "!", "~FF~FE", "<3C<3D", "plain.text-1") {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		if s, err := Unescape(text); err == nil {
			if back := AppendEscaped(nil, s); !bytes.Equal(back, text) {
				t.Fatalf("%q is a second escaped form of %q, the first is %q", text, s, back)
			}
		} else if !errors.Is(err, ErrBadEscape) {
			t.Fatalf("error %v", err)
		}
		if back, err := Unescape(AppendEscaped(nil, string(text))); err != nil || back != string(text) {
			t.Fatalf("%q comes back as %q, %v", text, back, err)
		}
	})
}

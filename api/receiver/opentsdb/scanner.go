package opentsdb

import (
	"encoding/json"
	"errors"
	"fmt"
)

// scanner reads JSON from a text. It makes no copies of strings without escapes.
type scanner struct {
	text []byte
	at   int
}

// depthMax bounds arrays and objects within each other.
const depthMax = 100

var (
	errEnd    = errors.New("unexpected end")
	errDepth  = errors.New("too many levels")
	errScalar = errors.New("a string or number is required here")
)

func (s *scanner) failf(format string, args ...any) error {
	return fmt.Errorf("byte %d: %w", s.at, fmt.Errorf(format, args...))
}

// peek skips white space and returns the next byte, 0 at the end.
func (s *scanner) peek() byte {
	for ; s.at < len(s.text); s.at++ {
		switch c := s.text[s.at]; c {
		case ' ', '\t', '\n', '\r':
		default:
			return c
		}
	}
	return 0
}

// expect skips white space and reads the given byte.
func (s *scanner) expect(c byte) error {
	switch found := s.peek(); {
	case found == c:
		s.at++
		return nil
	case s.at == len(s.text):
		return s.failf("%w instead of %q", errEnd, c)
	default:
		return s.failf("%q instead of %q", found, c)
	}
}

// next goes to the next element of an array or object that ends in end. first is set before the first element.
func (s *scanner) next(end byte, first *bool) (bool, error) {
	if s.peek() == end {
		s.at++
		return false, nil
	}
	if !*first {
		if err := s.expect(','); err != nil {
			return false, err
		}
	}
	*first = false
	return true, nil
}

// name reads the name of a member, and the colon.
func (s *scanner) name() ([]byte, error) {
	name, err := s.string()
	if err != nil {
		return nil, err
	}
	return name, s.expect(':')
}

// string reads a string.
func (s *scanner) string() ([]byte, error) {
	if err := s.expect('"'); err != nil {
		return nil, err
	}
	from, escaped := s.at, false
	for ; ; s.at++ {
		if s.at >= len(s.text) {
			s.at = len(s.text)
			return nil, s.failf("%w in a string", errEnd)
		}
		c := s.text[s.at]
		if c == '"' {
			break
		}
		if c == '\\' {
			escaped = true
			s.at++
		} else if c < ' ' {
			return nil, s.failf("control character %#x in a string", c)
		}
	}
	s.at++
	raw := s.text[from : s.at-1]
	if !escaped {
		return raw, nil
	}
	var text string
	if err := json.Unmarshal(s.text[from-1:s.at], &text); err != nil {
		return nil, s.failf("%w", err)
	}
	return []byte(text), nil
}

// scalar reads a string, number, boolean or null as a text. null is nil.
func (s *scanner) scalar() ([]byte, error) {
	switch s.peek() {
	case '"':
		text, err := s.string()
		if text == nil {
			text = []byte{}
		}
		return text, err
	case '{', '[':
		return nil, s.failf("%w", errScalar)
	}
	from := s.at
	for ; s.at < len(s.text); s.at++ {
		switch s.text[s.at] {
		case ',', '}', ']', ' ', '\t', '\n', '\r':
			return s.literal(s.text[from:s.at])
		}
	}
	return s.literal(s.text[from:])
}

// literal checks a number, boolean or null.
func (s *scanner) literal(text []byte) ([]byte, error) {
	switch {
	case plainNumber(text):
		return text, nil
	case len(text) == 0:
		return nil, s.failf("a value is missing")
	case string(text) == "null":
		return nil, nil
	case !json.Valid(text):
		return nil, s.failf("%q is not a value", clip(text))
	}
	return text, nil
}

// plainNumber reports whether a text is a number of digits with at most one dot, the usual form. Other numbers need json.Valid.
func plainNumber(text []byte) bool {
	dot := len(text)
	for n, c := range text {
		switch {
		case c >= '0' && c <= '9':
		case c == '.' && dot == len(text):
			dot = n
		default:
			return false
		}
	}
	return dot > 0 && dot != len(text)-1 && (text[0] != '0' || dot == 1)
}

// skip reads any value.
func (s *scanner) skip(depth int) error {
	c := s.peek()
	if c != '{' && c != '[' {
		_, err := s.scalar()
		return err
	}
	if depth == depthMax {
		return s.failf("%w", errDepth)
	}
	s.at++
	for first := true; ; {
		more, err := s.next(c+2, &first) // the closing bracket in ASCII
		if err != nil || !more {
			return err
		}
		if c == '{' {
			if _, err := s.name(); err != nil {
				return err
			}
		}
		if err := s.skip(depth + 1); err != nil {
			return err
		}
	}
}

// members calls read for each member of an object.
func (s *scanner) members(read func(name []byte) error) error {
	if err := s.expect('{'); err != nil {
		return err
	}
	for first := true; ; {
		more, err := s.next('}', &first)
		if err != nil || !more {
			return err
		}
		name, err := s.name()
		if err != nil {
			return err
		}
		if err := read(name); err != nil {
			return err
		}
	}
}
